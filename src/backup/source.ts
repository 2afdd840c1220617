/** Where a backup is read from: an archive (a file or a pipe) or a folder; the same entries in the same order. */
import { createReadStream } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { AppError } from '../errors.ts'
import { openCollector } from '../files/collect.ts'
import { type Bytes, counted, gathered, lines } from './bytes.ts'
import { BackupDamaged, entryAt, Head, headPath, Manifest, manifestPath, parsed } from './manifest.ts'
import { readTar } from './tar.ts'

export interface SourceEntry {
  readonly path: string
  /** to be read to its end before the next entry is asked for; null: it should be there, and is not */
  readonly bytes: Bytes | null
}

export interface Source {
  /** for people */
  readonly name: string
  entries(): AsyncIterable<SourceEntry>
}

const chunk = 1 << 18

export const streamSource = (stream: Bytes, name: string): Source => ({ name, entries: () => readTar(counted(stream, openCollector())) })

/** What lies at a path: a folder or an archive. Throws AppError NOT_FOUND. */
export async function sourceAt(path: string): Promise<Source> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
    throw error.code === 'ENOENT' ? new AppError('NOT_FOUND', { path }, `there is no backup at ${path}`) : error
  })
  if (!found.isDirectory()) return streamSource(createReadStream(path, { highWaterMark: 1 << 20 }), path)
  return { name: path, entries: () => folderEntries(path) }
}

async function* folderEntries(folder: string): AsyncGenerator<SourceEntry> {
  const text = await readFile(join(folder, manifestPath), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') throw new BackupDamaged(`${folder} has no ${manifestPath}: it is no finished backup`)
    throw error
  })
  const { id, sums } = parsed(Manifest, manifestPath, text)
  const entry = async (path: string): Promise<SourceEntry> => {
    const isThere = (await stat(join(folder, path)).catch(() => null))?.isFile() === true
    return { path, bytes: isThere ? createReadStream(join(folder, path), { highWaterMark: chunk }) : null }
  }
  yield await entry(headPath(id))
  const list = await entry(sums.path)
  if (list.bytes) {
    for await (const line of lines(list.bytes)) {
      const path = line.slice(66)
      // The list may be damaged too: it must not lead out of the folder.
      if (path !== headPath(id) && /^(data|files)(\/[\w.-]+)+$/.test(path) && !path.includes('..')) yield await entry(path)
    }
  }
  yield await entry(sums.path)
  yield { path: manifestPath, bytes: [Buffer.from(text)] }
}

/** What the backup says of itself at its beginning; nothing more is read. Throws BackupDamaged. */
export async function headOf(source: Source): Promise<Head> {
  for await (const { path, bytes } of source.entries()) {
    if (bytes === null || entryAt(path)?.kind !== 'head') break
    return parsed(Head, path, (await gathered(bytes)).toString())
  }
  throw new BackupDamaged(`${source.name} does not begin with the head of a backup`)
}
