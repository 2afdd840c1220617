/** Bytes on their way in: written to the end, measured, flushed, before anything knows of them. */
import { createHash, randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, readdir, stat, unlink } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { isAlive } from '../alive.ts'
import { AppError } from '../errors.ts'

export interface Staged {
  path: string
  sha256: string
  size: number
  head: Uint8Array
}

interface StagingOptions {
  folder: string
  fsync: boolean
}

const headSize = 4100
const chunkSize = 1 << 20
/** Starting the flush early lets the disk work while the network does; the last fsync then finds little left. */
const flushEvery = 32 << 20
const staleAfter = 24 * 3600 * 1000

/** Prepares the folder, and sweeps out what processes that are gone left behind. */
export async function openStaging({ folder, fsync }: StagingOptions) {
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await sweep(folder)
  const host = hostname().replaceAll('_', '-')

  return {
    /** Writes `source` into a file without a final name. On any failure, an abort of the sender included, nothing is left. */
    async write(source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, maxSize: number): Promise<Staged> {
      const path = join(folder, `${host}_${process.pid}_${randomUUID()}.part`)
      const handle = await open(path, 'wx', 0o600)
      try {
        const { sha256, size, head } = await copy(source, handle, maxSize, fsync)
        const written = await handle.stat()
        if (written.size !== size) throw new Error(`wrote ${written.size} of ${size} bytes`)
        if (fsync) await handle.sync()
        await handle.close()
        return { path, sha256, size, head }
      } catch (error) {
        await handle.close().catch(() => {})
        await unlink(path).catch(() => {})
        throw full(error)
      }
    },
  }
}

/** One write is under way while the next chunk is read and hashed. */
async function copy(source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>, handle: FileHandle, maxSize: number, fsync: boolean) {
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
      if (size < headSize) head.push(chunk.subarray(0, headSize - size))
      size += chunk.length
      if (size > maxSize) throw new AppError('PAYLOAD_TOO_LARGE', { max_bytes: maxSize })
      hash.update(chunk)
      gathered.push(chunk)
      gatheredSize += chunk.length
      if (gatheredSize >= chunkSize) await write()
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

/** No room, no more inodes, over quota, read-only, a failing disk: the store's state, not the sender's fault. */
function full(error: unknown): unknown {
  const code = (error as NodeJS.ErrnoException).code ?? ''
  if (!['ENOSPC', 'EDQUOT', 'EROFS', 'EIO', 'EMFILE', 'ENFILE', 'EFBIG'].includes(code)) return error
  return Object.assign(new AppError('SERVICE_UNAVAILABLE', { retry_after_secs: 300 }, 'The document store cannot take the file now.'), {
    cause: error,
  })
}

async function sweep(folder: string): Promise<void> {
  const host = hostname().replaceAll('_', '-')
  for (const name of await readdir(folder)) {
    const [owner, pid] = name.split('_')
    const path = join(folder, name)
    const isOld =
      Date.now() -
        (await stat(path).then(
          ({ mtimeMs }) => mtimeMs,
          () => Number.POSITIVE_INFINITY,
        )) >
      staleAfter
    if (isOld || (owner === host && !isAlive(Number(pid)))) await unlink(path).catch(() => {})
  }
}
