/** Staging: receives bytes into temporary files, hashed and flushed, before any row refers to them. */
import { randomUUID } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm, stat, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError, unreadableFile } from '../errors.ts'
import { addressPattern } from '../ports/file-store.ts'
import { hasEnded, processIdentity } from '../processes.ts'
import { copyToFile } from './copy-to-file.ts'
import { openCollector } from './free-buffers.ts'

export interface StagedBytes {
  path: string
  sha256: string
  size: number
  head: Uint8Array
}

/** Marker of bytes that were committed by a process that did not remove the marker. */
export interface AbandonedCommit {
  address: string
  remove(): Promise<void>
}

/** Marker that exists from commit until the row is known to be committed. */
export interface CommitMarker {
  remove(): Promise<void>
  /** Leaves the marker to listAbandoned(). */
  abandon(): Promise<void>
}

export interface Staging {
  /**
   * Writes `source` into a temporary file. Calls `prepare` with its SHA-256 while the file is flushed. Removes the file on any failure, including an abort
   * by the sender.
   */
  write(
    source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
    maxSize: number,
    prepare?: (sha256: string) => Promise<void>,
  ): Promise<StagedBytes>
  markCommit(address: string): Promise<CommitMarker>
  /** Returns a path for a hard link to a stored file. Links of dead processes are removed like temporary files. */
  linkPath(): string
  /** Removes a link. If that fails, tries again with the next link and at the next start, because the read itself succeeded. */
  removeLink(path: string): Promise<void>
  /** Lists markers that were abandoned or whose processes are dead. */
  listAbandoned(): Promise<AbandonedCommit[]>
  /** Returns the time of the folder's file system. */
  readClock(): Promise<number>
}

interface StagingOptions {
  folder: string
  fsync: boolean
  /** Throws if the disk has too little space left. Called during a write, because several may begin together. */
  requireSpace?: () => Promise<void>
}

const staleMs = 24 * 3600 * 1000
const ownerlessPrefix = 'nobody_0_0'

/** Creates the folder and removes temporary files of dead processes. */
export async function openStaging({ folder, fsync, requireSpace = async () => {} }: StagingOptions): Promise<Staging> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const owner = processIdentity.join('_')
  for (const name of await readdir(folder))
    if (/\.(part|link)$/.test(name) && (await isAbandoned(folder, name, owner))) await rm(join(folder, name), { force: true })

  const countBytes = openCollector()
  const unremovedLinks = new Set<string>()
  return {
    readClock: () => readFolderClock(folder, owner),
    linkPath: () => join(folder, `${owner}_${randomUUID()}.link`),
    async removeLink(path) {
      const links = [path, ...unremovedLinks]
      unremovedLinks.clear()
      // Not rm(), which asks for the type of the file first: that takes longer than the rest.
      for (const link of links)
        await unlink(link).catch((error: NodeJS.ErrnoException) => error.code === 'ENOENT' || unremovedLinks.add(link))
    },
    async write(source, maxSize, prepare) {
      const path = join(folder, `${owner}_${randomUUID()}.part`)
      const handle = await open(path, 'wx', 0o600).catch((error) => {
        throw toStoreError(error)
      })
      try {
        const { written, ...copied } = await copyToFile(source, handle, { maxSize, fsync, requireSpace, countBytes })
        if (written !== copied.size) throw storeUnavailable(new Error(`wrote ${written} of ${copied.size} bytes`))
        await Promise.all([fsync && handle.sync(), prepare?.(copied.sha256)])
        await handle.close()
        return { path, ...copied }
      } catch (error) {
        await handle.close().catch(() => {})
        await unlink(path).catch(() => {})
        throw toStoreError(error)
      }
    },
    markCommit: openMarkers(folder, owner),
    async listAbandoned() {
      const abandoned: AbandonedCommit[] = []
      for (const name of await readdir(folder)) {
        const first = /_([0-9a-f]{64}(?:\.[0-9a-z]{8,32})?)\.named$/.exec(name)?.[1]
        if (!first || !(await isAbandoned(folder, name, owner))) continue
        const path = join(folder, name)
        const others = (await readFile(path, 'utf8').catch(() => '')).split('\n').filter((line) => addressPattern.test(line))
        let left = 1 + others.length
        const remove = async () => {
          if (--left === 0) await rm(path, { force: true })
        }
        abandoned.push(...[first, ...others].map((address) => ({ address, remove })))
      }
      return abandoned
    },
  }
}

