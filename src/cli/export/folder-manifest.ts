/** Manifest of an export folder. Memory holds only where each line is: a manifest of many documents is larger. */
import { createReadStream } from 'node:fs'
import { basename, join } from 'node:path'
import { slicesOf } from '../../slices.ts'
import { readTextLines } from '../../text-lines.ts'
import { saveFile, temporaryPath } from '../remote/save-file.ts'
import { unusablePath, usage } from '../runtime/exit.ts'
import { type LinePlace, type LineSpool, openLineSpool } from './line-spool.ts'
import { filesOf, type ManifestEntry, manifestFileName, manifestKey } from './manifest.ts'

export interface FolderManifest {
  keys(): IteratorObject<string>
  get(key: string): Promise<ManifestEntry | undefined>
  set(entry: ManifestEntry): Promise<void>
  delete(key: string): void
  /** Writes the file, sorted by id and version, so that two manifests can be compared. */
  save(): Promise<void>
  close(): Promise<void>
}

/** Lines that are read and written together. */
const linesPerWrite = 1000

/** Reads the manifest of an earlier export. Throws Failure USAGE if the folder cannot be used, or if no export wrote its manifest. */
export async function openFolderManifest(folder: string): Promise<FolderManifest> {
  const path = join(folder, manifestFileName)
  const spool = await openLineSpool(temporaryPath(path)).catch((error: Error) => {
    throw unusablePath('--to', folder, error)
  })
  const places = await readPlaces(path, folder, spool).catch(async (error) => {
    await spool.close()
    throw error
  })
  async function* sortedLines(): AsyncGenerator<Uint8Array> {
    for (const keys of slicesOf([...places.keys()].sort(compareKeys), linesPerWrite))
      yield await spool.read(keys.map((key) => places.get(key) as LinePlace))
  }
  return {
    keys: () => places.keys(),
    async get(key) {
      const place = places.get(key)
      return place && JSON.parse((await spool.read([place])).toString())
    },
    async set(entry) {
      places.set(manifestKey(entry), await spool.append(JSON.stringify(entry)))
    },
    delete: (key) => void places.delete(key),
    save: async () => void (await saveFile(sortedLines(), path, { size: null, sha256: null }, true, () => {})),
    close: spool.close,
  }
}

/** Copies the lines of the manifest to the spool. Skips entries whose names are paths. */
async function readPlaces(path: string, folder: string, spool: LineSpool): Promise<Map<string, LinePlace>> {
  const places = new Map<string, LinePlace>()
  try {
    for await (const line of readTextLines(createReadStream(path))) {
      const entry = line === '' ? null : (JSON.parse(line) as ManifestEntry)
      if (entry && isOurs(entry)) places.set(manifestKey(entry), await spool.append(line))
    }
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT') return places
    if (code !== undefined) throw unusablePath('--to', folder, error as Error)
    throw usage(`${path} is not the manifest of an export`, 'export to another folder, or remove that file')
  }
  return places
}

const isOurs = (entry: ManifestEntry): boolean =>
  typeof entry.id === 'string' && filesOf(entry).every((name) => typeof name === 'string' && name === basename(name) && name !== '..')

/** Sorts by id, then by version. The current version, whose key is the id, is the last one. */
function compareKeys(one: string, other: string): number {
  const [oneId = '', oneVersion = Number.POSITIVE_INFINITY] = one.split(' ')
  const [otherId = '', otherVersion = Number.POSITIVE_INFINITY] = other.split(' ')
  return oneId === otherId ? Number(oneVersion) - Number(otherVersion) : oneId < otherId ? -1 : 1
}
