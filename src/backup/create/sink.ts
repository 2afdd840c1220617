/** Writes a backup as one archive, to a file or a pipe. A folder is in folder-sink.ts. */
import { access, type FileHandle, mkdir, open, rename, unlink } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { Writable } from 'node:stream'
import { AppError } from '../../errors.ts'
import { type Bytes, write } from '../bytes.ts'
import { BackupDamaged, type Head, manifestPath } from '../manifest.ts'
import { tarEnd, tarHeader, tarPadding } from '../tar.ts'

export interface Sink {
  /** how many put() may be under way at once */
  readonly concurrency: number
  /** Takes the first word of a backup. Throws AppError CONFLICT where the place is somebody else's. */
  begin(head: Head): Promise<void>
  /** Whether a file with exactly these bytes is there from an earlier backup: it is read to its end and hashed. */
  holds(path: string, sha256: string, size: number): Promise<boolean>
  /** Takes one entry of exactly `size` bytes; keeps none of the chunks. */
  put(path: string, size: number, bytes: Bytes): Promise<void>
  /** Makes the backup count, whole or not at all, once what was written has been flushed and read back. `kept`: the paths of all stored files of this backup, ascending. */
  finish(manifest: string, kept: () => AsyncIterable<string>): Promise<void>
  /** Leaves nothing of an unfinished backup behind. */
  discard(): Promise<void>
}

/** Small writes are gathered up to this many bytes. */
const enough = 1 << 20

/** An archive on a stream that somebody else reads, such as standard output. */
export const streamSink = (stream: Writable): Sink => tarSink((chunk) => write(stream, chunk))

/** An archive in a file, which has its name only once it is whole and on the disk. begin() throws AppError CONFLICT where that name is taken. */
export function fileSink(path: string): Sink {
  const partial = `${path}.partial`
  let file: FileHandle | null = null
  let written = 0
  const tar = tarSink(async (chunk) => {
    await file?.writeFile(chunk)
    written += chunk.length
  })
  return {
    ...tar,
    async begin(head) {
      await refuseTaken(path)
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      file = await open(partial, 'w+', 0o600)
      await tar.begin(head)
    },
    async finish(manifest, kept) {
      await tar.finish(manifest, kept)
      await file?.sync()
      if (file) await readBack(file, written, manifest)
      await file?.close()
      await refuseTaken(path)
      await rename(partial, path)
      await flushFolder(dirname(path))
    },
    async discard() {
      if (!file) return
      await file.close().catch(() => {})
      await unlink(partial).catch(() => {})
    },
  }
}

/** Throws BackupDamaged where the archive does not end with the manifest that was written. */
async function readBack(file: FileHandle, written: number, manifest: string): Promise<void> {
  const text = Buffer.from(manifest)
  const { size } = await file.stat()
  const end = Buffer.alloc(text.length)
  await file.read(end, 0, end.length, written - tarEnd.length - tarPadding(text.length).length - text.length)
  if (size !== written || !end.equals(text)) throw new BackupDamaged('the end of the archive was read back with other bytes')
}

async function refuseTaken(path: string): Promise<void> {
  const isThere = await access(path).then(
    () => true,
    () => false,
  )
  if (isThere) throw new AppError('CONFLICT', { path }, `${path} exists`)
}

function tarSink(put: (chunk: Uint8Array) => Promise<void>): Sink {
  const room = Buffer.allocUnsafeSlow(enough)
  let length = 0
  const flush = async () => {
    if (length > 0) await put(room.subarray(0, length))
    length = 0
  }
  const add = async (chunk: Uint8Array) => {
    if (length + chunk.length > room.length) await flush()
    if (chunk.length > room.length) await put(chunk)
    else {
      room.set(chunk, length)
      length += chunk.length
    }
  }
  let modified = 0
  const sink: Sink = {
    concurrency: 1,
    async begin({ created_at }) {
      modified = Date.parse(created_at) / 1000
    },
    holds: async () => false,
    async put(path, size, bytes) {
      await add(tarHeader(path, size, modified))
      let done = 0
      for await (const chunk of bytes) {
        done += chunk.length
        await add(chunk)
      }
      if (done !== size) throw new Error(`${path}: ${done} bytes came, but it has ${size}`)
      await add(tarPadding(size))
    },
    async finish(manifest) {
      const text = Buffer.from(manifest)
      await sink.put(manifestPath, text.length, [text])
      await add(tarEnd)
      await flush()
    },
    async discard() {},
  }
  return sink
}

/** Makes the names in a folder durable. */
export async function flushFolder(path: string): Promise<void> {
  const handle = await open(path)
  await handle.sync().finally(() => handle.close())
}
