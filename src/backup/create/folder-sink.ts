/** Writes a backup into a directory and updates it in later runs. The previous backup stays valid until its manifest is replaced. */
import { createHash } from 'node:crypto'
import { constants, createReadStream } from 'node:fs'
import { lstat, mkdir, open, readdir, readFile, rename, rm, rmdir, unlink, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { mapConcurrently } from '../../concurrency.ts'
import { AppError } from '../../errors.ts'
import { createFolder, flushFolder } from '../../folders.ts'
import { addPath } from '../../missing-file.ts'
import { type Bytes, coalesceChunks, readLines, tapSizes, teeHash } from '../byte-streams.ts'
import { readFolderManifest } from '../folder-manifest.ts'
import { BackupDamaged, Manifest, manifestCopyPath, manifestPath, parseChecksumLine, parseJson } from '../manifest.ts'
import type { BackupSink } from './tar-sink.ts'

/** Small writes are combined up to this size. */
const writeBytes = 1 << 20
const readBytes = 1 << 18

/**
 * Opens a directory. begin() throws AppError CONFLICT if it has other contents, a symbolic link as a subdirectory, or a backup with files that
 * one without files would replace.
 */
export function folderSink(folder: string, concurrency: number): BackupSink {
  let id = ''
  let isBegun = false
  /** mtime of the manifest of the last complete run */
  let completedAt = Number.NEGATIVE_INFINITY
  const resolvePath = (path: string) => join(folder, path)
  const directories = trackDirectories(folder)
  const put = async (path: string, size: number, bytes: Bytes) => {
    await directories.make(dirname(path))
    await writeEntry(resolvePath(path), size, bytes)
    directories.markChanged(dirname(path))
  }
  return {
    concurrency,
    async begin(head) {
      id = head.id
      await createFolder(folder, 0o700).catch((error: NodeJS.ErrnoException) => {
        throw error.code === 'EEXIST' ? new AppError('CONFLICT', { path: folder }, `${folder} is a file, not a folder`) : error
      })
      const earlier = await readFolderManifest(folder)
      if (earlier && earlier.store_id !== head.store_id)
        throw new AppError('CONFLICT', { path: folder }, `${folder} holds a backup of another dms, made ${earlier.created_at}`)
      if (earlier?.has_files && !head.has_files)
        throw Object.assign(
          new AppError('CONFLICT', { path: folder }, `${folder} holds a backup with files, which a backup without files would remove`),
          { fix: 'pass another folder to --to' },
        )
      const foreign = (await readdir(folder)).filter((name) => ![manifestPath, `${manifestPath}.partial`, 'data', 'files'].includes(name))
      if (!earlier && foreign.length > 0)
        throw new AppError('CONFLICT', { path: folder }, `${folder} holds ${foreign[0]}, which does not belong to a backup`)
      if (earlier) completedAt = (await lstat(resolvePath(manifestPath))).mtimeMs
      await directories.make(`data/${id}`)
      await directories.make('files')
      isBegun = true
    },
    async hasIntact(path, sha256, size) {
      await directories.make(dirname(path))
      if ((await hashFile(resolvePath(path), size)) !== sha256) return false
      // A run after the last complete one may have written the file, and been killed before it flushed the name.
      if ((await lstat(resolvePath(path))).mtimeMs >= completedAt) directories.markChanged(dirname(path))
      return true
    },
    put,
    async finish(manifest, filePaths) {
      await directories.flush(concurrency)
      const text = Buffer.from(manifest)
      await readBack(folder, parseJson(Manifest, manifestPath, manifest))
      await put(manifestCopyPath(id), text.length, [text])
      await flushFolder(resolvePath(dirname(manifestCopyPath(id))))
      // From here on, the manifest may refer to these tables even if a later step fails.
      isBegun = false
      await writeEntry(resolvePath(manifestPath), text.length, [text])
      await flushFolder(folder)
      if (!(await readFile(resolvePath(manifestPath))).equals(text))
        throw new BackupDamaged(`${resolvePath(manifestPath)} was read back with other bytes`)
      for (const name of await readdir(resolvePath('data')))
        if (name !== id) await rm(resolvePath(`data/${name}`), { recursive: true, force: true })
      await removeUnreferenced(resolvePath('files'), filePaths())
    },
    async discard() {
      if (isBegun) await rm(resolvePath(`data/${id}`), { recursive: true, force: true })
    },
  }
}

/** Creates subdirectories and tracks which need an fsync. Refuses symbolic links: they would redirect writes and deletions. */
function trackDirectories(folder: string) {
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
    /** Marks a directory and its parents for fsync after a new entry. */
    markChanged(path: string) {
      for (let each = path; !changed.has(each); each = dirname(each)) changed.add(each)
    },
    async flush(concurrency: number) {
      await mapConcurrently(changed, concurrency, (path) => flushFolder(join(folder, path)))
    },
  }
}