/** Opens the writer of commit markers. A marker names all files whose commits begin together: the first in its name, the others in its lines. */
function openMarkers(folder: string, owner: string): Staging['markCommit'] {
  let starting: { addresses: string[]; written: Promise<CommitMarker> } | null = null

  const write = async (addresses: readonly string[]): Promise<CommitMarker> => {
    await new Promise(setImmediate)
    starting = null
    const [first, ...others] = addresses
    const suffix = `${randomUUID()}_${first}.named`
    const path = join(folder, `${owner}_${suffix}`)
    await writeFile(path, others.map((address) => `${address}\n`).join(''), { flag: 'wx', mode: 0o600 })
    let left = addresses.length
    let isNeeded = false
    const release = async () => {
      if (--left > 0) return
      await (isNeeded ? rename(path, join(folder, `${ownerlessPrefix}_${suffix}`)) : unlink(path))
    }
    return {
      remove: release,
      abandon() {
        isNeeded = true
        return release()
      },
    }
  }
  return async (address) => {
    if (!starting) {
      const addresses: string[] = []
      starting = { addresses, written: write(addresses) }
    }
    starting.addresses.push(address)
    return starting.written
  }
}

/** Returns whether the process that created a file is dead. A process of another host or container counts as dead after a day. */
async function isAbandoned(folder: string, name: string, self: string): Promise<boolean> {
  if (name.startsWith(`${self}_`)) return false
  const parts = name.split('_')
  if (parts.length < 3 || name.startsWith(ownerlessPrefix) || hasEnded(parts)) return true
  const stats = await stat(join(folder, name)).catch(() => null)
  if (stats === null) return false
  // A link has the mtime of its old file; its ctime is that of the link.
  const createdAt = name.endsWith('.link') ? stats.ctimeMs : stats.mtimeMs
  return (await readFolderClock(folder, self)) - createdAt > staleMs
}

/** Returns the time of the folder's file system in milliseconds: clocks of hosts and file servers may differ, and may jump. */
async function readFolderClock(folder: string, owner: string): Promise<number> {
  const path = join(folder, `${owner}_${randomUUID()}.part`)
  const handle = await open(path, 'wx', 0o600)
  try {
    return (await handle.stat()).mtimeMs
  } finally {
    await handle.close()
    await rm(path, { force: true })
  }
}

/** Error codes that are the state of the store and not the sender's fault: full, read-only, failing or unmounted. */
const storeErrorCodes = new Set(
  'ENOSPC EDQUOT EROFS EIO EMFILE ENFILE EFBIG ENOENT ENOTDIR EACCES EPERM ESTALE ENODEV ENXIO ETIMEDOUT ENOMEM'.split(' '),
)

/** Maps file errors of the store to SERVICE_UNAVAILABLE with the cause. Returns other errors unchanged. */
export function toStoreError(error: unknown): unknown {
  const { code = '', syscall } = error as NodeJS.ErrnoException
  return syscall !== undefined && storeErrorCodes.has(code) ? storeUnavailable(error) : error
}

/** Maps errors of reading a stored file: of the file alone, else as toStoreError(). */
export const toReadError = (error: unknown): unknown =>
  ['EACCES', 'EPERM', 'EIO'].includes((error as NodeJS.ErrnoException).code ?? '') ? unreadableFile(error) : toStoreError(error)

/** Returns SERVICE_UNAVAILABLE with a cause. */
const storeUnavailable = (cause: unknown): AppError =>
  Object.assign(new AppError('SERVICE_UNAVAILABLE', { retry_after_secs: 300 }, 'The document store cannot take the file now.'), { cause })
