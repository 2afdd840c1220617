import { execFile } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'
import { delimiter, dirname, isAbsolute, join } from 'node:path'
import { promisify } from 'node:util'
import { environment } from '../config/environment.ts'

const run = promisify(execFile)

/** milliseconds */
const timeout = 10_000

export interface TesseractProgram {
  /** absolute path */
  readonly command: string
  /** where it may keep its models */
  readonly folders: readonly string[]
}

/** The tesseract program on the PATH, of version 4 or later (the first with LSTM networks); null where there is none that runs. */
export async function findTesseract(): Promise<TesseractProgram | null> {
  try {
    const command = onPath('tesseract')
    if (command === null) return null
    // Without TESSDATA_PREFIX, which may be meant for somebody else.
    const list = await run(command, ['--list-langs'], { env: { LC_ALL: 'C' }, timeout })
    const told = /^List of .* in "(.+)"/m.exec(list.stdout + list.stderr)?.[1]
    // Those that say the folder are of version 5 or later; to ask takes another process.
    if (told === undefined && (await majorOf(command)) < 4) return null
    return { command, folders: [...(told ? [told] : []), join(dirname(command), '../share/tessdata')] }
  } catch {
    return null
  }
}

async function majorOf(command: string): Promise<number> {
  const version = await run(command, ['--version'], { timeout })
  return Number(/tesseract v?(\d+)/.exec(version.stdout + version.stderr)?.[1] ?? 0)
}

function onPath(name: string): string | null {
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
