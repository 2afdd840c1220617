/** Manifest of an export folder. Memory holds only where each line is: a manifest of many documents is larger. */
import { createReadStream } from 'node:fs'
import { open, rename, unlink } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { nullIfMissing } from '../../missing-file.ts'
import { slicesOf } from '../../slices.ts'
import { readTextLines } from '../../text-lines.ts'
import { saveFile, temporaryPath } from '../remote/save-file.ts'
import { unusablePath, usage } from '../runtime/exit.ts'
import { createLineSpool, type LinePlace, type LineSpool } from './line-spool.ts'
import { filesOf, type ManifestEntry, manifestFileName, manifestKey } from './manifest.ts'

export interface FolderManifest {
  keys(): IteratorObject<string>
  get(key: string): Promise<ManifestEntry | undefined>
  set(entry: ManifestEntry): Promise<void>
  delete(key: string): void
  /** Writes the file, sorted by id and version, so that two manifests can be compared. Removes the journal. */
  save(): Promise<void>
  close(): Promise<void>
}

/** Lines that are read and written together. */
const linesPerWrite = 1000

/**
 * Reads the manifest of an earlier export, and the journal of one that was killed. The first change begins a new journal. Throws Failure USAGE if the
 * folder cannot be used, or if no export wrote its manifest.
 */
export async function openFolderManifest(folder: string): Promise<FolderManifest> {
  const path = join(folder, manifestFileName)
  const journal = join(folder, '.dms-export.jsonl')
  const temporary = temporaryPath(path)
  const file = await open(temporary, 'wx+').catch((error: Error) => {
    throw unusablePath('--to', folder, error)
  })
  const spool = createLineSpool(file)
  const close = async (): Promise<void> => {
    await spool.close()
    await unlink(temporary).catch(() => {})
  }
  const places = new Map<string, LinePlace>()
  try {
    await readLines(path, places, spool, parseManifestLine)
    await readLines(journal, places, spool, parseJournalLine)
  } catch (error) {
    await close()
    if ((error as NodeJS.ErrnoException).code !== undefined) throw unusablePath('--to', folder, error as Error)
    throw usage(`${path} is not the manifest of an export`, 'export to another folder, or remove that file')
  }
  async function* sortedLines(): AsyncGenerator<Uint8Array> {
    for (const keys of slicesOf([...places.keys()].sort(compareKeys), linesPerWrite))
      yield await spool.read(keys.map((key) => places.get(key) as LinePlace))
  }
  let named: Promise<void> | undefined
  return {
    keys: () => places.keys(),
    async get(key) {
      const place = places.get(key)
      return place && JSON.parse((await spool.read([place])).toString())
    },
    async set(entry) {
      places.set(manifestKey(entry), await spool.append(JSON.stringify(entry)))
      named ??= rename(temporary, journal)
      await named
    },
    delete: (key) => void places.delete(key),
    async save() {
      await saveFile(sortedLines(), path, { size: null, sha256: null }, { canOverwrite: true })
      await unlink(journal).catch(nullIfMissing)
    },
    close,
  }
}

/** Copies the entries of a manifest or journal to the spool. Skips those whose names are paths. */
async function readLines(
  path: string,
  places: Map<string, LinePlace>,
  spool: LineSpool,
  parse: (line: string) => ManifestEntry | null,
): Promise<void> {
  try {
    for await (const line of readTextLines(createReadStream(path))) {
      const entry = parse(line)
      if (entry && isOurs(entry)) places.set(manifestKey(entry), await spool.append(line))
    }
  } catch (error) {
    nullIfMissing(error as NodeJS.ErrnoException)
  }
}

const parseManifestLine = (line: string): ManifestEntry | null => (line === '' ? null : JSON.parse(line))

/** A kill leaves incomplete lines. */
function parseJournalLine(line: string): ManifestEntry | null {
  try {
    return parseManifestLine(line)
  } catch {
    return null
  }
}

const isOurs = (entry: ManifestEntry): boolean =>
  typeof entry.id === 'string' && filesOf(entry).every((name) => typeof name === 'string' && name === basename(name) && name !== '..')

/** Sorts by id, then by version. The current version, whose key is the id, is the last one. */
function compareKeys(one: string, other: string): number {
  const [oneId = '', oneVersion = Number.POSITIVE_INFINITY] = one.split(' ')
  const [otherId = '', otherVersion = Number.POSITIVE_INFINITY] = other.split(' ')
  return oneId === otherId ? Number(oneVersion) - Number(otherVersion) : oneId < otherId ? -1 : 1
}
