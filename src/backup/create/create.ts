/** Makes a backup while everybody goes on working: all tables as they are at one moment, then the files that they name. */
import { createHash, randomBytes } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { filesLock, withLock } from '../../db/lock.ts'
import { openCollector } from '../../files/free-buffers.ts'
import { checkBelonging } from '../../files/store-marker.ts'
import { noteSuccess } from '../../jobs/last-success.ts'
import type { Places } from '../../open-app.ts'
import { versionOfDms } from '../../version.ts'
import { counted, fillings, hashed, lines } from '../bytes.ts'
import * as at from '../manifest.ts'
import { signed } from '../signature.ts'
import { copyStoredFiles, type Damage } from './copy-stored-files.ts'
import type { Sink } from './sink.ts'
import { openSnapshot, type Snapshot } from './snapshot.ts'

export interface BackupOptions {
  /** false: tables only */
  withFiles: boolean
  /** settings to be kept beside, for whoever reads the backup; null: none */
  settings: object | null
  /** the keys that dms made for itself below the data folder come along */
  withSecrets: boolean
  /** milliseconds to wait for another backup before Busy is thrown */
  lockTimeout: number
  /** signs the manifest; null: it is not signed */
  key: Buffer | null
  signal: AbortSignal
  onProgress(state: { done: number; total: number; bytes: number; totalBytes: number }): void
}

/** What dms keeps below the data folder where the configuration does not say it. */
export const secretNames = ['jwt_secret', 'sources_key'] as const

/** Bytes of a piece of a table: held in memory once. */
const partSize = 4 << 20
/** Milliseconds for removals that are under way to end. */
const patience = 60_000

export interface BackupResult {
  manifest: at.Manifest
  /** addresses of stored files that the document store has lost, and of which the backup has an intact copy from an earlier run */
  lostInStore: string[]
}

/** Writes a backup to `sink`. It counts as a success only where no stored file in it is damaged. Throws Busy; on any error nothing unfinished is left at the place. */
export function backUp(places: Places, sink: Sink, options: BackupOptions): Promise<BackupResult> {
  const { database } = places
  return withLock(database, 'backup', options.lockTimeout, () =>
    // From before the snapshot to the last file: what the tables name is there to be read.
    withLock(database, filesLock, patience, async () => {
      const folder = await mkdtemp(join(tmpdir(), 'dms-backup-'))
      try {
        const result = await write(places, sink, options, join(folder, 'files'))
        if (result.manifest.damaged.length === 0) await noteSuccess(database.db, 'backup')
        return result
      } catch (error) {
        await sink.discard()
        throw error
      } finally {
        await rm(folder, { recursive: true, force: true })
      }
    }),
  )
}

/** `list` is the path of a file for the addresses of all stored files: the snapshot is not kept open while they are copied, for it keeps PostgreSQL from cleaning up. */
async function write(places: Places, sink: Sink, options: BackupOptions, list: string): Promise<BackupResult> {
  const { storage } = places.config
  // A folder that is not mounted would make a backup in which every file is missing.
  if (storage.kind === 'disk') await checkBelonging(places.database.db, storage.path)
  const snapshot = await openSnapshot(places.database)
  const sums: string[] = []
  let head: at.Head
  let rows: at.Manifest['rows']
  try {
    head = headOf(snapshot, options)
    await sink.begin(head)
    const put = async (path: string, bytes: Uint8Array) => {
      options.signal.throwIfAborted()
      sums.push(at.sumLine(createHash('sha256').update(bytes).digest('hex'), path))
      await sink.put(path, bytes.length, [bytes])
    }
    await put(at.headPath(head.id), json(head))
    rows = await writeTables(snapshot, head, put)
    if (options.settings) await put(at.configPath(head.id), json(options.settings))
    if (options.withSecrets) await writeSecrets(places.config.data_dir, head.id, put)
    await pipeline(options.withFiles ? snapshot.files() : [], createWriteStream(list, { mode: 0o600 }))
  } finally {
    await snapshot.close()
  }
  const { damaged, lostInStore } = await copyStoredFiles(places.files, sink, head, storedFiles(list), options)
  const sum = await writeSums(sink, head, sums.join(''), list, damaged)
  const manifest: at.Manifest = {
    ...head,
    finished_at: new Date().toISOString(),
    rows,
    sums: { path: at.sumsPath(head.id), sha256: sum },
    damaged: [...damaged].map(([sha256, { problem }]) => ({ sha256, problem })),
  }
  await sink.finish(json(options.key ? signed(manifest, options.key) : manifest).toString(), () => paths(list, damaged))
  return { manifest, lostInStore }
}

function headOf({ head }: Snapshot, { withFiles }: BackupOptions): at.Head {
  const created = new Date().toISOString()
  return {
    format: at.formatVersion,
    id: `${created.replace(/[-:]|\.\d+/g, '')}-${randomBytes(3).toString('hex')}`,
    created_at: created,
    dms: versionOfDms(),
    ...head,
    has_canonical_text: true,
    has_files: withFiles,
    ...(withFiles ? {} : { files: 0, bytes: 0 }),
  }
}

async function writeTables(snapshot: Snapshot, head: at.Head, put: (path: string, bytes: Uint8Array) => Promise<void>) {
  const rows: at.Manifest['rows'] = {}
  const room = Buffer.allocUnsafeSlow(partSize)
  const passed = openCollector()
  for (const { name } of head.tables) {
    let part = 0
    const bytes = counted(snapshot.table(name), passed)
    for await (const piece of fillings(bytes, room)) await put(at.tablePath(head.id, name, ++part), piece)
    rows[name] = await snapshot.rows()
  }
  return rows
}

async function writeSecrets(dataDir: string, id: string, put: (path: string, bytes: Uint8Array) => Promise<void>): Promise<void> {
  for (const name of secretNames) {
    const secret = await readFile(join(dataDir, name)).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return null
      throw error
    })
    if (secret) await put(at.secretPath(id, name), secret)
  }
}

/** Writes the list of checksums; the sum of it. Its size is known before it is made: the lines of stored files are equally long. */
async function writeSums(sink: Sink, head: at.Head, first: string, list: string, damaged: ReadonlyMap<string, Damage>): Promise<string> {
  const missing = [...damaged.values()].filter(({ problem }) => problem === 'missing').length
  const line = at.sumLine('0'.repeat(64), at.filePath('0'.repeat(64))).length
  const size = first.length + line * (head.files - missing)
  async function* text() {
    let part = first
    for await (const path of paths(list, damaged)) {
      const sha256 = path.slice(-64)
      part += at.sumLine(damaged.get(sha256)?.actual ?? sha256, path)
      if (part.length < 1 << 16) continue
      yield Buffer.from(part)
      part = ''
    }
    if (part !== '') yield Buffer.from(part)
  }
  const passing = hashed(text())
  await sink.put(at.sumsPath(head.id), size, passing.bytes)
  return passing.digest()
}

/** The paths of the stored files that are in the backup, in order. */
async function* paths(list: string, damaged: ReadonlyMap<string, Damage>): AsyncGenerator<string> {
  for await (const [sha256] of storedFiles(list)) if (damaged.get(sha256)?.problem !== 'missing') yield at.filePath(sha256)
}

async function* storedFiles(list: string): AsyncGenerator<[sha256: string, size: number, address: string]> {
  for await (const line of lines(createReadStream(list))) {
    const [sha256 = '', size, address = ''] = line.split('\t')
    yield [sha256, Number(size), address]
  }
}

const json = (value: object): Buffer => Buffer.from(`${JSON.stringify(value, null, 1)}\n`)
