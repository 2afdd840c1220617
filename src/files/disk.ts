/** Document files in a folder of this machine: durable before they are named, named by what they hold. */
import { createReadStream, open as openDescriptor } from 'node:fs'
import { access, mkdir, open, readdir, readFile, rename, rm, stat, statfs, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { AppError } from '../errors.ts'
import { FileMissing, type FileStore } from '../ports/files.ts'
import { markerName } from './belongs.ts'
import { type OwnNote, openStaging, type Staged, type Staging } from './staging.ts'
import { troubleOf } from './trouble.ts'

export interface DiskOptions {
  path: string
  /** where bytes wait for their name; must be on the same file system */
  tmp_path: string
  /** bytes that must stay free */
  min_free: number
  fsync: boolean
}

interface Place {
  root: string
  staging: Staging
  fsync: boolean
  /** makes names in a folder durable */
  flush(folder: string): Promise<void>
  /** where bytes lie for good */
  named(sha256: string): string
}

/** Opens (and where needed creates) the folder. */
export async function openDisk({ path: root, tmp_path, min_free, fsync }: DiskOptions): Promise<FileStore> {
  const named = (sha256: string) => join(root, sha256.slice(0, 2), sha256.slice(2, 4), sha256)
  const derived = (sha256: string) => join(root, '.derived', sha256.slice(0, 2), sha256)
  await mkdir(root, { recursive: true, mode: 0o700 })
  const staging = await openStaging({ folder: tmp_path || join(root, '.tmp'), fsync })
  const check = checker(root, min_free)
  const flush = sharedFlushes()

  return {
    async stage(source, maxSize) {
      await check()
      return stagedFile(await staging.write(source, maxSize), { root, staging, fsync, flush, named })
    },
    async read(sha256, range) {
      // A descriptor, not a FileHandle: one of those that is never read to its end would take the process with it when collected.
      const fd = await promisify(openDescriptor)(named(sha256), 'r').catch(refuseMissing(sha256))
      return createReadStream('', { fd, highWaterMark: 1 << 18, ...range })
    },
    async local(sha256) {
      await stat(named(sha256)).catch(refuseMissing(sha256))
      return { path: named(sha256), release: async () => {} }
    },
    place: named,
    async size(sha256) {
      return (await stat(named(sha256)).catch(nothing))?.size ?? null
    },
    async remove(sha256) {
      await unlink(named(sha256)).catch(nothing)
      await rm(derived(sha256), { recursive: true, force: true })
    },
    list: () => listed(root),
    async setAside(sha256) {
      const to = join(root, '.set-aside', sha256)
      await mkdir(dirname(to), { recursive: true, mode: 0o700 })
      await rename(named(sha256), to).catch(refuseMissing(sha256))
      if (fsync) await Promise.all([flushFolder(dirname(to)), flushFolder(dirname(named(sha256)))])
      return to
    },
    readDerived: async (sha256, name) => (await readFile(join(derived(sha256), name)).catch(nothing)) ?? null,
    async writeDerived(sha256, name, bytes) {
      const { path } = await staging.write([bytes], bytes.length)
      await mkdir(derived(sha256), { recursive: true, mode: 0o700 })
      await rename(path, join(derived(sha256), name))
    },
    unsettled: () => staging.abandoned(),
    check,
    close: async () => {},
  }
}

/** The two levels of folders keep each listing short. */
async function* listed(root: string): ReturnType<FileStore['list']> {
  const within = async (folder: string, name: RegExp) => (await readdir(folder).catch(noFolder)).filter((entry) => name.test(entry)).sort()
  for (const first of await within(root, /^[0-9a-f]{2}$/)) {
    for (const second of await within(join(root, first), /^[0-9a-f]{2}$/)) {
      const folder = join(root, first, second)
      for (const sha256 of await within(folder, /^[0-9a-f]{64}$/)) {
        const found = await stat(join(folder, sha256)).catch(nothing)
        if (found) yield { sha256, size: found.size, modifiedAt: found.mtime }
      }
    }
  }
}

/** A file where a folder should be holds no names. */
function noFolder(error: NodeJS.ErrnoException): string[] {
  if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error
  return []
}

/** Throws where bytes cannot be taken; a folder whose marker vanished is a volume that is no longer mounted. */
function checker(root: string, minFree: number): () => Promise<void> {
  let wasMarked = false
  return async () => {
    try {
      const { bavail, bsize } = await statfs(root)
      if (bavail * bsize < minFree) throw new AppError('SERVICE_UNAVAILABLE', { retry_after_secs: 300 }, 'The document store is full.')
      const isMarked = await access(join(root, markerName)).then(() => true, nothing)
      if (wasMarked && !isMarked) throw new AppError('SERVICE_UNAVAILABLE', { retry_after_secs: 300 }, 'The document store is not mounted.')
      wasMarked = isMarked === true
    } catch (error) {
      throw troubleOf(error)
    }
  }
}

const refuseMissing = (sha256: string) => (error: NodeJS.ErrnoException) => {
  throw error.code === 'ENOENT' ? new FileMissing(sha256) : troubleOf(error)
}

function stagedFile(staged: Staged, place: Place): Awaited<ReturnType<FileStore['stage']>> {
  let note: OwnNote | null = null
  return {
    sha256: staged.sha256,
    size: staged.size,
    head: staged.head,
    async commit() {
      try {
        note = await place.staging.note(staged.sha256)
        await giveName(staged, place)
      } catch (error) {
        throw troubleOf(error)
      }
    },
    async keep() {
      await note?.remove().catch(() => {})
      note = null
    },
    async discard() {
      await unlink(staged.path).catch(() => {})
      await note?.abandon().catch(() => {})
    },
  }
}

/** Rename, then flush the folder: only now does a crash leave the name and all the bytes behind it. */
async function giveName({ path, sha256, size }: Staged, { root, fsync, flush, named }: Place): Promise<void> {
  const to = named(sha256)
  const made = await mkdir(dirname(to), { recursive: true, mode: 0o700 })
  // A file of another length under this name was damaged; whole bytes take its place.
  const isThere = (await stat(to).catch(nothing))?.size === size
  if (!isThere) await rename(path, to)
  if (!fsync) return
  // Also where it was there already: whoever named it may not have come as far as this.
  const folders = [dirname(to)]
  // A folder that was just made is itself only a name in its parent.
  if (made) folders.push(dirname(dirname(to)), root)
  await Promise.all(folders.map(flush))
}

/** Whoever asks while a folder is being flushed needs another flush, and shares it with all who ask meanwhile. */
function sharedFlushes(): (folder: string) => Promise<void> {
  const running = new Map<string, Promise<void>>()
  const waiting = new Map<string, Promise<void>>()
  return (folder) => {
    const shared = waiting.get(folder)
    if (shared) return shared
    const flush = (running.get(folder) ?? Promise.resolve())
      .catch(() => {})
      .then(() => {
        waiting.delete(folder)
        running.set(folder, flush)
        return flushFolder(folder)
      })
      .finally(() => {
        if (running.get(folder) === flush) running.delete(folder)
      })
    waiting.set(folder, flush)
    return flush
  }
}

async function flushFolder(path: string): Promise<void> {
  const handle = await open(path)
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

function nothing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error
}
