/** Lists and removes the backups in the configured directory. A backup is a tar archive, or a directory written by `--format dir`. */
import { createReadStream } from 'node:fs'
import { open, readdir, rm, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { blockSize, tarEnd } from '../http/tar-writer.ts'
import { nullIfMissing } from '../missing-file.ts'
import { readAll } from './byte-streams.ts'
import { type ManifestText, readFolderManifest, readFolderManifestText } from './folder-manifest.ts'
import { BackupDamaged, Head, Manifest, manifestPath, maxHeadBytes, maxManifestBytes, parseEntryPath, parseJson } from './manifest.ts'
import { checkSignature, type SignaturePolicy } from './signature.ts'
import { readTar } from './tar.ts'

export interface BackupInfo {
  name: string
  created_at: string
  /** in bytes; of a directory: the size of all stored files */
  size: number
  documents: number
  /** false: tables only */
  has_files: boolean
  /** name of the last migration */
  schema: string
  version: string
  /** id of the document store, which differs between installations */
  store_id: string
  /** false: the archive is still being written, was abandoned, or is truncated */
  complete: boolean
}

/** Returns the file name of a new archive. */
export const archiveName = (now: Date): string => `dms-${now.toISOString().replace(/[-:]|\.\d+/g, '')}.tar`

/** Default directory of `--format dir`. Each run updates it. */
export const defaultFolderName = 'dms'

const archivePattern = /^dms-\d{8}T\d{6}Z\.tar(\.partial)?$/

/** Returns all backups, newest first. Skips unreadable ones, and passes their errors to `onUnreadable`. */
export async function listBackups(folder: string, onUnreadable: (name: string, error: Error) => void = () => {}): Promise<BackupInfo[]> {
  const names = (await readdir(folder).catch(nullIfMissing)) ?? []
  const readOrReport = (name: string) =>
    readInfo(join(folder, name)).catch((error: Error) => {
      onUnreadable(name, error)
      return null
    })
  const infos = await Promise.all(names.map(readOrReport))
  return infos.filter((info) => info !== null).sort((one, two) => (one.created_at < two.created_at ? 1 : -1))
}

/**
 * Returns the name of the newest complete backup; null for none. Prefers backups of the document store `storeId`: two installations may share a folder.
 * Then prefers backups with files, then times that are not in the future.
 */
export async function findLatestBackup(folder: string, storeId: string | undefined): Promise<string | null> {
  // A truncated archive is not passed over: its rehearsal has to fail.
  const finished = (await listBackups(folder)).filter(isFinished)
  // After a restore, all backups are of another store.
  const rank = (info: BackupInfo) => (info.store_id === storeId ? 0 : 4) + (info.has_files ? 0 : 2) + (isPostdated(info) ? 1 : 0)
  return finished.sort((one, two) => rank(one) - rank(two))[0]?.name ?? null
}

/** Returns whether the time of a backup is in the future, because the clock was ahead. */
const isPostdated = ({ created_at }: BackupInfo): boolean => Date.parse(created_at) > Date.now()

async function readInfo(path: string): Promise<BackupInfo | null> {
  const stats = await stat(path)
  const name = basename(path)
  if (stats.isDirectory()) {
    const manifest = await readFolderManifest(path)
    return manifest && toInfo(name, manifest, manifest.bytes, true)
  }
  if (!/\.tar(\.partial)?$/.test(name)) return null
  const head = await readArchiveHead(path)
  return head && toInfo(name, head, stats.size, isFinished({ name }) && (await readArchiveManifest(path))?.manifest.id === head.id)
}

/** Returns whether a backup has got its final name. */
const isFinished = ({ name }: Pick<BackupInfo, 'name'>): boolean => !name.endsWith('.partial')

/** Reads the head, which is the first entry of an archive. */
async function readArchiveHead(path: string): Promise<Head | null> {
  const stream = createReadStream(path)
  try {
    for await (const { path: inside, bytes } of readTar(stream)) {
      if (parseEntryPath(inside)?.kind !== 'head') return null
      return parseJson(Head, inside, (await readAll(bytes, maxHeadBytes, inside)).toString())
    }
    return null
  } finally {
    stream.destroy()
  }
}

/** Throws BackupDamaged if the manifest of `head` is missing, or not signed as `policy` demands. Reads nothing else, and nothing of a pipe. */
export async function checkManifest(path: string, { id }: Head, policy: SignaturePolicy): Promise<void> {
  const stats = await stat(path)
  if (!stats.isFile() && !stats.isDirectory()) return
  const found = await (stats.isFile() ? readArchiveManifest(path) : readFolderManifestText(path))
  if (found?.manifest.id !== id) throw new BackupDamaged(`${path} does not end with its manifest: it was not finished, or was truncated`)
  try {
    checkSignature(found.text, policy)
  } catch (error) {
    throw error instanceof BackupDamaged ? new BackupDamaged(`${path}: ${error.message}`, error.fix) : error
  }
}

/** Bytes at the end of an archive that are searched for the manifest: first few, then as many as it may have. */
const tailSizes = [1 << 16, maxManifestBytes + (1 << 13)]

/** Reads the manifest, the last entry of an archive. Returns null if there is none, or an invalid one. */
async function readArchiveManifest(path: string): Promise<ManifestText | null> {
  const handle = await open(path)
  try {
    const { size } = await handle.stat()
    for (const tailSize of tailSizes) {
      const tail = Buffer.alloc(Math.min(size, tailSize))
      await handle.read(tail, 0, tail.length, size - tail.length)
      if (!tail.subarray(-tarEnd.length).equals(tarEnd)) return null
      for (let at = tail.length - blockSize; at >= 0; at -= blockSize) {
        if (tail.toString('latin1', at, at + manifestPath.length + 1) !== `${manifestPath}\0`) continue
        for await (const { bytes } of readTar([tail.subarray(at)])) {
          const text = (await readAll(bytes)).toString()
          return { manifest: parseJson(Manifest, path, text), text }
        }
      }
    }
    return null
  } catch (error) {
    if (error instanceof BackupDamaged) return null
    throw error
  } finally {
    await handle.close()
  }
}

const toInfo = (
  name: string,
  { created_at, documents, has_files, migrations, dms, store_id }: Head,
  size: number,
  complete: boolean,
): BackupInfo => ({
  name,
  created_at,
  size,
  documents,
  has_files,
  schema: migrations.at(-1) ?? '',
  version: dms,
  store_id,
  complete,
})

/** An unfinished archive counts as abandoned after this time without a write. */
const abandonedAfterMs = 3_600_000

/**
 * Returns the archives to prune: abandoned ones, and complete ones except, for each document store, the `keep` newest with files and the `keep` newest
 * without: archives of tables only do not replace those with files, and two installations may share a folder. Keeps one more if all of those have
 * damaged files: the newest whole one. Ignores files that dms did not name.
 * `postdated`: archives whose time is in the future, because the clock was ahead. `truncated`: archives without an end. Both are not pruned and do not
 * count towards `keep`.
 */
export async function listPrunable(folder: string, keep: number): Promise<Record<'prunable' | 'postdated' | 'truncated', BackupInfo[]>> {
  const archives = (await listBackups(folder)).filter(({ name }) => archivePattern.test(name))
  const now = Date.now()
  const isAbandoned = async ({ name }: BackupInfo) => now - (await stat(join(folder, name))).mtimeMs > abandonedAfterMs
  const unfinished = archives.filter((info) => !isFinished(info))
  const isEachAbandoned = await Promise.all(unfinished.map(isAbandoned))
  const truncated = archives.filter((info) => isFinished(info) && !info.complete)
  const complete = archives.filter((info) => info.complete)
  const postdated = complete.filter(isPostdated)
  const dated = complete.filter((info) => !postdated.includes(info))
  const excessOf = async (archives: readonly BackupInfo[]): Promise<BackupInfo[]> => {
    const excess = archives.slice(keep)
    const newestWhole = excess.length > 0 ? await findWhole(folder, archives) : undefined
    return excess.filter((info) => info !== newestWhole)
  }
  const groups = Map.groupBy(dated, ({ store_id, has_files }) => `${store_id} ${has_files}`)
  const excess = await Promise.all(Array.from(groups.values(), excessOf))
  return { prunable: [...unfinished.filter((_, index) => isEachAbandoned[index]), ...excess.flat()], postdated, truncated }
}

/** Returns the first archive in which no stored file is damaged or missing. */
async function findWhole(folder: string, archives: readonly BackupInfo[]): Promise<BackupInfo | undefined> {
  for (const info of archives) {
    const found = await readArchiveManifest(join(folder, info.name)).catch(() => null)
    if (found?.manifest.damaged.length === 0) return info
  }
  return undefined
}

export const removeBackup = (folder: string, name: string): Promise<void> => rm(join(folder, name), { force: true })
