/** File store in a local folder. A file is flushed before it gets its name, which is its address. */
import { createReadStream, open as openDescriptor } from 'node:fs'
import { link, mkdir, readdir, readFile, rename, rm, stat, unlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { shareNextRuns } from '../../concurrency.ts'
import { flushFolder } from '../../folders.ts'
import { nullIfMissing } from '../../missing-file.ts'
import { addressPattern, type DerivedFile, FileMissing, type FileStore } from '../../ports/file-store.ts'
import { checkAddress, derivedFolder, derivedName, newGeneration, parseDerivedName, pathOf } from '../address.ts'
import { hasSameBytes } from '../compare-files.ts'
import { type CommitMarker, openStaging, type StagedBytes, type Staging, toReadError, toStoreError } from '../staging.ts'
import { openDiskChecks } from './disk-checks.ts'

export interface DiskOptions {
  path: string
  /** folder of temporary files; must be on the same file system */
  tmp_path: string
  /** bytes that must stay free */
  min_free: number
  fsync: boolean
}

interface DiskContext {
  root: string
  staging: Staging
  fsync: boolean
  /** flushes a folder */
  flush(folder: string): Promise<void>
  /** folders below `root` whose names this process has flushed */
  flushedFolders: Set<string>
  /** path of a committed file */
  pathOfAddress(address: string): string
}

/** Opens the store and creates its folder. `storeId`: text of its marker, null to accept any. */
export async function openDisk({ path: root, tmp_path, min_free, fsync }: DiskOptions, storeId: string | null = null): Promise<FileStore> {
  const named = (address: string) => pathOf(root, address)
  await mkdir(root, { recursive: true, mode: 0o700 })
  const { check, requireMounted, undefinedIfMissing } = await openDiskChecks(root, min_free, storeId)
  const staging = await openStaging({ folder: tmp_path || join(root, '.tmp'), fsync, requireSpace: check })
  const throwMissing = (address: string) => async (error: NodeJS.ErrnoException) => {
    await undefinedIfMissing(error).catch((cause) => {
      throw toReadError(cause)
    })
    throw new FileMissing(address)
  }
  const disk: DiskContext = { root, staging, fsync, flush: shareNextRuns(flushFolder), flushedFolders: new Set(), pathOfAddress: named }

  return {
    async stage(source, maxSize, generation = newGeneration()) {
      await check()
      const staged = await staging.write(source, maxSize, (sha256) => prepareFolder(named(sha256), disk))
      return stagedFile(staged, generation, disk)
    },
    async read(address, range) {
      // A descriptor instead of a FileHandle: Node ends the process when it collects an open FileHandle.
      const fd = await promisify(openDescriptor)(named(address), 'r').catch(throwMissing(address))
      return createReadStream('', { fd, highWaterMark: 1 << 18, ...range })
    },
    async openLocal(address) {
      // A hard link keeps the bytes until the reader is done, even if they are removed or replaced meanwhile.
      const path = staging.linkPath()
      const isLinked = await link(named(address), path).then(
        () => true,
        (error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? throwMissing(address)(error) : false),
      )
      if (isLinked) return { path, release: () => staging.removeLink(path) }
      // The file system has no hard links.
      await stat(named(address)).catch(throwMissing(address))
      return { path: named(address), release: async () => {} }
    },
    presign: async () => null,
    describeLocation: named,
    async size(address) {
      try {
        return (await stat(named(address)).catch(undefinedIfMissing))?.size ?? null
      } catch (error) {
        throw toStoreError(error)
      }
    },
    async remove(address) {
      const attempt = () => unlink(named(address)).then(() => true, undefinedIfMissing)
      // Twice: the volume may have been mounted between the first attempt and its check.
      if (!(await attempt())) await attempt()
    },
    async *list(onUnreadable) {
      // A store that is full or read-only can be listed, too.
      const nowMs = await staging.readClock().catch(() => Date.now())
      yield* listFiles(root, onUnreadable, nowMs)
      // The list of a store that was unmounted meanwhile is not complete.
      await requireMounted()
    },
    async quarantine(address) {
      const to = join(root, '.quarantine', checkAddress(address))
      await mkdir(dirname(to), { recursive: true, mode: 0o700 })
      await rename(named(address), to).catch(throwMissing(address))
      if (fsync) await Promise.all([flushFolder(dirname(to)), flushFolder(dirname(named(address)))])
      return to
    },
    readDerived: async ({ sha256, ownerId }, name) =>
      (await readFile(join(derivedFolder(root, sha256), derivedName(ownerId, name))).catch(undefinedIfMissing)) ?? null,
    async writeDerived({ sha256, ownerId }, name, bytes) {
      await check()
      const folder = derivedFolder(root, sha256)
      const { path } = await staging.write([bytes], bytes.length)
      try {
        await mkdir(folder, { recursive: true, mode: 0o700 })
        await rename(path, join(folder, derivedName(ownerId, name)))
      } catch (error) {
        await unlink(path).catch(() => {})
        throw toStoreError(error)
      }
    },
    async removeDerived(sha256) {
      await rm(derivedFolder(root, sha256), { recursive: true, force: true })
      // It has removed nothing of a store that is not mounted.
      await requireMounted()
    },
    listDerived: () => listDerived(root),
    listUncommitted: () => staging.listAbandoned(),
    check,
    close: async () => {},
  }
}

/** Yields all stored files; none if the folder does not exist. Two levels of folders keep each listing short. */
export async function* listFiles(
  root: string,
  onUnreadable?: (location: string) => void,
  nowMs = Date.now(),
): ReturnType<FileStore['list']> {
  const emptyIfUnreadable = (error: NodeJS.ErrnoException): string[] => {
    if (error.code !== 'EACCES' || error.path === undefined || !onUnreadable) return emptyIfNoFolder(error)
    onUnreadable(error.path)
    return []
  }
  const within = async (folder: string, name: RegExp) =>
    (await readdir(folder).catch(emptyIfUnreadable)).filter((entry) => name.test(entry)).sort()
  for (const first of await within(root, /^[0-9a-f]{2}$/)) {
    for (const second of await within(join(root, first), /^[0-9a-f]{2}$/)) {
      const folder = join(root, first, second)
      for (const address of await within(folder, addressPattern)) {
        const stats = await stat(join(folder, address)).catch(nullIfMissing)
        if (stats) yield { address, size: stats.size, ageMs: nowMs - stats.mtimeMs }
      }
    }
  }
}

/** Yields all derived files: `.derived/ab/<sha256>/<owner>_<name>`. */
async function* listDerived(root: string): AsyncGenerator<DerivedFile> {
  const folder = join(root, '.derived')
  const within = async (path: string) => (await readdir(path).catch(emptyIfNoFolder)).sort()
  for (const first of await within(folder)) {
    for (const sha256 of await within(join(folder, first))) {
      for (const file of await within(join(folder, first, sha256))) {
        const derived = parseDerivedName(file)
        const stats = await stat(join(folder, first, sha256, file)).catch(nullIfMissing)
        if (derived && stats) yield { key: { sha256, ownerId: derived.ownerId }, name: derived.name, size: stats.size }
      }
    }
  }
}

/** Returns an empty list for a folder that does not exist or is a file. */
function emptyIfNoFolder(error: NodeJS.ErrnoException): string[] {
  if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error
  return []
}

function stagedFile(staged: StagedBytes, generation: string, disk: DiskContext): Awaited<ReturnType<FileStore['stage']>> {
  const address = checkAddress(generation === '' ? staged.sha256 : `${staged.sha256}.${generation}`)
  let marker: CommitMarker | null = null
  let isNamed = false
  let isCommitted = false
  return {
    sha256: staged.sha256,
    address,
    size: staged.size,
    head: staged.head,
    equals: (other) => hasSameBytes(isNamed ? disk.pathOfAddress(address) : staged.path, disk.pathOfAddress(other)),
    async commit() {
      isCommitted = true
      if (isNamed) return
      try {
        marker ??= await disk.staging.markCommit(address)
        await renameDurably(staged.path, address, disk)
        isNamed = true
      } catch (error) {
        throw toStoreError(error)
      }
    },
    rollback() {
      isCommitted = false
    },
    async confirm() {
      if (!isCommitted) return
      await marker?.remove().catch(() => {})
      marker = null
    },
    async discard() {
      if (!isNamed) await unlink(staged.path).catch(() => {})
      await marker?.abandon().catch(() => {})
    },
  }
}

/** Creates the folder of a file, and flushes its name. */
async function prepareFolder(path: string, { root, fsync, flush, flushedFolders }: DiskContext): Promise<void> {
  const folder = dirname(path)
  const parent = dirname(folder)
  const created = await mkdir(folder, { recursive: true, mode: 0o700 })
  if (!fsync) return
  // Another process may have created the parent a moment ago.
  await Promise.all([...(created === undefined ? [] : [parent]), ...(flushedFolders.has(parent) ? [] : [root])].map(flush))
  flushedFolders.add(parent)
}

/** Renames a file to its address and flushes the folder, which exists: after a crash the name exists only with all bytes. */
async function renameDurably(path: string, address: string, { pathOfAddress, fsync, flush }: DiskContext): Promise<void> {
  const to = pathOfAddress(address)
  await rename(path, to)
  if (fsync) await flush(dirname(to))
}
