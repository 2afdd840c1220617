/** Reads the entries of a backup from an archive (file or pipe) or a directory, in the same order. */
import { close, constants, createReadStream, fstat, open } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { Busy } from '../db/lock.ts'
import { AppError } from '../errors.ts'
import { openCollector } from '../files/free-buffers.ts'
import { type Bytes, readAll, readLines, tapSizes } from './byte-streams.ts'
import { findManifestCopy, parseFolderManifest, readFolderManifest } from './folder-manifest.ts'
import {
  BackupDamaged,
  Head,
  headPath,
  manifestPath,
  maxHeadBytes,
  maxManifestBytes,
  parseChecksumLine,
  parseEntryPath,
  parseJson,
} from './manifest.ts'
import { readTar } from './tar.ts'

export interface SourceEntry {
  /** '' for an unreadable part of an archive */
  readonly path: string
  /** Read to the end before the next entry is requested. null: the entry is missing. */
  readonly bytes: Bytes | null
}

export interface BackupSource {
  /** shown in messages */
  readonly name: string
  /** `skipsDamaged`: resume after a damaged tar header */
  entries(options?: { skipsDamaged?: boolean }): AsyncIterable<SourceEntry>
}

const chunkBytes = 1 << 18

export const streamSource = (stream: Bytes, name: string): BackupSource => ({
  name,
  entries: (options) => readTar(tapSizes(stream, openCollector()), options),
})

/** Opens the archive or directory at `path`. Throws AppError NOT_FOUND. */
export async function openSource(path: string): Promise<BackupSource> {
  const stats = await stat(path).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ENOENT' ? new AppError('NOT_FOUND', { path }, `no backup at ${path}`) : error
  })
  if (!stats.isDirectory()) return streamSource(createReadStream(path, { highWaterMark: 1 << 20 }), path)
  return { name: path, entries: () => readFolderEntries(path) }
}

/** Yields the entries of a directory. Throws Busy if a backup updates it meanwhile. */
async function* readFolderEntries(folder: string): AsyncGenerator<SourceEntry> {
  const openAny = await createFileOpener(folder)
  const first = await openAny(manifestPath)
  if (!first) {
    const fix = (await findManifestCopy(folder)) ?? undefined
    throw new BackupDamaged(`${folder} has no ${manifestPath}: the backup was not finished`, fix)
  }
  const text = await readAll(first, maxManifestBytes, manifestPath)
  const { id, sums } = await parseFolderManifest(folder, text.toString())
  const openFile = async (path: string): Promise<Bytes | null> => {
    const bytes = await openAny(path)
    const isUpdated = bytes === null && (await readFolderManifest(folder).catch(() => null))?.id !== id
    if (isUpdated) throw new Busy('backup create', `it has updated ${folder}`, null)
    return bytes
  }
  yield { path: headPath(id), bytes: await openFile(headPath(id)) }
  const list = await openFile(sums.path)
  if (list) {
    for await (const line of readLines(list)) {
      const { path } = parseChecksumLine(line)
      const kind = parseEntryPath(path)?.kind
      // The list may be damaged or crafted: only paths of backup entries are opened, and they never leave the directory.
      if (kind && !['head', 'sums', 'manifest'].includes(kind)) yield { path, bytes: await openFile(path) }
    }
  }
  yield { path: sums.path, bytes: await openFile(sums.path) }
  yield { path: manifestPath, bytes: [text] }
}

/** Returns a function that opens regular files below `folder`. It returns null for anything else and follows no symbolic links. */
async function createFileOpener(folder: string): Promise<(path: string) => Promise<Bytes | null>> {
  const root = await realpath(folder)
  let last = ''
  let isInside = false
  return async (path) => {
    const directory = dirname(join(root, path))
    // Entries are sorted by directory, so the last check is reused.
    if (directory !== last) [last, isInside] = [directory, (await realpath(directory).catch(() => null)) === directory]
    if (!isInside) return null
    // A plain descriptor: a FileHandle that is garbage-collected while open would end the process.
    const fd = await promisify(open)(join(root, path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => null)
    if (fd === null) return null
    if ((await promisify(fstat)(fd)).isFile()) return createReadStream('', { fd, highWaterMark: chunkBytes })
    await promisify(close)(fd)
    return null
  }
}

/** Reads the head of a backup and nothing after it. Throws BackupDamaged. */
export async function readHead(source: BackupSource): Promise<Head> {
  for await (const { path, bytes } of source.entries()) {
    if (bytes === null || parseEntryPath(path)?.kind !== 'head') break
    return parseJson(Head, path, (await readAll(bytes, maxHeadBytes, path)).toString())
  }
  throw new BackupDamaged(`${source.name} does not begin with the head of a backup`)
}
