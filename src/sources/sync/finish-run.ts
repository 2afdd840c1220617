/** Finishes a complete run: resolves moved files and marks removed ones. */
import { buffer } from 'node:stream/consumers'
import type { App } from '../../app.ts'
import type { Trx } from '../../db/pool.ts'
import { markSourceRemoved, renameDocument } from '../../documents/source-removal.ts'
import { storeBatch } from '../../documents/store-batch.ts'
import { lockExisting } from '../../documents/stored-files.ts'
import type { StagedFile } from '../../ports/file-store.ts'
import { flushMarks } from './compare-listing.ts'
import * as folders from './folder-tags.ts'
import * as ledger from './ledger.ts'
import * as runs from './run-records.ts'
import type { SyncContext } from './sync-context.ts'
import type { WalkState } from './walk-state.ts'

/** Files per transaction. */
const batchSize = 200
/** Bytes needed to detect the type of a file. */
const headBytes = 4100

/** Resolves moves, marks removed files and commits the folder tags. Does nothing after an incomplete walk. */
export async function finishRun(context: SyncContext, state: WalkState): Promise<void> {
  const { app, sourceId, run, signal } = context
  if (!state.isComplete) return
  if (!state.hasFiles && !(await ledger.isEmpty(app.db, sourceId))) {
    // Probably an unmounted share, not an emptied one.
    const error = { path: '', code: 'SOURCE_EMPTY', message: 'The source lists no files. Nothing was marked as removed.' }
    await runAndCount(context, async () => ({ counts: {}, errors: [error] }))
    return
  }
  const { files, is_moving } = await ledger.countUnseen(app.db, sourceId, run.id)
  // If every unseen file has a pending mark, nothing was removed and the marks need not be written.
  const isNothingMissing = files === state.marks.paths.size && !is_moving
  if (!isNothingMissing) await flushMarks(context, state)
  for (let hasMore = !isNothingMissing; hasMore; ) {
    signal.throwIfAborted()
    hasMore = await runAndCount(context, (trx) => resolveMoves(context, trx, state.uncertainPaths))
  }
  for (let more = !isNothingMissing; more; ) {
    signal.throwIfAborted()
    more = await runAndCount(context, async (trx) => {
      const gone = await ledger.markRemoved(trx, sourceId, run.id, state.uncertainPaths, app.now(), batchSize)
      if (gone) await markSourceRemoved(app, trx, gone.documents)
      return gone && { counts: { removed: gone.documents.length } }
    })
  }
  if (!(await folders.hasTags(app.db, sourceId))) return
  await runAndCount(context, async (trx) => {
    await folders.commitTags(trx, sourceId, run.id, state.uncertainPaths)
    return null
  })
}

type StepResult = { counts: Partial<runs.Counts>; errors?: readonly runs.FileError[] }

/** Runs a step in a transaction of the run and adds its counts. Returns false when no work is left. */
async function runAndCount({ app, run }: SyncContext, work: (trx: Trx) => Promise<StepResult | null>): Promise<boolean> {
  const done = await app.db.transaction().execute(async (trx) => {
    await runs.assertHeld(trx, run)
    const result = await work(trx)
    if (result) await runs.addCounts(trx, run, result.counts, result.errors)
    return result
  })
  if (done) runs.tallyCounts(run, done.counts, done.errors)
  return done !== null
}

/** Resolves new paths whose bytes are known: a moved file keeps its document; a copy becomes a new document. */
async function resolveMoves(context: SyncContext, trx: Trx, uncertainPaths: readonly string[]): Promise<StepResult | null> {
  const { app, sourceId, run, from } = context
  const moving = await ledger.listMoving(trx, sourceId, run.id, batchSize)
  if (moving.length === 0) return null
  const counts = runs.emptyCounts()
  const errors: runs.FileError[] = []
  const entries: ledger.LedgerEntry[] = []
  for (const file of moving) {
    const { path, etag, size, modified_at, sha256 } = file
    const oldFile = await ledger.findVanished(trx, sourceId, run.id, file, uncertainPaths)
    if (oldFile) {
      await ledger.deletePath(trx, sourceId, oldFile.path)
      if (oldFile.document_id !== null) await renameDocument(app, trx, oldFile.document_id, path)
      entries.push({ path, etag, size, modified_at, sha256, document_id: oldFile.document_id, outcome: 'stored' })
      counts[oldFile.document_id === null ? 'skipped' : 'updated']++
      continue
    }
    const staged = await stageExisting(app, trx, sha256 ?? '')
    if (staged) {
      const [document_id = null] = await storeBatch(app, trx, from, [{ staged, path }])
      entries.push({ path, etag, size, modified_at, sha256, document_id, outcome: 'stored' })
      counts.created++
    } else {
      // The original was deleted meanwhile. The next run fetches this file.
      entries.push({ path, etag: null, size: null, modified_at: null, sha256: null, document_id: null, outcome: 'failed' })
      counts.failed++
      errors.push({
        path,
        code: 'FILE_MISSING',
        message: 'Another file with the same content was deleted at the same moment. The next sync fetches this one.',
      })
    }
  }
  await ledger.writeEntries(trx, sourceId, run.id, entries)
  return { counts, errors }
}

/** Returns stored bytes as a staged file, or null. Locks their row, so that they stay until the transaction ends. */
async function stageExisting(app: App, trx: Trx, sha256: string): Promise<StagedFile | null> {
  const address = await lockExisting(trx, sha256)
  const size = address === undefined ? null : await app.files.size(address)
  if (address === undefined || size === null) return null
  const head = await app.files.read(address, { start: 0, end: Math.min(size, headBytes) - 1 }).then(buffer)
  return {
    sha256,
    address,
    size,
    head,
    equals: async (other) => other === address,
    commit: async () => {},
    confirm: async () => {},
    discard: async () => {},
  }
}
