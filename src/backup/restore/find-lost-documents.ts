/** Finds documents and versions without a stored file after a restore, by comparing the rows with the list of the store. */
import { sql } from 'kysely'
import type { Trx } from '../../db/pool.ts'
import { listStoredFiles } from '../../documents/stored-files.ts'
import type { FileStore } from '../../ports/file-store.ts'
import { BackupDamaged, filePath, type Manifest } from '../manifest.ts'

export interface LostDocument {
  document_id: string
  title: string
  filename: string
  /** number of the version without a file */
  version: number
  /** whether the document shows this version */
  current: boolean
  sha256: string
  problem: 'missing' | 'corrupt'
  /** `store`: damaged in the document store before the backup; `backup`: damaged in the backup later */
  origin: 'store' | 'backup'
}

export interface DamageReport {
  manifest: Manifest
  skipped: readonly { path: string; problem: string }[]
  skipsDamaged: boolean
  signal: AbortSignal
}

/** Checks the file of every row. Throws BackupDamaged for an unexplained missing file unless damage is skipped. */
export async function findLostDocuments(
  trx: Trx,
  files: FileStore,
  { manifest, skipped, skipsDamaged, signal }: DamageReport,
): Promise<LostDocument[]> {
  const damagedInStore = new Map(manifest.damaged.map(({ sha256, problem }) => [sha256, problem]))
  const damagedInBackup = new Map(skipped.map(({ path, problem }) => [path, problem]))
  const lost: LostDocument[] = []
  for await (const { sha256 } of filterLost(listStoredFiles(trx), files, signal)) {
    const known = damagedInStore.get(sha256)
    if (!known && !skipsDamaged) throw new BackupDamaged(`${filePath(sha256)} is missing`)
    const problem = known ?? (damagedInBackup.get(filePath(sha256)) === 'corrupt' ? 'corrupt' : 'missing')
    const origin = known ? 'store' : 'backup'
    // Renditions can be made again.
    await trx.deleteFrom('renditions').where('sha256', '=', sha256).execute()
    for (const version of await listVersions(trx, sha256)) lost.push({ ...version, sha256, problem, origin })
  }
  return lost
}

/** Yields the rows, in order of address, without a file of their size. Reads the list of the store: a request for each row would take hours with S3. */
async function* filterLost<Row extends { address: string; size: number }>(
  rows: AsyncIterable<Row>,
  files: FileStore,
  signal: AbortSignal,
): AsyncGenerator<Row> {
  const stored = files.list()[Symbol.asyncIterator]()
  try {
    let next = await stored.next()
    for await (const row of rows) {
      signal.throwIfAborted()
      while (!next.done && next.value.address < row.address) next = await stored.next()
      const isListed = !next.done && next.value.address === row.address && next.value.size === row.size
      if (!isListed && (await files.size(row.address)) !== row.size) yield row
    }
  } finally {
    await stored.return?.()
  }
}

async function listVersions(trx: Trx, sha256: string): Promise<Omit<LostDocument, 'sha256' | 'problem' | 'origin'>[]> {
  return (
    await sql<Omit<LostDocument, 'sha256' | 'problem' | 'origin'>>`
    select document.id as document_id, document.title, version.number as version,
      case when version.number = document.current_version then document.filename else version.filename end as filename,
      version.number = document.current_version as current
    from document_versions version join documents document on document.id = version.document_id
    where version.sha256 = ${sha256} order by document.id, version.number`.execute(trx)
  ).rows
}
