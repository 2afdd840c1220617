/** Bytes on their way in: written to the end, measured, flushed, before anything knows of them. */
import { createHash, randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, readdir, rename, rm, stat, unlink } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { AppError } from '../errors.ts'
import { isAlive } from '../is-alive.ts'
import { openCollector } from './free-buffers.ts'
import { cannotTake, troubleOf } from './store-error.ts'

export interface Staged {
  path: string
  sha256: string
  size: number
  head: Uint8Array
}

/** Says which bytes got their name before anything was sure to refer to them. */
export interface Note {
  address: string
  remove(): Promise<void>
}

/** A note whose maker still means to remove it. */
export interface OwnNote {
  remove(): Promise<void>
  /** Leaves it for whoever looks after `abandoned()`. */
  abandon(): Promise<void>
}

export interface Staging {
  /** Writes `source` into a file without a final name. On any failure, an abort of the sender included, nothing is left. */
  write(source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, maxSize: number): Promise<Staged>
  note(address: string): Promise<OwnNote>
  /** A path for a second name of a stored file; swept out as unfinished files are, should this process die. */
  linkPath(): string
  /** Removes such a name. Where the disk refuses, it is tried again with the next one, and at the next start: a file that was read is no failure. */
  removeLink(path: string): Promise<void>
  /** Notes of nobody, or of processes that are gone. */
  abandoned(): Promise<Note[]>
}

interface StagingOptions {
  folder: string
  fsync: boolean
}

const headSize = 4100
const chunkSize = 1 << 20
/** Tiny chunks are written before they are many. */
const maxChunks = 512
/** Starting the flush early lets the disk work while the network does; the last fsync then finds little left. */
const flushEvery = 32 << 20
const staleAfter = 24 * 3600 * 1000
const nobody = 'nobody_0_0'

/** Prepares the folder, and sweeps out what processes that are gone left behind. */
export async function openStaging({ folder, fsync }: StagingOptions): Promise<Staging> {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  // When the process began tells it from an earlier one of the same number, as in a container that was started again.
  const owner = `${hostname().replaceAll('_', '-')}_${process.pid}_${Math.floor(performance.timeOrigin)}`
  for (const name of await readdir(folder))
    if (/\.(part|link)$/.test(name) && (await isLeft(folder, name, owner))) await rm(join(folder, name), { force: true })

  const passed = openCollector()
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
        throw troubleOf(error)
      })
      try {
        const { sha256, size, head } = await copy(source, handle, { maxSize, fsync, passed })
        const written = await handle.stat()
        if (written.size !== size) throw cannotTake(new Error(`wrote ${written.size} of ${size} bytes`))
        if (fsync) await handle.sync()
        await handle.close()
        return { path, sha256, size, head }
      } catch (error) {
        await handle.close().catch(() => {})
        await unlink(path).catch(() => {})
        throw troubleOf(error)
      }
    },
    async note(address) {
      const rest = `${randomUUID()}_${address}.named`
      const path = join(folder, `${owner}_${rest}`)
      await (await open(path, 'wx', 0o600)).close()
      return { remove: () => rm(path, { force: true }), abandon: () => rename(path, join(folder, `${nobody}_${rest}`)) }
    },
    async abandoned() {
      const notes: Note[] = []
      for (const name of await readdir(folder)) {
        const address = /_([0-9a-f]{64}(?:\.[0-9a-z]{8,32})?)\.named$/.exec(name)?.[1]
        if (address && (await isLeft(folder, name, owner))) notes.push({ address, remove: () => rm(join(folder, name), { force: true }) })
      }
      return notes
    },
  }
}

/** One write is under way while the next chunk is read and hashed. */
async function copy(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  handle: FileHandle,
  { maxSize, fsync, passed }: { maxSize: number; fsync: boolean; passed(bytes: number): void },
) {
  const hash = createHash('sha256')
  const head: Uint8Array[] = []
  let size = 0
  let flushed = 0
  let gathered: Uint8Array[] = []
  let gatheredSize = 0
  let writing: Promise<unknown> = Promise.resolve()
  let flushing: Promise<unknown> = Promise.resolve()

  const write = async () => {
    await writing
    const chunks = gathered
    writing = chunks.length > 0 ? handle.writev(chunks) : Promise.resolve()
    // Awaited by the next write or at the end; until then a failure must not count as unhandled.
    writing.catch(() => {})
    gathered = []
    gatheredSize = 0
  }

  try {
    for await (const chunk of source) {
      if (size < headSize) head.push(chunk.slice(0, headSize - size))
      size += chunk.length
      if (size > maxSize) throw new AppError('PAYLOAD_TOO_LARGE', { max_bytes: maxSize })
      hash.update(chunk)
      gathered.push(chunk)
      gatheredSize += chunk.length
      passed(chunk.length)
      if (gatheredSize >= chunkSize || gathered.length >= maxChunks) await write()
      if (fsync && size - flushed >= flushEvery) {
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

/** Whether the process that made a file here is gone, as far as this host can tell. */
async function isLeft(folder: string, name: string, self: string): Promise<boolean> {
  if (name.startsWith(`${self}_`)) return false
  const [host, pid, begun] = name.split('_')
  const [ownHost, ownPid] = self.split('_')
  if (begun === undefined || name.startsWith(nobody)) return true
  if (host === ownHost && (pid === ownPid || !isAlive(Number(pid)))) return true
  const made = await stat(join(folder, name)).catch(() => null)
  if (made === null) return false
  // The bytes behind a second name may be years old; when they got the name is told by the change of the inode.
  const since = name.endsWith('.link') ? made.ctimeMs : made.mtimeMs
  return Date.now() - since > staleAfter
}
