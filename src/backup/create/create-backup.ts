/** Creates a backup without downtime: first all tables from one snapshot, then their stored files. */
import { hash, randomBytes } from 'node:crypto'
import { type FileHandle, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileRemovalLock, type HeldLock, withLock } from '../../db/lock.ts'
import type { Database } from '../../db/pool.ts'
import { claimStore } from '../../files/database-marker.ts'
import { openCollector } from '../../files/free-buffers.ts'
import { checkStoreMarker } from '../../files/store-marker.ts'
import { storeMarkers } from '../../files/stores/registry.ts'
import { recordSuccess } from '../../jobs/last-success.ts'
import { addPath, nullIfMissing } from '../../missing-file.ts'
import type { Installation } from '../../open-app.ts'
import { openUnnamedFile } from '../../unnamed-file.ts'
import { readVersion } from '../../version.ts'
import { fillBuffer, readLines, tapSizes, teeHash } from '../byte-streams.ts'
import * as at from '../manifest.ts'
import { addSignature } from '../signature.ts'
import { copyStoredFiles, type FileDamage } from './copy-stored-files.ts'
import { openSnapshot, type Snapshot } from './snapshot.ts'
import type { BackupSink } from './tar-sink.ts'

export interface BackupOptions {
  /** false: tables only */
  withFiles: boolean
  /** settings to store in the backup as information; null: none */
  settings: object | null
  /** include the keys that dms generated in the data directory */
  withSecrets: boolean
  /** maximum wait for another backup, then Busy */
  lockTimeoutMs: number
  /** key to sign the manifest; null: unsigned */
  key: Buffer | null
  signal: AbortSignal
  onProgress(state: { done: number; total: number; bytes: number; totalBytes: number }): void
}

/** Keys that dms generates in the data directory unless they are configured. */
export const secretNames = ['jwt_secret', 'sources_key'] as const

/** Size of a part of a table, which is held in memory. */
const partBytes = 4 << 20
/** Bytes that are read from the list of stored files at a time. */
const listChunkBytes = 1 << 16
/** Maximum wait for running file removals. */
const filesLockTimeoutMs = 60_000

export interface BackupResult {
  manifest: at.Manifest
  /** SHA-256 of files lost in the document store, with an intact copy from an earlier run in the backup */
  lostInStore: string[]
  /** SHA-256 of files that this process may not read. The manifest omits them. */
  unreadable: string[]
  /** error of the database that prevented the record of this success; null: none */
  recordError: Error | null
}

/** Writes a backup to `sink`. Records a success only if no stored file is damaged. Throws Busy. On an error, removes the unfinished backup. */
export function createBackup(installation: Installation, sink: BackupSink, options: BackupOptions): Promise<BackupResult> {
  const { database } = installation
  const write = async (backup: HeldLock, files: HeldLock): Promise<BackupResult> => {
    const list = await openUnnamedFile(join(tmpdir(), `dms-backup-${randomBytes(6).toString('hex')}`))
    try {
      const assertLocked = () => Promise.all([backup.assertHeld(), files.assertHeld()])
      const result = await writeBackup(installation, sink, { ...options, assertLocked }, list)
      // The backup is valid, also one of a database that is full or read-only.
      const recordError = result.manifest.damaged.length === 0 ? await tryRecordSuccess(database, options) : null
      return { ...result, recordError }
    } catch (error) {
      await sink.discard().catch(() => {})
      throw error
    } finally {
      await list.close()
    }
  }
  // Held from before the snapshot until the last file: no referenced file is removed meanwhile.
  const withRemovalLock = (backup: HeldLock) =>
    withLock(database, fileRemovalLock, filesLockTimeoutMs, (files) => write(backup, files), { signal: options.signal })
  return withLock(database, 'backup', options.lockTimeoutMs, withRemovalLock, { signal: options.signal })
}

const tryRecordSuccess = ({ db }: Database, { withFiles }: BackupOptions): Promise<Error | null> =>
  recordSuccess(db, withFiles ? 'backup' : 'tables_backup').then(
    () => null,
    (error: Error) => error,
  )

