/** Finishes runs: resolves moved files, marks removed ones, and records the result with its consequences for the source. */
import { buffer } from 'node:stream/consumers'
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { clock } from '../../db/clock.ts'
import type { Trx } from '../../db/pool.ts'
import type { Row } from '../../db/schema.ts'
import { createDocuments, markSourceRemoved, renameDocument } from '../../documents/source-documents.ts'
import { lockAllExisting, lockExisting } from '../../documents/stored-files.ts'
import { headBytes } from '../../extract/detect.ts'
import type { JobFailure } from '../../jobs/queue.ts'
import { notify } from '../../notifications/notifications.ts'
import type { StagedFile } from '../../ports/file-store.ts'
import { assertNotDestructive } from './approve-changes.ts'
import { flushMarks } from './compare-listing.ts'
import * as folderTags from './folder-tags.ts'
import * as ledger from './ledger.ts'
import * as runs from './run-records.ts'
import type { SyncContext, WalkState } from './sync-context.ts'

/** Code of a sync that lists no files although some are known. */
export const emptyCode = 'SOURCE_EMPTY'

/** Files per transaction. */
const batchSize = 200

/** Resolves moves, marks removed files and commits the folder tags. Does nothing after an incomplete walk. */
export async function finishRun(context: SyncContext, state: WalkState): Promise<void> {
  const { app, sourceId, run } = context
  if (!state.isComplete) return
  if (!state.hasFiles && !(await ledger.isEmpty(app.db, sourceId))) {
    // Probably an unmounted share, not an emptied one.
    const error = { path: '', code: emptyCode, message: 'The source lists no files. Nothing was marked as removed.' }
    await runAndCount(context, async () => ({ counts: {}, errors: [error] }))
    return
  }
  const { files, is_moving } = await ledger.countUnseen(app.db, sourceId, run)
  // If every unseen file has a pending mark, nothing was removed and the marks need not be written.
  if (files !== state.marks.paths.size || is_moving) {
    await assertNotDestructive(context, state, () => {})
    await flushMarks(context, state)
    await repeat(context, (trx) => resolveMoves(context, trx, state.uncertainPaths))
    await repeat(context, async (trx) => {
      const removed = await ledger.markRemoved(trx, sourceId, run, state.uncertainPaths, { now: app.now(), limit: batchSize })
      if (removed) await markSourceRemoved(app, trx, removed.documents)
      return removed && { counts: { removed: removed.documents.length } }
    })
  }
  if (!(await folderTags.hasTags(app.db, sourceId))) return
  await runAndCount(context, async (trx) => {
    await folderTags.commitTags(trx, sourceId, run, state.uncertainPaths)
    return null
  })
}

type StepResult = { counts: Partial<runs.Counts>; errors?: readonly runs.FileError[] }
/** Returns null when no work is left. */
type Step = (trx: Trx) => Promise<StepResult | null>

async function repeat(context: SyncContext, step: Step): Promise<void> {
  do context.signal.throwIfAborted()
  while (await runAndCount(context, step))
}

/** Runs a step in a transaction of the run and adds its counts. Returns false when no work is left. */
async function runAndCount({ app, run }: SyncContext, work: Step): Promise<boolean> {
  const result = await app.db.transaction().execute(async (trx) => {
    await runs.assertHeld(trx, run)
    const step = await work(trx)
    if (step) await runs.addCounts(trx, run, step.counts, step.errors)
    return step
  })
  if (result) runs.tallyCounts(run, result.counts, result.errors)
  return result !== null
}

/** Resolves new paths whose bytes are known: a moved file keeps its document; a copy becomes a new document. */
async function resolveMoves(context: SyncContext, trx: Trx, uncertainPaths: readonly string[]): Promise<StepResult | null> {
  const { app, sourceId, run, newDocuments } = context
  const moving = await ledger.listMoving(trx, sourceId, run, batchSize)
  if (moving.length === 0) return null
  // All at once: the order of the paths is not the order in which other transactions lock stored files.
  await lockAllExisting(
    trx,
    moving.flatMap(({ sha256 }) => sha256 ?? []),
  )
  const counts = runs.emptyCounts()
  const errors: runs.FileError[] = []
  const entries: ledger.LedgerEntry[] = []
  for (const file of moving) {
    const { path, etag, size, modified_at, sha256 } = file
    const oldFile = await ledger.findVanished(trx, sourceId, run, file, uncertainPaths)
    if (oldFile) {
      await ledger.deletePath(trx, sourceId, oldFile.path)
      if (oldFile.document_id !== null) await renameDocument(app, trx, oldFile.document_id, path)
      entries.push({ path, etag, size, modified_at, sha256, document_id: oldFile.document_id, outcome: 'stored' })
      counts[oldFile.document_id === null ? 'skipped' : 'updated']++
      continue
    }
    const staged = await stageExisting(app, trx, sha256 ?? '')
    if (staged) {
      const [document_id = null] = await createDocuments(app, trx, newDocuments, [{ staged, path }])
      entries.push({ path, etag, size, modified_at, sha256, document_id, outcome: 'stored' })
      counts.created++
    } else {
      // The next run fetches this file, which also replaces a damaged one.
      entries.push({ path, etag: null, size: null, modified_at: null, sha256: null, document_id: null, outcome: 'failed' })
      counts.failed++
      errors.push({
        path,
        code: 'FILE_MISSING',
        message: 'The stored file with the same content is gone or damaged. The next sync fetches this one.',
      })
    }
  }
  await ledger.writeEntries(trx, sourceId, run, entries)
  return { counts, errors }
}

