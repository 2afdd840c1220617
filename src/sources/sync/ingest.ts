/** Turns fetched files into documents or new versions and records them in the ledger, in one transaction. */
import type { Trx } from '../../db/pool.ts'
import { createDocuments, markSourceRestored, replaceFile } from '../../documents/source-documents.ts'
import { compareLargeFiles, lockOrCreateAll, repairDamaged } from '../../documents/stored-files.ts'
import type { StagedFile } from '../../ports/file-store.ts'
import * as ledger from './ledger.ts'
import * as runs from './run-records.ts'
import { type FetchRequest, type FetchResult, type SyncContext, unknownVersion, type Version } from './sync-context.ts'

type Staged = Extract<FetchResult, { outcome: 'staged' }>
type Received = Extract<FetchResult, { outcome: 'staged' | 'hashed' }>

interface IngestResult {
  counts: runs.Counts
  errors: runs.FileError[]
  /** files that the database refers to after the commit */
  stored: StagedFile[]
  /** files with the bytes that their documents have already */
  known: StagedFile[]
}

/** Ingests a batch of results. After a crash none of them is fetched again. Repairs damaged stored files of known bytes. Throws RunLost. */
export async function ingest(context: SyncContext, fetched: readonly FetchResult[]): Promise<void> {
  const staged = fetched.flatMap((each) => (each.outcome === 'staged' ? [each.staged] : []))
  try {
    await compareLargeFiles(context.app, context.newDocuments.ownerId, staged)
    const { counts, errors, stored, known } = await context.app.db.transaction().execute((trx) => writeBatch(context, trx, fetched))
    runs.tallyCounts(context.run, counts, errors)
    await Promise.all(stored.map((file) => file.confirm()))
    await repairDamaged(context.app, known)
  } finally {
    await Promise.all(staged.map((file) => file.discard()))
  }
}

async function writeBatch(context: SyncContext, trx: Trx, fetched: readonly FetchResult[]): Promise<IngestResult> {
  const { app, sourceId, run, newDocuments } = context
  await runs.assertHeld(trx, run)
  const result: IngestResult = { counts: runs.emptyCounts(), errors: [], stored: [], known: [] }
  const entries: ledger.LedgerEntry[] = []
  const files = fetched.filter((each): each is Received => each.outcome === 'staged' || each.outcome === 'hashed')
  result.counts.bytes = files.reduce((sum, file) => sum + (file.outcome === 'staged' ? file.staged.size : file.size), 0)

  for (const each of fetched) {
    if (each.outcome === 'staged' || each.outcome === 'hashed') continue
    result.counts[each.outcome]++
    result.errors.push({ path: each.request.file.path, code: each.code, message: each.message })
    entries.push(failedEntry(each))
  }

  const documents = await lockDocuments(trx, files)
  const knownFiles = files.filter(({ request: { previous } }) => previous?.outcome === 'stored')
  const newFiles = files.filter((each) => !knownFiles.includes(each))
  const possibleMoves = await ledger.findUnseenHashes(trx, sourceId, run, newFiles.map(sumOf))
  const createdFiles = newFiles.filter((each): each is Staged => each.outcome === 'staged' && !possibleMoves.has(each.staged.sha256))
  await lockStoredFiles(trx, [...knownFiles.filter((file) => isNewVersion(file, documents)), ...createdFiles])
  for (const file of knownFiles) entries.push(...(await ingestKnownFile(context, trx, file, documents, result)))
  const ids = await createDocuments(
    app,
    trx,
    newDocuments,
    createdFiles.map(({ request, staged }) => ({ staged, path: request.file.path })),
  )
  for (const [index, { request, staged, version }] of createdFiles.entries()) {
    entries.push(toEntry(request.file.path, version, staged.sha256, ids[index] ?? null, 'stored'))
    result.stored.push(staged)
    result.counts.created++
  }
  // A known hash at a new path may be a move. finishRun() decides when the walk is complete.
  for (const file of newFiles)
    if (possibleMoves.has(sumOf(file))) entries.push(toEntry(file.request.file.path, file.version, sumOf(file), null, 'moving'))

  await ledger.writeEntries(trx, sourceId, run, entries)
  await runs.addCounts(trx, run, result.counts, result.errors)
  return result
}

