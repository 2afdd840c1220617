/** Where a backup is written to: one archive (a file or a pipe), or a folder that is brought up to date. */
import { access, type FileHandle, mkdir, open, readdir, readFile, rename, rm, rmdir, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Writable } from 'node:stream'
import { AppError } from '../errors.ts'
import { type Bytes, pieces, write } from './bytes.ts'
import { type Head, Manifest, manifestPath, parsed } from './manifest.ts'
import { tarEnd, tarHeader, tarPadding } from './tar.ts'

export interface Sink {
  /** how many put() may be under way at once */
  readonly concurrency: number
  /** Takes the first word of a backup. Throws AppError CONFLICT where the place is somebody else's. */
  begin(head: Head): Promise<void>
  /** Whether that entry is there already, as long as it should be, and need not be put again. */
  has(path: string, size: number): Promise<boolean>
  /** Takes one entry of exactly `size` bytes; keeps none of the chunks. */
  put(path: string, size: number, bytes: Bytes): Promise<void>
  /** All is there: makes it count, whole or not at all. `kept`: the paths of all stored files of this backup, ascending. */
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
  const tar = tarSink(async (chunk) => {
    await file?.writeFile(chunk)
  })
  return {
    ...tar,
    async begin(head) {
      await refuseTaken(path)
      await mkdir(dirname(path), { recursive: true, mode: 0o700 })
      file = await open(partial, 'w', 0o600)
      await tar.begin(head)
    },
    async finish(manifest, kept) {
      await tar.finish(manifest, kept)
      await file?.sync()
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
    has: async () => false,
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

/** A folder: what is in it already is not written again, and until the manifest is replaced the backup before is whole. */
export function folderSink(folder: string, concurrency = 8): Sink {
  let id = ''
  let isBegun = false
  const at = (path: string) => join(folder, path)
  return {
    concurrency,
    async begin(head) {
      id = head.id
      await mkdir(folder, { recursive: true, mode: 0o700 })
      const earlier = await manifestOf(folder)
      if (earlier && earlier.store_id !== head.store_id)
        throw new AppError('CONFLICT', { path: folder }, `${folder} holds a backup of another dms, made ${earlier.created_at}`)
      const foreign = (await readdir(folder)).filter((name) => ![manifestPath, `${manifestPath}.partial`, 'data', 'files'].includes(name))
      if (!earlier && foreign.length > 0)
        throw new AppError('CONFLICT', { path: folder }, `${folder} holds ${foreign[0]}, which is no part of a backup`)
      await mkdir(at(`data/${id}`), { recursive: true, mode: 0o700 })
      isBegun = true
    },
    has: async (path, size) => (await stat(at(path)).catch(() => null))?.size === size,
    put: (path, size, bytes) => putFile(at(path), size, bytes),
    async finish(manifest, kept) {
      for (const path of ['data', `data/${id}`, `data/${id}/tables`]) await flushFolder(at(path))
      const text = Buffer.from(manifest)
      await putFile(at(manifestPath), text.length, [text])
      await flushFolder(folder)
      for (const name of await readdir(at('data'))) if (name !== id) await rm(at(`data/${name}`), { recursive: true, force: true })
      await removeOthers(at('files'), kept())
    },
    async discard() {
      if (isBegun) await rm(at(`data/${id}`), { recursive: true, force: true })
    },
  }
}

/** The manifest of a folder; null where it has none that can be read. */
export async function manifestOf(folder: string): Promise<Manifest | null> {
  const text = await readFile(join(folder, manifestPath), 'utf8').catch(() => null)
  return text === null ? null : parsed(Manifest, join(folder, manifestPath), text)
}

async function putFile(path: string, size: number, bytes: Bytes): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const partial = `${path}.partial`
  const handle = await open(partial, 'w', 0o600)
  try {
    let done = 0
    for await (const chunk of pieces(bytes, enough)) {
      done += chunk.length
      await handle.writeFile(chunk)
    }
    if (done !== size) throw new Error(`${path}: ${done} bytes came, but it has ${size}`)
    await handle.sync()
    await handle.close()
    await rename(partial, path)
  } catch (error) {
    await handle.close().catch(() => {})
    await unlink(partial).catch(() => {})
    throw error
  }
}

/** Removes stored files that are not `kept` (ascending): both sides are walked in the same order. */
async function removeOthers(folder: string, kept: AsyncIterable<string>): Promise<void> {
  const wanted = kept[Symbol.asyncIterator]()
  let next = await wanted.next()
  const below = async (path: string) => (await readdir(path).catch(() => [] as string[])).sort()
  for (const first of await below(folder)) {
    for (const second of await below(join(folder, first))) {
      for (const name of await below(join(folder, first, second))) {
        const path = `files/${first}/${second}/${name}`
        while (!next.done && next.value < path) next = await wanted.next()
        if (next.done || next.value !== path) await rm(join(folder, first, second, name), { force: true })
      }
      await rmdir(join(folder, first, second)).catch(() => {})
    }
    await rmdir(join(folder, first)).catch(() => {})
  }
}

async function flushFolder(path: string): Promise<void> {
  const handle = await open(path)
  await handle.sync().finally(() => handle.close())
}
