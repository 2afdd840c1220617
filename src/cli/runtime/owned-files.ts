/**
 * New files and folders in a user's home. If root creates them, they get the owner of the folder they are in: otherwise, after `sudo -E dms login`, the
 * user's own dms could no longer read them.
 */
import { constants } from 'node:fs'
import { type FileHandle, open, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { createFolder } from '../../folders.ts'

/** Creates a folder, with mode 0700, and those above it. */
export async function createOwnedFolder(path: string): Promise<void> {
  const first = await createFolder(path, 0o700)
  if (first === undefined || !isRoot()) return
  for (let created = path; created.length >= first.length; created = dirname(created)) {
    const folder = await open(created, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW)
    await giveTo(dirname(first), folder).finally(() => folder.close())
  }
}

/** Creates a file with mode 0600 and opens it for writing. Fails if it exists, or if it cannot get its owner, unless `canKeepOwner`. */
export async function createFile(path: string, { canKeepOwner = false } = {}): Promise<FileHandle> {
  const file = await open(path, 'wx', 0o600)
  try {
    if (isRoot()) await giveTo(dirname(path), file)
  } catch (error) {
    // NFS and FAT may refuse even root.
    if (canKeepOwner && (error as NodeJS.ErrnoException).code === 'EPERM') return file
    await file.close()
    throw error
  }
  return file
}

const isRoot = (): boolean => process.geteuid?.() === 0

/** Gives an open file or folder the owner and the group of `folder`. */
async function giveTo(folder: string, opened: FileHandle): Promise<void> {
  const { uid, gid } = await stat(folder)
  await opened.chown(uid, gid)
}
