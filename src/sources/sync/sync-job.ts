/** Syncs a source, as a worker's job or directly. An advisory lock allows one run per source at a time. */
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { Busy, withLock } from '../../db/lock.ts'
import { isForeignKeyViolation } from '../../db/pool.ts'
import type { Row } from '../../db/schema.ts'
import { AppError } from '../../errors.ts'
import type { Handler, Job } from '../../jobs/queue.ts'
import { SourceFailure, type SourceFile } from '../../ports/source-type.ts'
import * as settings from '../../settings/settings.ts'
import { compileGlobs, filterMatching, type GlobMatcher } from '../globs.ts'
import { assertEnabled, findWithOwner, openSource } from '../open-source.ts'
import { judgeChanges } from './approve-changes.ts'
import { cancelRuns } from './cancel-syncs.ts'
import * as counts from './change-counts.ts'
import { decideAction, isContent } from './compare-listing.ts'
import { isSkippedSize } from './fetch-file.ts'
import { emptyCode, failRun } from './finish-run.ts'
import * as folderTags from './folder-tags.ts'
import * as ledger from './ledger.ts'
import * as runs from './run-records.ts'
import type { SyncContext, SyncOptions } from './sync-context.ts'
import { syncSource } from './sync-walk.ts'

/** Maximum wait of a job for another run of the same source. */
const jobLockTimeoutMs = 2000

export interface RunOptions extends SyncOptions {
  /** maximum wait for another run of the source */
  lockTimeoutMs: number
}

export const sync: Handler<'sync'> = {
  async run(app, job, signal) {
    const { source_id, full, accept_changes = false } = job.payload
    const { concurrency } = app.config.sources
    const options = { full, acceptChanges: accept_changes, concurrency, maxFiles: null, lockTimeoutMs: jobLockTimeoutMs }
    try {
      await run(app, source_id, job, options, signal)
    } catch (error) {
      if (signal.aborted) throw error
      if (error instanceof Busy) {
        const latest = await runs.findLatestRun(app.db, source_id)
        // Otherwise another run is syncing the source already.
        if (latest?.id === job.id)
          throw new SourceFailure('SOURCE_BUSY', 'An earlier attempt of this sync is still running.', { isRetryable: true })
      } else if (!(error instanceof runs.RunLost)) throw error
    }
    return undefined
  },
  failed: (app, trx, job, failure) => failRun(app, trx, job.id, failure),
}

/** Syncs a source in this process. Returns the finished run. Throws Busy, CONFLICT for a disabled source, and failures of the whole source. */
export async function syncNow(app: App, sourceId: string, options: RunOptions, signal: AbortSignal): Promise<Row<'source_syncs'>> {
  const { rows } = await sql<{ id: string }>`select dms_uuidv7() as id`.execute(app.db)
  const id = rows[0]?.id ?? ''
  try {
    await run(app, sourceId, { id }, options, signal)
  } catch (error) {
    if (error instanceof Busy) throw error
    await app.db.transaction().execute(async (trx) => {
      // Without a run, the signal ended the wait for the lock.
      if (!(await runs.findRun(trx, id))) return
      if (signal.aborted) await cancelRuns(trx, sourceId, id)
      else await failRun(app, trx, id, { ...toProblem(error), isFinal: true })
    })
    throw error
  }
  const ended = await runs.findRun(app.db, id)
  if (!ended) throw new runs.RunLost()
  return ended
}

function toProblem(error: unknown): { code: string; message: string } {
  // A copy: the message of an error is not enumerable.
  if (error instanceof SourceFailure || error instanceof AppError) return { code: error.code, message: error.message }
  return { code: 'INTERNAL_ERROR', message: 'The sync failed because of an internal error.' }
}

async function run(app: App, sourceId: string, job: Job<'sync'> | { id: string }, options: RunOptions, signal: AbortSignal): Promise<void> {
  const work = async () => {
    assertEnabled(await findWithOwner(app.db, sourceId))
    const run = await runs.beginRun(app, sourceId, job.id).catch((error) => {
      throw isForeignKeyViolation(error) ? new runs.RunLost() : error
    })
    // The run had ended, but its job was not completed.
    if (!run) return
    const started = performance.now()
    const context = await createContext(app, sourceId, options, signal)
    try {
      await syncSource({ ...context, run, job: 'queue' in job ? job : null })
    } finally {
      await context.connection.close().catch(() => {})
    }
    const counts = Object.fromEntries([...runs.outcomes, 'bytes' as const].map((name) => [name, run[name]]))
    app.log.info({ source_id: sourceId, ...counts, duration_ms: Math.round(performance.now() - started) }, 'source synced')
  }
  await withLock(app.database, runs.lockName(sourceId), options.lockTimeoutMs, work, { label: 'sources sync', signal })
}

