/** Writes a backup into a folder that is brought up to date: until the manifest is replaced, the backup before is the one that counts. */
import { createHash } from 'node:crypto'
import { constants, createReadStream } from 'node:fs'
import { lstat, mkdir, open, readdir, readFile, rename, rm, rmdir, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { AppError } from '../../errors.ts'
import { type Bytes, hashed, lines, pieces } from '../bytes.ts'
import { BackupDamaged, Manifest, manifestPath, parsed, readSumLine } from '../manifest.ts'
import { inLanes } from '../map-concurrently.ts'
import { flushFolder, type Sink } from './sink.ts'

/** Small writes are gathered up to this many bytes. */
const writeSize = 1 << 20
const readSize = 1 << 18

/** Opens a folder; begin() throws AppError CONFLICT where it holds anything else, or where one of its directories is a symbolic link. */
export function folderSink(folder: string, concurrency = 8): Sink {
  let id = ''
  let isBegun = false
  const at = (path: string) => join(folder, path)
  const directories = openDirectories(folder)
  const put = async (path: string, size: number, bytes: Bytes) => {
    await directories.make(dirname(path))
    await putFile(at(path), size, bytes)
    directories.hasChanged(dirname(path))
  }
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
      await directories.make(`data/${id}`)
      await directories.make('files')
      isBegun = true
    },
    async holds(path, sha256, size) {
      await directories.make(dirname(path))
      return (await hashOf(at(path), size)) === sha256
    },
    put,
    async finish(manifest, kept) {
      await directories.flush(concurrency)
      const text = Buffer.from(manifest)
      await readBack(folder, parsed(Manifest, manifestPath, manifest))
      await putFile(at(manifestPath), text.length, [text])
      await flushFolder(folder)
      if (!(await readFile(at(manifestPath))).equals(text)) throw new BackupDamaged(`${at(manifestPath)} was read back with other bytes`)
      for (const name of await readdir(at('data'))) if (name !== id) await rm(at(`data/${name}`), { recursive: true, force: true })
      await removeOthers(at('files'), kept())
    },
    async discard() {
      if (isBegun) await rm(at(`data/${id}`), { recursive: true, force: true })
    },
  }
}

/** Returns the manifest of a folder, or null where it has none. Throws BackupDamaged where it cannot be understood. */
export async function manifestOf(folder: string): Promise<Manifest | null> {
  const text = await readFile(join(folder, manifestPath), 'utf8').catch(() => null)
  return text === null ? null : parsed(Manifest, join(folder, manifestPath), text)
}

/** Makes directories below the folder, and remembers which have to be flushed. A symbolic link is refused: it would lead writes and deletions elsewhere. */
function openDirectories(folder: string) {
  const known = new Map<string, Promise<void>>()
  const changed = new Set<string>(['.'])
  const makeOne = async (path: string) => {
    await make(dirname(path))
    const full = join(folder, path)
    await mkdir(full, { mode: 0o700 }).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
    if (!(await lstat(full)).isDirectory())
      throw new AppError('CONFLICT', { path: full }, `${full} is not a directory of this backup (symbolic links are not followed)`)
  }
  const make = (path: string): Promise<void> => {
    if (path === '.') return Promise.resolve()
    const making = known.get(path) ?? makeOne(path)
    known.set(path, making)
    return making
  }
  return {
    make,
    /** A name was made in it; it and those above it are flushed. */
    hasChanged(path: string) {
      for (let each = path; !changed.has(each); each = dirname(each)) changed.add(each)
    },
    async flush(concurrency: number) {
      const paths = async function* () {
        yield* changed
      }
      await inLanes(concurrency, new AbortController().signal, paths(), (path) => flushFolder(join(folder, path)))
    },
  }
}

/** Returns the hash of a file of `size` bytes; null where there is none, or it has another size or cannot be read. */
async function hashOf(path: string, size: number): Promise<string | null> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(() => null)
  if (!handle) return null
  try {
    const found = await handle.stat()
    if (!found.isFile() || found.size !== size) return null
    const hash = createHash('sha256')
    const buffer = Buffer.allocUnsafeSlow(Math.min(readSize, Math.max(size, 1)))
    for (;;) {
      const { bytesRead } = await handle.read(buffer, 0, buffer.length)
      if (bytesRead === 0) return hash.digest('hex')
      hash.update(buffer.subarray(0, bytesRead))
    }
  } catch {
    // The caller writes the file again, to other sectors.
    return null
  } finally {
    await handle.close()
  }
}

/** Reads the list of checksums and all entries but the stored files. Throws BackupDamaged where one is not what was written. */
async function readBack(folder: string, { sums }: Manifest): Promise<void> {
  const passing = hashed(createReadStream(join(folder, sums.path), { highWaterMark: readSize }))
  for await (const line of lines(passing.bytes)) {
    const { sha256, path } = readSumLine(line)
    if (!path.startsWith('data/')) continue
    const { size } = await lstat(join(folder, path))
    if ((await hashOf(join(folder, path), size)) !== sha256) throw new BackupDamaged(`${join(folder, path)} was read back with other bytes`)
  }
  if (passing.digest() !== sums.sha256) throw new BackupDamaged(`${join(folder, sums.path)} was read back with other bytes`)
}

async function putFile(path: string, size: number, bytes: Bytes): Promise<void> {
  const partial = `${path}.partial`
  // Whatever lies there under this name, a link among it, is not written through.
  await rm(partial, { force: true })
  const handle = await open(partial, 'wx', 0o600)
  try {
    let done = 0
    for await (const chunk of pieces(bytes, writeSize)) {
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

/** Removes stored files that are not `kept` (ascending): both sides are walked in the same order. Symbolic links are not followed. */
async function removeOthers(folder: string, kept: AsyncIterable<string>): Promise<void> {
  const wanted = kept[Symbol.asyncIterator]()
  let next = await wanted.next()
  const below = async (path: string, isWanted: 'isDirectory' | 'isFile') =>
    (await readdir(path, { withFileTypes: true }))
      .filter((entry) => entry[isWanted]())
      .map(({ name }) => name)
      .sort()
  for (const first of await below(folder, 'isDirectory')) {
    for (const second of await below(join(folder, first), 'isDirectory')) {
      for (const name of await below(join(folder, first, second), 'isFile')) {
        const path = `files/${first}/${second}/${name}`
        while (!next.done && next.value < path) next = await wanted.next()
        if (next.done || next.value !== path) await rm(join(folder, first, second, name), { force: true })
      }
      await rmdir(join(folder, first, second)).catch(() => {})
    }
    await rmdir(join(folder, first)).catch(() => {})
  }
}