/** Writes hashes and addresses of all stored files to the file `list` and closes the snapshot before it copies them: an open snapshot blocks vacuum. */
async function writeBackup(
  installation: Installation,
  sink: BackupSink,
  options: BackupOptions & { assertLocked(): Promise<unknown> },
  list: FileHandle,
): Promise<Omit<BackupResult, 'recordError'>> {
  // If the store were not mounted, every file would be missing in the backup.
  const markers = await storeMarkers(installation.config)
  await checkStoreMarker(installation.database.db, markers, { creates: false })
  await claimStore(installation.database.db, markers, installation.config)
  const snapshot = await openSnapshot(installation.database)
  const checksums: string[] = []
  let head: at.Head
  let rows: at.Manifest['rows']
  try {
    head = buildHead(snapshot, options)
    await sink.begin(head)
    const put = async (path: string, bytes: Uint8Array) => {
      options.signal.throwIfAborted()
      checksums.push(at.formatChecksumLine(hash('sha256', bytes), path))
      await sink.put(path, bytes.length, [bytes])
    }
    await put(at.headPath(head.id), encodeJson(head))
    rows = await writeTables(snapshot, head, put)
    if (options.settings) await put(at.configPath(head.id), encodeJson(options.settings))
    if (options.withSecrets) await writeSecrets(installation.config.data_dir, head.id, put)
    if (options.withFiles) await list.writeFile(snapshot.copyFileList()).catch(addPath(tmpdir()))
  } finally {
    await snapshot.close()
  }
  const { damaged, lostInStore } = await copyStoredFiles(installation.files, sink, head, readFileList(list), options)
  // Without the locks, files that it refers to may be gone, and another backup may have begun.
  await options.assertLocked()
  const checksumsSha256 = await writeChecksums(sink, head, checksums.join(''), list, damaged)
  const manifest: at.Manifest = {
    ...head,
    finished_at: new Date().toISOString(),
    rows,
    sums: { path: at.checksumsPath(head.id), sha256: checksumsSha256 },
    damaged: [...damaged].map(([sha256, { problem }]) => ({ sha256, problem })),
  }
  await sink.finish(encodeJson(options.key ? addSignature(manifest, options.key) : manifest).toString(), () => listFilePaths(list, damaged))
  const unreadable = [...damaged].flatMap(([sha256, { isUnreadable }]) => (isUnreadable ? [sha256] : []))
  return { manifest, lostInStore, unreadable }
}

function buildHead({ head }: Snapshot, { withFiles }: BackupOptions): at.Head {
  const created = new Date().toISOString()
  return {
    format: at.formatVersion,
    id: `${created.replace(/[-:]|\.\d+/g, '')}-${randomBytes(3).toString('hex')}`,
    created_at: created,
    dms: readVersion(),
    ...head,
    has_canonical_text: true,
    has_files: withFiles,
    ...(withFiles ? {} : { files: 0, bytes: 0 }),
  }
}

async function writeTables(snapshot: Snapshot, head: at.Head, put: (path: string, bytes: Uint8Array) => Promise<void>) {
  const rows: at.Manifest['rows'] = {}
  const buffer = Buffer.allocUnsafeSlow(partBytes)
  const collect = openCollector()
  for (const { name } of head.tables) {
    let part = 0
    const bytes = tapSizes(snapshot.copyTable(name), collect)
    for await (const piece of fillBuffer(bytes, buffer)) await put(at.tablePath(head.id, name, ++part), piece)
    rows[name] = await snapshot.rowCount()
  }
  return rows
}

async function writeSecrets(dataDir: string, id: string, put: (path: string, bytes: Uint8Array) => Promise<void>): Promise<void> {
  for (const name of secretNames) {
    const secret = await readFile(join(dataDir, name)).catch(nullIfMissing)
    if (secret) await put(at.secretPath(id, name), secret)
  }
}

/** Writes SHA256SUMS and returns its SHA-256. The size is known in advance: the lines of stored files have the same length. */
async function writeChecksums(
  sink: BackupSink,
  head: at.Head,
  first: string,
  list: FileHandle,
  damaged: ReadonlyMap<string, FileDamage>,
): Promise<string> {
  const missing = [...damaged.values()].filter(({ problem }) => problem === 'missing').length
  const line = at.formatChecksumLine('0'.repeat(64), at.filePath('0'.repeat(64))).length
  const size = first.length + line * (head.files - missing)
  async function* text() {
    let part = first
    for await (const path of listFilePaths(list, damaged)) {
      const sha256 = path.slice(-64)
      part += at.formatChecksumLine(damaged.get(sha256)?.actualSha256 ?? sha256, path)
      if (part.length < 1 << 16) continue
      yield Buffer.from(part)
      part = ''
    }
    if (part !== '') yield Buffer.from(part)
  }
  const tee = teeHash(text())
  await sink.put(at.checksumsPath(head.id), size, tee.bytes)
  return tee.digest()
}

/** Yields the paths of the stored files in the backup, in ascending order. */
async function* listFilePaths(list: FileHandle, damaged: ReadonlyMap<string, FileDamage>): AsyncGenerator<string> {
  for await (const [sha256] of readFileList(list)) if (damaged.get(sha256)?.problem !== 'missing') yield at.filePath(sha256)
}

async function* readFileList(list: FileHandle): AsyncGenerator<[sha256: string, size: number, address: string]> {
  for await (const line of readLines(readChunks(list))) {
    const [sha256 = '', size, address = ''] = line.split('\t')
    yield [sha256, Number(size), address]
  }
}

/** Yields the bytes of a file from its start. A stream would close the descriptor when its reader stops, and `file` would close it again. */
async function* readChunks(file: FileHandle): AsyncGenerator<Buffer> {
  for (let position = 0; ; ) {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(listChunkBytes), 0, listChunkBytes, position)
    if (bytesRead === 0) return
    yield buffer.subarray(0, bytesRead)
    position += bytesRead
  }
}

const encodeJson = (value: object): Buffer => Buffer.from(`${JSON.stringify(value, null, 1)}\n`)