async function createContext(
  app: App,
  sourceId: string,
  options: SyncOptions,
  signal: AbortSignal,
): Promise<Omit<SyncContext, 'run' | 'job'>> {
  const source = await findWithOwner(app.db, sourceId)
  if (!source) throw new runs.RunLost()
  const owner = { id: source.owner_id, role: source.owner_role, username: '' }
  const { language } = await settings.defaultLanguage(app, owner)
  return {
    app,
    sourceId,
    name: source.name,
    ownerId: source.owner_id,
    ownerRole: source.owner_role,
    connection: await openSource(app, source, options.concurrency),
    globs: compilePatterns(source.file_patterns),
    newDocuments: { ownerId: source.owner_id, sourceId, ocr: app.ocr !== null, language, split: source.split ?? app.config.ocr.split },
    options,
    signal,
  }
}

/** Compiles the patterns. Throws SourceFailure for invalid ones, such as patterns stored under other limits. */
function compilePatterns(patterns: readonly string[]): GlobMatcher {
  try {
    return compileGlobs(patterns)
  } catch (error) {
    throw new SourceFailure('SOURCE_PATTERNS_INVALID', `file_patterns: ${(error as Error).message}. Change the patterns of the source.`)
  }
}

/** Files compared with the ledger in one query. */
const planBatchSize = 500

interface PlannedFetch {
  action: 'created' | 'updated'
  file: SourceFile
}

interface PlanListener {
  /** The sync would stop, judged by the listing. */
  onFailure(failure: { code: string; message: string }): void
  /** An entry that the sync would count as failed. */
  onProblem(problem: { path: string; code: string; message: string }): void
}

/** Yields the files that a sync would fetch. Throws SourceFailure. */
export async function* planSync(
  app: App,
  sourceId: string,
  options: SyncOptions,
  signal: AbortSignal,
  { onFailure, onProblem }: PlanListener,
): AsyncGenerator<PlannedFetch> {
  const { connection, globs, name } = await createContext(app, sourceId, options, signal)
  const { known } = await counts.countKnown(app.db, sourceId, null)
  const isEmptyLedger = await ledger.isEmpty(app.db, sourceId)
  let changed = 0
  let unchanged = 0
  let listed = 0
  let batch: SourceFile[] = []
  let left = options.maxFiles ?? Number.POSITIVE_INFINITY
  async function* planBatch(): AsyncGenerator<PlannedFetch> {
    const matchingPaths = await filterMatching(
      globs,
      batch.map(({ path }) => path),
    )
    const files = batch
    batch = []
    const ledgerRows = await ledger.compareFiles(app.db, sourceId, files)
    for (const file of files) {
      const row = ledgerRows.get(file.path)
      const isMatching = matchingPaths.has(file.path)
      if (isContent(app, file, row, { isMatching })) listed++
      const isChanged = isMatching && !row?.is_same
      if (row && counts.isKnown(row)) isChanged ? changed++ : unchanged++
      if (left === 0 || !isMatching || decideAction(row, options) !== 'fetch') continue
      if (isSkippedSize(app, file.size)) continue
      left--
      yield { action: row?.document_id ? 'updated' : 'created', file }
    }
  }
  const judge = (touched: number) => {
    const isEmpty = listed === 0 && !isEmptyLedger
    if (isEmpty) onFailure({ code: emptyCode, message: 'The source lists no files. Nothing would be marked as removed.' })
    const failure = options.acceptChanges || isEmpty ? null : judgeChanges(app, name, known, touched)
    if (failure) onFailure(failure)
  }
  try {
    for await (const entry of connection.walk({ loadTag: folderTags.createTagLookup(app.db, sourceId, options.full), signal })) {
      if (entry.kind === 'problem') onProblem(entry)
      if (entry.kind === 'file') batch.push(entry.file)
      // What is there is not known to have changed.
      if (entry.kind === 'problem' || (entry.kind === 'folder' && entry.isPruned))
        unchanged += await counts.countKnownAt(app.db, sourceId, entry.path)
      if (batch.length >= planBatchSize) yield* planBatch()
      if (left === 0) return judge(changed)
    }
    yield* planBatch()
    judge(left === 0 ? changed : known - unchanged)
  } finally {
    await connection.close()
  }
}
