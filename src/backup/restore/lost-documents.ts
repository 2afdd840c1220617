/** Documents whose file a backup does not have: found by looking for every file, not by what was read. */
import { sql } from 'kysely'
import type { Trx } from '../../db/pool.ts'
import { storedFiles } from '../../documents/stored-files.ts'
import type { FileStore } from '../../ports/file-store.ts'
import { BackupDamaged, filePath, type Manifest } from '../manifest.ts'

export interface LostDocument {
  document_id: string
  title: string
  filename: string
  sha256: string
  problem: 'missing' | 'corrupt'
  /** where the file was damaged: in the document store before the backup was made, or in the backup since */
  origin: 'store' | 'backup'
}

export interface Reasons {
  manifest: Manifest
  skipped: readonly { path: string; problem: string }[]
  skipsDamaged: boolean
}

/** Looks for the file of every row. Throws BackupDamaged for one that is missing without a reason, unless damage is skipped. */
export async function findLost(trx: Trx, files: FileStore, { manifest, skipped, skipsDamaged }: Reasons): Promise<LostDocument[]> {
  const atStore = new Map(manifest.damaged.map(({ sha256, problem }) => [sha256, problem]))
  const inBackup = new Map(skipped.map(({ path, problem }) => [path, problem]))
  const lost: LostDocument[] = []
  for await (const { sha256, size, address } of storedFiles(trx)) {
    if ((await files.size(address)) === size) continue
    const known = atStore.get(sha256)
    if (!known && !skipsDamaged) throw new BackupDamaged(`${filePath(sha256)} is missing`)
    const problem = known ?? (inBackup.get(filePath(sha256)) === 'corrupt' ? 'corrupt' : 'missing')
    const origin = known ? 'store' : 'backup'
    for (const document of await documentsOf(trx, sha256)) lost.push({ ...document, sha256, problem, origin })
  }
  return lost
}

async function documentsOf(trx: Trx, sha256: string): Promise<{ document_id: string; title: string; filename: string }[]> {
  return (
    await sql<{ document_id: string; title: string; filename: string }>`
    select id as document_id, title, filename from documents where sha256 = ${sha256} order by id`.execute(trx)
  ).rows
}