/** Returns stored bytes as a staged file, null if they are absent or cut. Locks their row, which keeps them until the transaction ends. */
async function stageExisting(app: App, trx: Trx, sha256: string): Promise<StagedFile | null> {
  const stored = await lockExisting(trx, sha256)
  if (!stored || (await app.files.size(stored.address)) !== stored.size) return null
  const { address, size } = stored
  const head = await app.files.read(address, { start: 0, end: Math.min(size, headBytes) - 1 }).then(buffer)
  return {
    sha256,
    address,
    size,
    head,
    equals: async (other) => other === address,
    commit: async () => {},
    rollback: () => {},
    confirm: async () => {},
    discard: async () => {},
  }
}

/** Completes a run and updates its source. `pendingCounts` are counts not written yet. Throws RunLost. */
export async function completeRun(app: App, run: runs.Run, total: number, pendingCounts: runs.Counts): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    await runs.addCounts(trx, run, pendingCounts)
    const ended = await endRun(trx, run.id, 'completed', null)
    if (!ended || ended.holder !== run.holder) throw new runs.RunLost()
    const source = await trx
      .updateTable('sources')
      .set({
        status: sql<'active'>`case status when 'disabled' then status else 'active' end`,
        last_sync: clock,
        last_error: null,
        failures: 0,
        next_sync: nextSyncTime,
      })
      .where('id', '=', run.source_id)
      .returning(['owner_id', 'name'])
      .executeTakeFirstOrThrow(() => new runs.RunLost())
    await trx
      .updateTable('source_syncs')
      .set({ total: Math.max(total, runs.countProcessed(ended)) })
      .where('id', '=', run.id)
      .execute()
    await runs.publishProgressEvent(trx, { ...run, ...ended, errors: 0 }, source.owner_id, total, null)
    const { created, updated, failed, removed } = ended
    if (created + updated + failed + removed === 0) return
    const parts = Object.entries({ new: created, changed: updated, 'removed at the source': removed, failed }).filter(
      ([, files]) => files > 0,
    )
    const message = `${source.name}: ${parts.map(([label, files]) => `${files} ${label}`).join(', ')}.`
    await notify(app, trx, source.owner_id, 'sync_completed', { title: 'Sync completed', message, data: { source_id: run.source_id } })
  })
}

/** Records a failed attempt. The final one ends the run, and the source waits longer after each. */
export async function failRun(
  app: App,
  trx: Trx,
  id: string,
  { isFinal, ...problem }: Pick<JobFailure, 'code' | 'message' | 'isFinal'>,
): Promise<void> {
  const run = await trx.selectFrom('source_syncs').select(['source_id', 'state']).where('id', '=', id).executeTakeFirst()
  if (run?.state !== 'running') return
  if (isFinal) await endRun(trx, id, 'failed', problem)
  const source = await trx
    .updateTable('sources')
    .set((eb) => ({
      status: sql<'error'>`case status when 'disabled' then status else 'error' end`,
      last_error: problem.message,
      // A source of a re-enabled account should not wait for hours.
      ...(isFinal
        ? {
            failures: eb('failures', '+', 1),
            next_sync: problem.code === 'SOURCE_OWNER_DISABLED' ? nextSyncTime : backoffTime,
          }
        : {}),
    }))
    .where('id', '=', run.source_id)
    .returning(['owner_id', 'name', 'failures'])
    .executeTakeFirst()
  if (!source || !isFinal) return
  // Notify once per series of failures: notifications every hour are ignored.
  const isAlarm = problem.code === 'SYNC_LOOKS_DESTRUCTIVE' && !(await runs.hasFailedAlike(trx, run.source_id, id, problem.code))
  if (source.failures > 1 && !isAlarm) return
  const message = `${source.name}: ${problem.message}`
  await notify(app, trx, source.owner_id, 'sync_failed', {
    title: 'Sync failed',
    message,
    data: { source_id: run.source_id, code: problem.code },
  })
}

/** SQL: one interval from now by the database clock; null for manual sources. */
export const nextSyncTime = sql<Date>`case when sync_interval = 0 then null else ${clock} + sync_interval * interval '1 s' end`

/** SQL: the time of the next sync after failures. Each failure doubles the interval, up to the longest wait. */
const backoffTime = sql<Date>`case when sync_interval = 0 then null else
  ${clock} + least(sync_interval * power(2, least(failures, 20)), ${runs.longestWait}) * interval '1 s' end`

/** Ends a running run. Returns its row; undefined if it has ended already. */
export async function endRun(
  trx: Trx,
  id: string,
  state: 'completed' | 'failed' | 'cancelled',
  problem: Pick<runs.FileError, 'code' | 'message'> | null,
): Promise<Row<'source_syncs'> | undefined> {
  const run = await trx
    .updateTable('source_syncs')
    .set({
      state,
      current_file: null,
      error_code: problem?.code ?? null,
      error_message: problem?.message ?? null,
      finished_at: clock,
    })
    .where('id', '=', id)
    .where('state', '=', 'running')
    .returningAll()
    .executeTakeFirst()
  if (!run) return undefined
  const now = JSON.stringify(Object.fromEntries(runs.outcomes.map((outcome) => [outcome, run[outcome]])))
  await sql`
    update sources set totals = (
      select jsonb_object_agg(key, coalesce((totals ->> key)::bigint, 0) + value::bigint) from jsonb_each_text(${now}::jsonb)
    ) where id = ${run.source_id}`.execute(trx)
  return run
}