/** Returns the SHA-256 of a file of `size` bytes. Returns null for a missing or unreadable file and for another size. */
async function hashFile(path: string, size: number): Promise<string | null> {
  const handle = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW).catch(() => null)
  if (!handle) return null
  try {
    const stats = await handle.stat()
    if (!stats.isFile() || stats.size !== size) return null
    const hash = createHash('sha256')
    const buffer = Buffer.allocUnsafeSlow(Math.min(readBytes, Math.max(size, 1)))
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

/** Reads back SHA256SUMS and all entries except stored files. Throws BackupDamaged on a difference. */
async function readBack(folder: string, { sums }: Manifest): Promise<void> {
  const tee = teeHash(createReadStream(join(folder, sums.path), { highWaterMark: readBytes }))
  for await (const line of readLines(tee.bytes)) {
    const { sha256, path } = parseChecksumLine(line)
    if (!path.startsWith('data/')) continue
    const { size } = await lstat(join(folder, path))
    if ((await hashFile(join(folder, path), size)) !== sha256)
      throw new BackupDamaged(`${join(folder, path)} was read back with other bytes`)
  }
  if (tee.digest() !== sums.sha256) throw new BackupDamaged(`${join(folder, sums.path)} was read back with other bytes`)
}

async function writeEntry(path: string, size: number, bytes: Bytes): Promise<void> {
  const partial = `${path}.partial`
  // An existing file or link under this name must not be written through.
  await rm(partial, { force: true })
  let done = 0
  const chunks = tapSizes(coalesceChunks(bytes, writeBytes), (length) => {
    done += length
  })
  try {
    await writeFile(partial, chunks, { flag: 'wx', mode: 0o600, flush: true }).catch(addPath(path))
    if (done !== size) throw new Error(`${path}: received ${done} bytes instead of ${size}`)
    await rename(partial, path)
  } catch (error) {
    await unlink(partial).catch(() => {})
    throw error
  }
}

/** Removes stored files that are not in `filePaths`, which is in ascending order (merge join). Follows no symbolic links. */
async function removeUnreferenced(folder: string, filePaths: AsyncIterable<string>): Promise<void> {
  const referenced = filePaths[Symbol.asyncIterator]()
  let next = await referenced.next()
  const listNames = async (path: string, hasKind: 'isDirectory' | 'isFile') =>
    (await readdir(path, { withFileTypes: true }))
      .filter((entry) => entry[hasKind]())
      .map(({ name }) => name)
      .sort()
  for (const first of await listNames(folder, 'isDirectory')) {
    for (const second of await listNames(join(folder, first), 'isDirectory')) {
      for (const name of await listNames(join(folder, first, second), 'isFile')) {
        const path = `files/${first}/${second}/${name}`
        while (!next.done && next.value < path) next = await referenced.next()
        if (next.done || next.value !== path) await rm(join(folder, first, second, name), { force: true })
      }
      await rmdir(join(folder, first, second)).catch(() => {})
    }
    await rmdir(join(folder, first)).catch(() => {})
  }
}
