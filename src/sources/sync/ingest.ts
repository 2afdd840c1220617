/** Turns fetched files into documents or new versions and records them in the ledger, in one transaction. */
import type { Trx } from '../../db/pool.ts'
import { markSourceRestored, replaceFile, storeBatch } from '../../documents/source-documents.ts'
import { compareLargeFiles } from '../../documents/stored-files.ts'
import type { StagedFile } from '../../ports/file-store.ts'
import * as ledger from './ledger.ts'
import * as runs from './run-records.ts'
import { type FetchRequest, type FetchResult, type SyncContext, unknownVersion, type Version } from './sync-context.ts'

type Staged = Extract<FetchResult, { outcome: 'staged' }>

interface IngestResult {
  counts: runs.Counts
  errors: runs.FileError[]
  /** files that the database refers to after the commit */
  stored: StagedFile[]
}

/** Ingests a batch of results. After a crash none of them is fetched again. Throws RunLost. */
export async function ingest(context: SyncContext, fetched: readonly FetchResult[]): Promise<void> {
  const staged = fetched.flatMap((each) => (each.outcome === 'staged' ? [each.staged] : []))
  try {
    await compareLargeFiles(context.app, context.from.ownerId, staged)
    const { counts, errors, stored } = await context.app.db.transaction().execute((trx) => writeBatch(context, trx, fetched))
    runs.tallyCounts(context.run, counts, errors)
    await Promise.all(stored.map((file) => file.confirm()))
  } finally {
    await Promise.all(staged.map((file) => file.discard()))
  }
}

async function writeBatch(context: SyncContext, trx: Trx, fetched: readonly FetchResult[]): Promise<IngestResult> {
  const { app, sourceId, run, from } = context
  await runs.assertHeld(trx, run)
  const result: IngestResult = { counts: runs.emptyCounts(), errors: [], stored: [] }
  const entries: ledger.LedgerEntry[] = []
  const stagedFiles = fetched.filter((each): each is Staged => each.outcome === 'staged')
  result.counts.bytes = stagedFiles.reduce((sum, { staged }) => sum + staged.size, 0)

  for (const each of fetched) {
    if (each.outcome === 'staged') continue
    result.counts[each.outcome]++
    result.errors.push({ path: each.request.file.path, code: each.code, message: each.message })
    entries.push(failedEntry(each))
  }

  const existingDocuments = await lockDocuments(trx, stagedFiles)
  const knownFiles = stagedFiles.filter(({ request: { previous } }) => previous?.outcome === 'stored')
  for (const file of knownFiles) entries.push(await ingestKnownFile(context, trx, file, existingDocuments, result))

  const newFiles = stagedFiles.filter((each) => !knownFiles.includes(each))
  const possibleMoves = await ledger.findUnseenHashes(
    trx,
    sourceId,
    run.id,
    newFiles.map(({ staged }) => staged.sha256),
  )
  const createdFiles = newFiles.filter(({ staged }) => !possibleMoves.has(staged.sha256))
  const ids = await storeBatch(
    app,
    trx,
    from,
    createdFiles.map(({ request, staged }) => ({ staged, path: request.file.path })),
  )
  for (const [index, { request, staged, version }] of createdFiles.entries()) {
    entries.push(toEntry(request.file.path, version, staged.sha256, ids[index] ?? null, 'stored'))
    result.stored.push(staged)
    result.counts.created++
  }
  // A known hash at a new path may be a move. finishRun() decides when the walk is complete.
  for (const { request, staged, version } of newFiles)
    if (possibleMoves.has(staged.sha256)) entries.push(toEntry(request.file.path, version, staged.sha256, null, 'moving'))

  await ledger.writeEntries(trx, sourceId, run.id, entries)
  await runs.addCounts(trx, run, result.counts, result.errors)
  return result
}

/** Ingests a file that is in the ledger: other bytes become a new version. A document deleted by a user is not created again. */
async function ingestKnownFile(
  { app, from }: SyncContext,
  trx: Trx,
  { request, staged, version }: Staged,
  existingDocuments: ReadonlySet<string>,
  result: IngestResult,
): Promise<ledger.LedgerEntry> {
  const { document_id, sha256, removed_at } = request.previous as NonNullable<FetchRequest['previous']>
  const { path } = request.file
  if (document_id === null || !existingDocuments.has(document_id)) {
    result.counts.skipped++
    return toEntry(path, version, staged.sha256, null, 'stored')
  }
  const isChanged = staged.sha256 !== sha256
  if (removed_at !== null) await markSourceRestored(app, trx, [document_id])
  if (isChanged) {
    await replaceFile(app, trx, document_id, { staged, ocr: from.ocr, language: from.language })
    result.stored.push(staged)
  }
  result.counts[isChanged || removed_at !== null ? 'updated' : 'unchanged']++
  return toEntry(path, version, staged.sha256, document_id, 'stored')
}

/** Returns the entry of a file that could not be fetched. Its document stays unchanged. */
function failedEntry({ request: { file, previous }, outcome }: Exclude<FetchResult, Staged>): ledger.LedgerEntry {
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

/** Locks the documents first, in the usual order, because users may delete them. Returns the ids that exist. */
async function lockDocuments(trx: Trx, all: readonly Staged[]): Promise<Set<string>> {
  const ids = all.flatMap(({ request: { previous } }) => (previous?.document_id ? [previous.document_id] : []))
  if (ids.length === 0) return new Set()
  const rows = await trx.selectFrom('documents').select('id').where('id', 'in', ids).orderBy('id').forUpdate().execute()
  return new Set(rows.map(({ id }) => id))
}
