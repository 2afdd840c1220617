/** Lists the files that a sync would fetch (`--dry-run`). */
import { SourceFailure, type SourceFile } from '../../ports/source-type.ts'
import { filterMatching } from '../globs.ts'
import { decideAction } from './compare-listing.ts'
import * as folders from './folder-tags.ts'
import * as ledger from './ledger.ts'
import type { SyncContext } from './sync-context.ts'

/** Files compared with the ledger in one query. */
const batchSize = 500

/** Yields the files that a sync would fetch. Throws SourceFailure. */
export async function* listPlannedFetches(
  context: Omit<SyncContext, 'run' | 'job'>,
): AsyncGenerator<{ action: 'created' | 'updated'; file: SourceFile }> {
  const { app, sourceId, connection, options, signal, globs } = context
  let batch: SourceFile[] = []
  let left = options.maxFiles ?? Number.POSITIVE_INFINITY
  async function* planBatch(): AsyncGenerator<{ action: 'created' | 'updated'; file: SourceFile }> {
    const matchingPaths = await filterMatching(
      globs,
      batch.map(({ path }) => path),
    )
    const files = batch.filter(({ path }) => matchingPaths.has(path))
    batch = []
    const ledgerRows = await ledger.compareFiles(app.db, sourceId, null, files, options.full)
    for (const file of files) {
      const row = ledgerRows.get(file.path)
      if (left === 0 || decideAction(row, options.full) !== 'fetch') continue
      left--
      yield { action: row?.document_id ? 'updated' : 'created', file }
    }
  }
  for await (const entry of connection.walk({ known: folders.createTagLookup(context), signal })) {
    if (entry.kind === 'problem') throw new SourceFailure(entry.code, `${entry.path}: ${entry.message}`)
    if (entry.kind === 'file') batch.push(entry.file)
    if (batch.length >= batchSize) yield* planBatch()
    if (left === 0) return
  }
  yield* planBatch()
}
