/** Staging: receives bytes into temporary files, hashed and flushed, before any row refers to them. */
import { createHash, randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, readdir, rename, rm, stat, unlink } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { AppError } from '../errors.ts'
import { isAlive } from '../is-alive.ts'
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
  /** Writes `source` into a temporary file. Removes the file on any failure, including an abort by the sender. */
  write(source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, maxSize: number): Promise<StagedBytes>
  markCommit(address: string): Promise<CommitMarker>
  /** Returns a path for a hard link to a stored file. Links of dead processes are removed like temporary files. */
  linkPath(): string
  /** Removes a link. If that fails, tries again with the next link and at the next start, because the read itself succeeded. */
  removeLink(path: string): Promise<void>
  /** Lists markers that were abandoned or whose processes are dead. */
  listAbandoned(): Promise<AbandonedCommit[]>
}

interface StagingOptions {
  folder: string
  fsync: boolean
}

const headBytes = 4100
const writeBytes = 1 << 20
const maxChunks = 512
/** Flushes during the upload let the disk work while the network does. */
const flushIntervalBytes = 32 << 20
const staleMs = 24 * 3600 * 1000
const ownerlessPrefix = 'nobody_0_0'

/** Creates the folder and removes temporary files of dead processes. */
export async function openStaging({ folder, fsync }: StagingOptions): Promise<Staging> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  // The start time distinguishes processes with the same pid, as after a container restart.
  const owner = `${hostname().replaceAll('_', '-')}_${process.pid}_${Math.floor(performance.timeOrigin)}`
  for (const name of await readdir(folder))
    if (/\.(part|link)$/.test(name) && (await isAbandoned(folder, name, owner))) await rm(join(folder, name), { force: true })

  const countBytes = openCollector()
  const unneededLinks = new Set<string>()

  return {
    linkPath: () => join(folder, `${owner}_${randomUUID()}.link`),
    async removeLink(path) {
      unneededLinks.add(path)
      for (const link of unneededLinks)
        await rm(link, { force: true }).then(
          () => unneededLinks.delete(link),
          () => {},
        )
    },
    async write(source, maxSize) {
      const path = join(folder, `${owner}_${randomUUID()}.part`)
      const handle = await open(path, 'wx', 0o600).catch((error) => {
        throw toStoreError(error)
      })
      try {
        const { sha256, size, head } = await copy(source, handle, { maxSize, fsync, countBytes })
        const written = await handle.stat()
        if (written.size !== size) throw storeUnavailable(new Error(`wrote ${written.size} of ${size} bytes`))
        if (fsync) await handle.sync()
        await handle.close()
        return { path, sha256, size, head }
      } catch (error) {
        await handle.close().catch(() => {})
        await unlink(path).catch(() => {})
        throw toStoreError(error)
      }
    },
    async markCommit(address) {
      const suffix = `${randomUUID()}_${address}.named`
      const path = join(folder, `${owner}_${suffix}`)
      await (await open(path, 'wx', 0o600)).close()
      return { remove: () => rm(path, { force: true }), abandon: () => rename(path, join(folder, `${ownerlessPrefix}_${suffix}`)) }
    },
    async listAbandoned() {
      const abandoned: AbandonedCommit[] = []
      for (const name of await readdir(folder)) {
        const address = /_([0-9a-f]{64}(?:\.[0-9a-z]{8,32})?)\.named$/.exec(name)?.[1]
        if (address && (await isAbandoned(folder, name, owner)))
          abandoned.push({ address, remove: () => rm(join(folder, name), { force: true }) })
      }
      return abandoned
    },
  }
}

/** Copies `source` to the file. Reads and hashes the next chunks while a write is in progress. */
async function copy(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  handle: FileHandle,
  { maxSize, fsync, countBytes }: { maxSize: number; fsync: boolean; countBytes(bytes: number): void },
) {
  const hash = createHash('sha256')
  const head: Uint8Array[] = []
  let size = 0
  let flushed = 0
  let pending: Uint8Array[] = []
  let pendingBytes = 0
  let writing: Promise<unknown> = Promise.resolve()
  let flushing: Promise<unknown> = Promise.resolve()

  const write = async () => {
    await writing
    const chunks = pending
    writing = chunks.length > 0 ? handle.writev(chunks) : Promise.resolve()
    // Awaited by the next write or at the end. Until then the rejection must not count as unhandled.
    writing.catch(() => {})
    pending = []
    pendingBytes = 0
  }

  try {
    for await (const chunk of source) {
      if (size < headBytes) head.push(chunk.slice(0, headBytes - size))
      size += chunk.length
      if (size > maxSize) throw new AppError('PAYLOAD_TOO_LARGE', { max_bytes: maxSize })
      hash.update(chunk)
      pending.push(chunk)
      pendingBytes += chunk.length
      countBytes(chunk.length)
      if (pendingBytes >= writeBytes || pending.length >= maxChunks) await write()
      if (fsync && size - flushed >= flushIntervalBytes) {
        flushed = size
        await flushing
        flushing = handle.datasync()
        flushing.catch(() => {})
      }
    }
    await write()
  } finally {
    await Promise.allSettled([writing, flushing])
  }
  await Promise.all([writing, flushing])
  return { sha256: hash.digest('hex'), size, head: Buffer.concat(head) }
}

/** Returns whether the process that created a file is dead. Files of other hosts count after a day. */
async function isAbandoned(folder: string, name: string, self: string): Promise<boolean> {
  if (name.startsWith(`${self}_`)) return false
  const [host, pid, started] = name.split('_')
  const [ownHost, ownPid] = self.split('_')
  if (started === undefined || name.startsWith(ownerlessPrefix)) return true
  if (host === ownHost && (pid === ownPid || !isAlive(Number(pid)))) return true
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

/** Returns SERVICE_UNAVAILABLE with a cause. */
export const storeUnavailable = (cause: unknown): AppError =>
  Object.assign(new AppError('SERVICE_UNAVAILABLE', { retry_after_secs: 300 }, 'The document store cannot take the file now.'), { cause })
