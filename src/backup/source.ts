/** Where a backup is read from: an archive (a file or a pipe) or a folder; the same entries in the same order. */
import { close, constants, createReadStream, fstat, open } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { AppError } from '../errors.ts'
import { openCollector } from '../files/free-buffers.ts'
import { type Bytes, counted, gathered, lines } from './bytes.ts'
import {
  BackupDamaged,
  entryAt,
  Head,
  headPath,
  Manifest,
  manifestPath,
  maxHeadBytes,
  maxManifestBytes,
  parsed,
  readSumLine,
} from './manifest.ts'
import { readTar } from './tar.ts'

export interface SourceEntry {
  /** '': a part of an archive that cannot be read */
  readonly path: string
  /** to be read to its end before the next entry is asked for; null: it should be there, and is not */
  readonly bytes: Bytes | null
}

export interface Source {
  /** for people */
  readonly name: string
  /** `skipsDamaged`: goes on behind a damaged header of an archive */
  entries(options?: { skipsDamaged?: boolean }): AsyncIterable<SourceEntry>
}

const chunkSize = 1 << 18

export const streamSource = (stream: Bytes, name: string): Source => ({
  name,
  entries: (options) => readTar(counted(stream, openCollector()), options),
})

/** What lies at a path: a folder or an archive. Throws AppError NOT_FOUND. */
export async function sourceAt(path: string): Promise<Source> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ENOENT' ? new AppError('NOT_FOUND', { path }, `there is no backup at ${path}`) : error
  })
  if (!found.isDirectory()) return streamSource(createReadStream(path, { highWaterMark: 1 << 20 }), path)
  return { name: path, entries: () => folderEntries(path) }
}

async function* folderEntries(folder: string): AsyncGenerator<SourceEntry> {
  const openFile = await openerOf(folder)
  const first = await openFile(manifestPath)
  if (!first) throw new BackupDamaged(`${folder} has no ${manifestPath}: it is no finished backup`)
  const text = await gathered(first, maxManifestBytes, manifestPath)
  const { id, sums } = parsed(Manifest, manifestPath, text.toString())
  yield { path: headPath(id), bytes: await openFile(headPath(id)) }
  const list = await openFile(sums.path)
  if (list) {
    for await (const line of lines(list)) {
      const { path } = readSumLine(line)
      const kind = entryAt(path)?.kind
      // The list may be damaged, or made by somebody else: it names entries of backups only, which never lead out of the folder.
      if (kind && !['head', 'sums', 'manifest'].includes(kind)) yield { path, bytes: await openFile(path) }
    }
  }
  yield { path: sums.path, bytes: await openFile(sums.path) }
  yield { path: manifestPath, bytes: [text] }
}

/** Opens files below a folder, null for what is no regular file there: a symbolic link, also of a directory on the way, is not followed. */
async function openerOf(folder: string): Promise<(path: string) => Promise<Bytes | null>> {
  const root = await realpath(folder)
  let [last, isInside] = ['', false]
  return async (path) => {
    const directory = dirname(join(root, path))
    // Entries come in the order of their directories.
    if (directory !== last) [last, isInside] = [directory, (await realpath(directory).catch(() => null)) === directory]
    if (!isInside) return null
    // A descriptor, not a FileHandle: one of those that is never read to its end would take the process with it when collected.
    const fd = await promisify(open)(join(root, path), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK).catch(() => null)
    if (fd === null) return null
    if ((await promisify(fstat)(fd)).isFile()) return createReadStream('', { fd, highWaterMark: chunkSize })
    await promisify(close)(fd)
    return null
  }
}

/** What the backup says of itself at its beginning; nothing more is read. Throws BackupDamaged. */
export async function headOf(source: Source): Promise<Head> {
  for await (const { path, bytes } of source.entries()) {
    if (bytes === null || entryAt(path)?.kind !== 'head') break
    return parsed(Head, path, (await gathered(bytes, maxHeadBytes, path)).toString())
  }
  throw new BackupDamaged(`${source.name} does not begin with the head of a backup`)
}
