/** Folders: creating them, and flushing the names in them. */
import { existsSync } from 'node:fs'
import { mkdir, open, stat } from 'node:fs/promises'
import { dirname } from 'node:path'

/**
 * Creates a folder and its missing parents. Returns the topmost folder that it created; undefined if the folder exists. mkdir() with `recursive` never
 * returns if a file system takes no folders, such as /proc. Throws the errors of mkdir().
 */
export async function createFolder(path: string, mode?: number): Promise<string | undefined> {
  const create = () =>
    mkdir(path, { mode }).then(
      () => path,
      async (error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST' || !(await stat(path)).isDirectory()) throw error
        return undefined
      },
    )
  try {
    return await create()
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
  const top = existsSync(dirname(path)) ? undefined : await createFolder(dirname(path), mode)
  const created = await create()
  return top ?? created
}

/** Flushes the names in a folder. */
export async function flushFolder(path: string): Promise<void> {
  const handle = await open(path)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
