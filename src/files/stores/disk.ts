/** Document files in a folder of this machine: durable before they are named, named by what they hold and by their generation. */
import { createReadStream, open as openDescriptor } from 'node:fs'
import { access, link, mkdir, open, readdir, readFile, rename, rm, stat, statfs, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { AppError } from '../../errors.ts'
import { addressPattern, FileMissing, type FileStore } from '../../ports/file-store.ts'
import { checkAddress, derivedFolder, derivedName, newGeneration, pathOf } from '../address.ts'
import { hasSameBytes } from '../compare-files.ts'
import { type OwnNote, openStaging, type Staged, type Staging } from '../staging.ts'
import { troubleOf } from '../store-error.ts'
import { markerName } from '../store-marker.ts'

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
  named(address: string): string
}

/** Opens (and where needed creates) the folder. */
export async function openDisk({ path: root, tmp_path, min_free, fsync }: DiskOptions): Promise<FileStore> {
  const named = (address: string) => pathOf(root, address)
  await mkdir(root, { recursive: true, mode: 0o700 })
  const staging = await openStaging({ folder: tmp_path || join(root, '.tmp'), fsync })
  const check = checker(root, min_free)
  const flush = sharedFlushes()

  return {
    async stage(source, maxSize, generation = newGeneration()) {
      await check()
      return stagedFile(await staging.write(source, maxSize), generation, { root, staging, fsync, flush, named })
    },
    async read(address, range) {
      // A descriptor, not a FileHandle: one of those that is never read to its end would take the process with it when collected.
      const fd = await promisify(openDescriptor)(named(address), 'r').catch(refuseMissing(address))
      return createReadStream('', { fd, highWaterMark: 1 << 18, ...range })
    },
    async openLocal(address) {
      // A second name: bytes that are removed, or replaced by another upload of them, stay until the reader is done.
      const path = staging.linkPath()
      const isLinked = await link(named(address), path).then(
        () => true,
        (error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? refuseMissing(address)(error) : false),
      )
      if (isLinked) return { path, release: () => staging.removeLink(path) }
      // A file system without hard links.
      await stat(named(address)).catch(refuseMissing(address))
      return { path: named(address), release: async () => {} }
    },
    describeLocation: named,
    async size(address) {
      return (await stat(named(address)).catch(nothing))?.size ?? null
    },
    async remove(address) {
      await unlink(named(address)).catch(nothing)
    },
    list: () => listed(root),
    async quarantine(address) {
      const to = join(root, '.set-aside', checkAddress(address))
      await mkdir(dirname(to), { recursive: true, mode: 0o700 })
      await rename(named(address), to).catch(refuseMissing(address))
      if (fsync) await Promise.all([flushFolder(dirname(to)), flushFolder(dirname(named(address)))])
      return to
    },
    readDerived: async ({ sha256, ownerId }, name) =>
      (await readFile(join(derivedFolder(root, sha256), derivedName(ownerId, name))).catch(nothing)) ?? null,
    async writeDerived({ sha256, ownerId }, name, bytes) {
      await check()
      const folder = derivedFolder(root, sha256)
      const { path } = await staging.write([bytes], bytes.length)
      try {
        await mkdir(folder, { recursive: true, mode: 0o700 })
        await rename(path, join(folder, derivedName(ownerId, name)))
      } catch (error) {
        await unlink(path).catch(() => {})
        throw troubleOf(error)
      }
    },
    removeDerived: (sha256) => rm(derivedFolder(root, sha256), { recursive: true, force: true }),
    listUncommitted: () => staging.abandoned(),
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
      for (const address of await within(folder, addressPattern)) {
        const found = await stat(join(folder, address)).catch(nothing)
        if (found) yield { address, size: found.size, modifiedAt: found.mtime }
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

const refuseMissing =
  (address: string) =>
  (error: NodeJS.ErrnoException): never => {
    throw error.code === 'ENOENT' ? new FileMissing(address) : troubleOf(error)
  }

function stagedFile(staged: Staged, generation: string, place: Place): Awaited<ReturnType<FileStore['stage']>> {
  const address = checkAddress(`${staged.sha256}.${generation}`)
  const compared = new Map<string, Promise<boolean>>()
  let note: OwnNote | null = null
  let isNamed = false
  return {
    sha256: staged.sha256,
    address,
    size: staged.size,
    head: staged.head,
    equals(other) {
      const answer = compared.get(other) ?? hasSameBytes(isNamed ? place.named(address) : staged.path, place.named(other))
      compared.set(other, answer)
      return answer
    },
    async commit() {
      if (isNamed) return
      try {
        note = await place.staging.note(address)
        await giveName(staged.path, address, place)
        isNamed = true
      } catch (error) {
        throw troubleOf(error)
      }
    },
    async confirm() {
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
async function giveName(path: string, address: string, { root, fsync, flush, named }: Place): Promise<void> {
  const to = named(address)
  const made = await mkdir(dirname(to), { recursive: true, mode: 0o700 })
  await rename(path, to)
  if (!fsync) return
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