/** Locks the stored files of all files at once: two syncs that lock them one by one, in the order of their downloads, would deadlock. */
async function lockStoredFiles(trx: Trx, files: readonly Received[]): Promise<void> {
  const staged = files.flatMap((file) => (file.outcome === 'staged' ? [file.staged] : []))
  const bySum = new Map(staged.toReversed().map((file) => [file.sha256, file]))
  if (bySum.size > 0) await lockOrCreateAll(trx, [...bySum.values()])
}

/** Whether a known file becomes a new version of its document. */
function isNewVersion(file: Received, documents: ReadonlyMap<string, CurrentFile>): boolean {
  const { document_id, sha256 } = file.request.previous as NonNullable<FetchRequest['previous']>
  const document = document_id === null ? undefined : documents.get(document_id)
  return document !== undefined && !document.is_trashed && isChanged(file, sha256, document)
}

const isChanged = (file: Received, lastSum: string | null, document: CurrentFile): boolean =>
  sumOf(file) !== lastSum && sumOf(file) !== document.sha256

const sumOf = (file: Received): string => (file.outcome === 'staged' ? file.staged.sha256 : file.sha256)

/**
 * Ingests a file that is in the ledger. New bytes become a new version: they are neither the last bytes nor the bytes of the document. Does not
 * create a document again that a user deleted, and does not change one in the trash. Returns its entry; none for a file that must be fetched again.
 */
async function ingestKnownFile(
  { app, newDocuments }: SyncContext,
  trx: Trx,
  file: Received,
  documents: ReadonlyMap<string, CurrentFile>,
  result: IngestResult,
): Promise<ledger.LedgerEntry[]> {
  const { document_id, sha256, removed_at } = file.request.previous as NonNullable<FetchRequest['previous']>
  const { path } = file.request.file
  const document = document_id === null ? undefined : documents.get(document_id)
  if (document_id === null || !document) {
    result.counts.skipped++
    return [toEntry(path, file.version, sumOf(file), null, 'stored')]
  }
  const hasNewBytes = isChanged(file, sha256, document)
  if (hasNewBytes && document.is_trashed) {
    result.counts.skipped++
    return [toEntry(path, unknownVersion, sha256, document_id, 'stored')]
  }
  if (hasNewBytes && file.outcome === 'hashed') return []
  if (file.outcome === 'staged' && sumOf(file) === document.sha256) result.known.push(file.staged)
  if (removed_at !== null) await markSourceRestored(app, trx, [document_id])
  if (hasNewBytes && file.outcome === 'staged') {
    await replaceFile(app, trx, document_id, { staged: file.staged, ocr: newDocuments.ocr, language: newDocuments.language })
    result.stored.push(file.staged)
  }
  result.counts[hasNewBytes || removed_at !== null ? 'updated' : 'unchanged']++
  return [toEntry(path, file.version, sumOf(file), document_id, 'stored')]
}

/** Returns the entry of a file that could not be fetched. Its document stays unchanged. */
function failedEntry({ request: { file, previous }, outcome }: Exclude<FetchResult, Received>): ledger.LedgerEntry {
  if (previous?.outcome === 'stored') return toEntry(file.path, unknownVersion, previous.sha256, previous.document_id, 'stored')
  return toEntry(file.path, unknownVersion, null, null, outcome)
}

const toEntry = (
  path: string,
  { etag, size, modifiedAt }: Version,
  sha256: string | null,
  document_id: string | null,
  outcome: ledger.LedgerEntry['outcome'],
): ledger.LedgerEntry => ({ path, etag, size, modified_at: modifiedAt, sha256, document_id, outcome })

interface CurrentFile {
  sha256: string
  is_trashed: boolean
}

/** Locks the documents in the usual order, because users may delete them. Uploads may still refer to them as duplicates. Returns the existing ones. */
async function lockDocuments(trx: Trx, files: readonly Received[]): Promise<Map<string, CurrentFile>> {
  const ids = files.flatMap(({ request: { previous } }) => (previous?.document_id ? [previous.document_id] : []))
  if (ids.length === 0) return new Map()
  const rows = await trx
    .selectFrom('documents')
    .select(['id', 'sha256', 'deleted_at'])
    .where('id', 'in', ids)
    .orderBy('id')
    .forNoKeyUpdate()
    .execute()
  return new Map(rows.map(({ id, sha256, deleted_at }) => [id, { sha256, is_trashed: deleted_at !== null }]))
}
