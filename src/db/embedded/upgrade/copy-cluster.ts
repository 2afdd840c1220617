/** Copies the files of a stopped cluster. */
import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { chmod, copyFile, lchown, mkdir, open, readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Account } from '../account.ts'

export interface CopyState {
  /** bytes copied so far */
  onBytes(bytes: number): void
  readonly signal: AbortSignal
}

/** Files of a server that no longer runs. */
const excluded = new Set(['postmaster.pid', 'postmaster.opts'])

/** Copies a cluster with its modes, for `account`. Links are followed: the WAL may be on another disk. Clones files if the file system can. */
export async function copyCluster(from: string, to: string, account: Account | undefined, state: CopyState): Promise<void> {
  await mkdir(to, { mode: 0o700 })
  if (account) await lchown(to, account.uid, account.gid)
  for (const name of await readdir(from)) {
    state.signal.throwIfAborted()
    if (excluded.has(name)) continue
    const [source, target] = [join(from, name), join(to, name)]
    const stats = await stat(source)
    if (stats.isDirectory()) await copyCluster(source, target, account, state)
    else if (stats.isFile()) {
      state.onBytes(stats.size)
      if (!(await isReadByServer(source, stats.size))) continue
      await copyFile(source, target, constants.COPYFILE_FICLONE)
      await chmod(target, stats.mode & 0o777)
      if (account) await lchown(target, account.uid, account.gid)
    }
  }
}

/**
 * Returns whether a starting server reads the contents of a file. Of the WAL it reads pages that begin with their own address. Recycled WAL files, up to
 * 1 GB of them, still begin with an old address.
 */
async function isReadByServer(path: string, size: number): Promise<boolean> {
  const [, high, low] = /pg_wal\/[0-9A-F]{8}([0-9A-F]{8})([0-9A-F]{8})$/.exec(path) ?? []
  if (high === undefined || low === undefined) return true
  const file = await open(path)
  try {
    // xlp_magic, xlp_info and xlp_tli are 8 bytes, then xlp_pageaddr in the byte order of the machine, which is little-endian on all platforms of the programs.
    const { buffer } = await file.read(Buffer.alloc(16), 0, 16, 0)
    return buffer.readBigUInt64LE(8) === BigInt(`0x${high}00000000`) + BigInt(`0x${low}`) * BigInt(size)
  } finally {
    await file.close()
  }
}

/** Returns the bytes of all files below a folder, links followed; 0 for a folder that does not exist. */
export async function measureFolder(folder: string): Promise<number> {
  let bytes = 0
  for (const name of await readdir(folder).catch(() => [])) {
    const path = join(folder, name)
    const stats = await stat(path).catch(() => null)
    if (stats?.isDirectory()) bytes += await measureFolder(path)
    else bytes += stats?.size ?? 0
  }
  return bytes
}

/** Returns whether the file system clones files, which takes no space. */
export async function canClone(file: string, folder: string): Promise<boolean> {
  const target = join(folder, `.${randomUUID()}.clone`)
  const isCloned = await copyFile(file, target, constants.COPYFILE_FICLONE_FORCE).then(
    () => true,
    () => false,
  )
  await rm(target, { force: true })
  return isCloned
}
