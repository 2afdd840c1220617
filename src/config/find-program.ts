/** Search for programs on the PATH. */
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, isAbsolute, join } from 'node:path'
import { environment } from './environment.ts'

/** Returns the absolute path of a program, null if it is not on the PATH. */
export function findProgram(name: string): string | null {
  const folders = (environment().PATH ?? '').split(delimiter).filter((folder) => isAbsolute(folder))
  return folders.map((folder) => join(folder, name)).find(isProgram) ?? null
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}
