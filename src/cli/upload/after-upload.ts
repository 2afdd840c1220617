/** Handling of a local file after its upload. */
import { constants, copyFile, link, mkdir, stat, unlink } from 'node:fs/promises'
import { basename, dirname, extname, join } from 'node:path'
import { Failure, usage } from '../runtime/exit.ts'
import type { FoundFile } from './find-files.ts'

export interface AfterUpload {
  /** files stay; otherwise they must match the content on the server */
  readonly isKept: boolean
  /** Deletes or moves the file. Throws Failure CONFLICT if it has changed since it was sent. */
  apply(file: FoundFile): Promise<void>
}

/** Parses keep, delete, or move:DIR. Throws Failure USAGE. */
export function parseAfterUpload(given: string): AfterUpload {
  if (given === 'keep') return { isKept: true, apply: async () => {} }
  const remove = given === 'delete' ? unlink : null
  const folder = /^move:(.+)$/s.exec(given)?.[1]
  if (!remove && folder === undefined) throw usage(`--after-upload ${given}: keep, delete, or move:DIR`)
  return {
    isKept: false,
    async apply(file) {
      await rejectChanged(file)
      if (remove) await remove(file.path)
      else await move(file.path, join(folder ?? '', file.relativePath))
    },
  }
}

/** A scanner may still have been writing. */
async function rejectChanged({ path, size, mtimeNs }: FoundFile): Promise<void> {
  const about = await stat(path, { bigint: true })
  if (Number(about.size) !== size || String(about.mtimeNs) !== mtimeNs)
    throw new Failure('CONFLICT', 'changed while it was being sent; it was uploaded as it was, and left where it is')
}

/** Moves a file without replacing another: adds a number to the name if it is taken. */
async function move(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true })
  const extension = extname(to)
  const stem = join(dirname(to), basename(to, extension))
  for (let number = 1; ; number++) {
    const path = number === 1 ? to : `${stem} (${number})${extension}`
    try {
      await linkOrCopy(from, path)
      return await unlink(from)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
  }
}

/** Creates a hard link, or a copy if the file system does not support it. */
async function linkOrCopy(from: string, to: string): Promise<void> {
  try {
    await link(from, to)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw error
    await copyFile(from, to, constants.COPYFILE_EXCL)
  }
}
