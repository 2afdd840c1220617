/** Handling of a local file after its upload. */
import { constants, copyFile, link, lstat, open, realpath, stat, unlink } from 'node:fs/promises'
import { basename, dirname, join, relative, resolve, sep } from 'node:path'
import { extensionOf } from '../../documents/file-names.ts'
import { createFolder, flushFolder } from '../../folders.ts'
import { removeStaleParts, renameWithoutOverwrite, temporaryPath } from '../remote/save-file.ts'
import { Failure, usage } from '../runtime/exit.ts'
import type { FoundFile } from './find-files.ts'
import { hashFoundFile } from './upload-cache.ts'

export interface AfterUpload {
  /** files stay; otherwise the server must have their content */
  readonly isKept: boolean
  /** Deletes or moves the file, which was sent with this checksum. Throws Failure CONFLICT if it has changed since. */
  apply(file: FoundFile, sha256: string): Promise<void>
}

/** Parses keep, delete, or move:DIR. Throws Failure USAGE. */
export function parseAfterUpload(action: string): AfterUpload {
  if (action === 'keep') return { isKept: true, apply: async () => {} }
  if (action === 'delete') return { isKept: false, apply: (file, sha256) => remove(file, sha256).catch(ignoreMissing) }
  const folder = /^move:(.+)$/s.exec(action)?.[1]
  if (folder === undefined) throw usage(`--after-upload ${action}: not keep, delete or move:DIR`)
  const copyFolders = new Set<string>()
  return {
    isKept: false,
    async apply(file, sha256) {
      await rejectReplaced(file, sha256)
      await move(file, join(folder, file.relativePath), copyFolders)
    },
  }
}

async function remove(file: FoundFile, sha256: string): Promise<void> {
  await rejectReplaced(file, sha256)
  await unlink(file.path)
}

/** Somebody else may have deleted the file meanwhile. */
const ignoreMissing = (error: NodeJS.ErrnoException): void => {
  if (error.code !== 'ENOENT') throw error
}

/**
 * Throws Failure USAGE for move:DIR if DIR is inside an uploaded folder, because its files would be uploaded and moved again. DIR may be a hidden
 * folder (name with a leading dot): uploads skip these.
 */
export async function assertMovesOut(action: string, folders: readonly string[]): Promise<void> {
  const target = /^move:(.+)$/s.exec(action)?.[1]
  if (target === undefined) return
  const real = await realPathOf(resolve(target))
  for (const folder of folders) {
    const inner = relative(await realpath(folder), real)
    const isOutside = inner === '..' || inner.startsWith(`..${sep}`)
    if (isOutside || inner.split(sep).some((name) => name.startsWith('.'))) continue
    throw usage(
      `--after-upload ${action}: the folder lies in ${folder}, where its files would be uploaded again`,
      'move to a folder outside',
    )
  }
}

/** Returns the path without symbolic links, also of a folder that does not exist yet. */
async function realPathOf(path: string): Promise<string> {
  return realpath(path).catch(async (error) => {
    if (error.code !== 'ENOENT' || dirname(path) === path) throw error
    return join(await realPathOf(dirname(path)), basename(path))
  })
}

const changed = (): Failure =>
  new Failure('CONFLICT', 'the file changed during its upload; the earlier content was uploaded, and the file stays')

/**
 * Throws Failure CONFLICT if the file has changed, or another one has replaced it. Call it before linking the file, which changes its status change time.
 * So do `chmod` and the removal of another hard link: then the bytes decide.
 */
async function rejectReplaced(file: FoundFile, sha256: string): Promise<void> {
  const ctimeNs = await rejectChanged(file)
  if (ctimeNs === file.ctimeNs) return
  if ((await hashFoundFile(file, undefined)) !== sha256 || (await rejectChanged(file)) !== ctimeNs) throw changed()
}

/** Throws Failure CONFLICT if the file has changed: a scanner may still have been writing. Returns its status change time. */
async function rejectChanged({ path, size, mtimeNs, inode }: FoundFile): Promise<string> {
  const stats = await stat(path, { bigint: true })
  if (Number(stats.size) !== size || `${stats.mtimeNs}` !== mtimeNs || `${stats.ino}` !== inode) throw changed()
  return `${stats.ctimeNs}`
}

/**
 * Moves a file without replacing another: adds a number to the name if it is taken. Of a symbolic link, it moves a copy of the file. `copyFolders` collects the
 * folders that got copies. Throws Failure CONFLICT if the file changes meanwhile.
 */
async function move(file: FoundFile, to: string, copyFolders: Set<string>): Promise<void> {
  await createFolder(dirname(to))
  const extension = extensionOf(basename(to))
  const stem = to.slice(0, to.length - extension.length)
  for (let number = 1; ; number++) {
    const path = number === 1 ? to : `${stem} (${number})${extension}`
    try {
      await linkOrCopy(file.path, path, copyFolders)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
      continue
    }
    try {
      // The copy of a large file takes minutes.
      await rejectChanged(file)
      return await unlink(file.path)
    } catch (error) {
      // The file stays, so that the next run moves it. Without it, this is the last one.
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') await unlink(path)
      throw error
    }
  }
}

/** Creates a hard link, or a flushed copy if the file system does not support it. A kill leaves no incomplete file at `to`. */
async function linkOrCopy(from: string, to: string, copyFolders: Set<string>): Promise<void> {
  // A hard link to a symbolic link would point to nothing if that is relative.
  const isLinked = !(await lstat(from)).isSymbolicLink() && (await link(from, to).then(() => true, rejectTaken))
  if (isLinked) return
  const folder = dirname(to)
  if (!copyFolders.has(folder)) await removeStaleParts(folder)
  copyFolders.add(folder)
  const temporary = temporaryPath(to)
  try {
    await copyFile(from, temporary, constants.COPYFILE_EXCL)
    const copy = await open(temporary, 'r')
    await copy.sync().finally(() => copy.close())
    await renameWithoutOverwrite(temporary, to)
    await flushFolder(folder)
  } finally {
    await unlink(temporary).catch(() => {})
  }
}

function rejectTaken(error: NodeJS.ErrnoException): false {
  if (error.code === 'EEXIST') throw error
  return false
}
