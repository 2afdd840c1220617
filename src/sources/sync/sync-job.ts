/** Syncing a source: as a job of a worker, or at once for somebody who waits. One run per source, whoever runs it. */
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { Busy, withLock } from '../../db/lock.ts'
import { isForeignKeyViolation } from '../../db/pool.ts'
import type { Row } from '../../db/schema.ts'
import { AppError } from '../../errors.ts'
import type { Handler, Job } from '../../jobs/queue.ts'
import { SourceFailure, type SourceFile } from '../../ports/source-type.ts'
import * as settings from '../../settings/settings.ts'
import { connected, withOwner } from '../address.ts'
import { compileGlobs, type GlobMatcher } from '../globs.ts'
import { plan } from './dry-run.ts'
import * as runs from './run-records.ts'
import type { Pulling, PullOptions } from './sync-context.ts'
import { pull } from './sync-walk.ts'

/** Milliseconds that a job waits for the end of another run. */
const jobPatience = 2000

export const sync: Handler<'sync'> = {
  async run(app, job, signal) {
    const { source_id, full } = job.payload
    const options = { full, concurrency: app.config.sources.concurrency, maxFiles: null }
    try {
      await run(app, source_id, job, options, jobPatience, signal)
    } catch (error) {
      if (signal.aborted) throw error
      // Cancelled, or its source is gone: the job has nothing left to do.
      if (error instanceof runs.RunLost) return undefined
      if (!(error instanceof Busy)) throw error
      const latest = await runs.latest(app.db, source_id)
      // Somebody syncs it already, which is what this job wants.
      if (latest?.id !== job.id) return undefined
      throw new SourceFailure('SOURCE_BUSY', 'An earlier try of this sync is not over yet.', true)
    }
    return undefined
  },
  failed: (app, trx, job, problem, final) => runs.fail(app, trx, job.id, problem, final),
}

/** Syncs it here and now; how the run ended. Throws Busy, and what went wrong with the source as a whole. */
export async function syncNow(
  app: App,
  sourceId: string,
  { lockTimeout, ...options }: PullOptions & { lockTimeout: number },
  signal: AbortSignal,
): Promise<Row<'source_syncs'>> {
  const { rows } = await sql<{ id: string }>`select dms_uuidv7() as id`.execute(app.db)
  const id = rows[0]?.id ?? ''
  try {
    await run(app, sourceId, { id }, options, lockTimeout, signal)
  } catch (error) {
    if (error instanceof Busy) throw error
    await app.db.transaction().execute(async (trx) => {
      if (signal.aborted) await runs.cancel(app, trx, sourceId)
      else await runs.fail(app, trx, id, problemOf(error), true)
    })
    throw error
  }
  return (await runs.latest(app.db, sourceId)) as Row<'source_syncs'>
}

function problemOf(error: unknown): { code: string; message: string } {
  if (error instanceof SourceFailure || error instanceof AppError) return error
  return { code: 'INTERNAL_ERROR', message: 'The server failed while it worked on this.' }
}

/** What a sync would fetch. Throws SourceFailure. */
export async function* planned(
  app: App,
  sourceId: string,
  options: PullOptions,
  signal: AbortSignal,
): AsyncGenerator<{ action: 'created' | 'updated'; file: SourceFile }> {
  const pulling = await prepare(app, sourceId, options, signal)
  try {
    yield* plan(pulling)
  } finally {
    await pulling.connection.close()
  }
}

async function run(
  app: App,
  sourceId: string,
  job: Job<'sync'> | { id: string },
  options: PullOptions,
  lockTimeout: number,
  signal: AbortSignal,
): Promise<void> {
  const work = async () => {
    const run = await runs.begin(app, sourceId, job.id).catch((error) => {
      throw isForeignKeyViolation(error) ? new runs.RunLost() : error
    })
    // It ended, but its job was not told any more.
    if (!run) return
    const started = performance.now()
    const pulling = await prepare(app, sourceId, options, signal)
    try {
      await pull({ ...pulling, run, job: 'queue' in job ? job : null })
    } finally {
      await pulling.connection.close().catch(() => {})
    }
    const counts = Object.fromEntries([...runs.outcomes, 'bytes' as const].map((name) => [name, run[name]]))
    app.log.info({ source_id: sourceId, ...counts, duration_ms: Math.round(performance.now() - started) }, 'source synced')
  }
  await withLock(app.database, runs.lockOf(sourceId), lockTimeout, work, 'sources sync')
}

async function prepare(app: App, sourceId: string, options: PullOptions, signal: AbortSignal): Promise<Omit<Pulling, 'run' | 'job'>> {
  const source = await withOwner(app.db, sourceId)
  if (!source) throw new runs.RunLost()
  const owner = { id: source.owner_id, role: source.owner_role, username: '' }
  const { ocr_default_language: language } = await settings.get(app, owner)
  return {
    app,
    sourceId,
    ownerId: source.owner_id,
    ownerRole: source.owner_role,
    connection: await connected(app, source, options.concurrency),
    globs: globsOf(source.file_patterns),
    from: { ownerId: source.owner_id, sourceId, ocr: app.ocr !== null, language },
    options,
    signal,
  }
}

/** Throws SourceFailure: what was stored under other limits, or by hand, may not compile. */
function globsOf(patterns: readonly string[]): GlobMatcher {
  try {
    return compileGlobs(patterns)
  } catch (error) {
    throw new SourceFailure('SOURCE_PATTERNS_INVALID', `file_patterns: ${(error as Error).message}. Change the patterns of the source.`)
  }
}
