/** Rebuilds the search index without downtime, and reports its state. */
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { type HeldLock, withLock } from '../db/lock.ts'
import type { Trx } from '../db/pool.ts'
import { invalid } from '../errors.ts'
import { nilId } from '../id.ts'
import * as jobs from '../jobs/queue.ts'
import type { IndexRebuild, IndexStatus } from '../ports/search-engine.ts'
import { slicesOf } from '../slices.ts'
import { applyChanges, countChanges, endChangeLog, rebuildLock, recordChanges, startChangeLog, stopChangeLog } from './change-log.ts'

export interface ReindexOptions {
  /** do nothing if the index contains every document in the current form */
  ifNeeded?: boolean
  /** only documents changed since this time, in the active index */
  since?: Date
  /** only these documents, in the active index; deleted ones are removed */
  ids?: readonly string[]
  /** write into the active index instead of building a new one */
  inPlace?: boolean
  /** keep the old index until the next run, if the engine can */
  keepOld?: boolean
  /** only report what would be done */
  dryRun?: boolean
  /** documents per batch; default: search.batch_size */
  batchSize?: number
  /** milliseconds to wait for another run before throwing Busy */
  lockTimeout?: number
  signal?: AbortSignal
  onProgress?: (done: number, total: number) => void
}

export interface ReindexResult {
  documents: number
  /** nothing had to be done */
  skipped: boolean
  /** a new index is active */
  swapped: boolean
  /** name of the old index, if it was kept */
  kept?: string
  /** number of documents that could not be indexed; the log names them */
  omitted: number
}

export interface IndexHealth extends IndexStatus {
  engine: string
  /** number of documents in the database */
  database: number
  /** number of missing and extra entries */
  drift: number
  /** number of changed documents that are not indexed yet, including those whose indexing failed */
  waiting: number
  failing: number
}

const unchanged = { skipped: false, swapped: false, omitted: 0 }

/** Compares the index with the database. Throws SERVICE_UNAVAILABLE. */
export async function status(app: App): Promise<IndexHealth> {
  const [index, database, changes] = await Promise.all([app.search.status(), documentCount(app), waitingChanges(app)])
  return { ...index, engine: app.search.name, database, drift: index.missing + index.extra, ...changes }
}

/** Indexes documents, and records them for a rebuild in progress. */
export async function indexDocuments(app: App, documentIds: readonly string[]): Promise<void> {
  const ids = [...new Set(documentIds)].sort()
  await recordChanges(app, ids)
  await app.search.refresh(ids)
}

/**
 * Builds a new index while the active one answers searches. With `since`, `ids` or `inPlace`, indexes documents in the active one instead. Throws Busy, SERVICE_UNAVAILABLE.
 * If it is interrupted, the old index stays active; the next run removes the unfinished one. Documents that cannot be indexed are omitted and logged.
 */
export function reindex(app: App, options: ReindexOptions = {}): Promise<ReindexResult> {
  const work = async (lock: HeldLock): Promise<ReindexResult> => {
    const { ids, since, dryRun = false } = options
    if (ids) return refreshDocuments(app, ids, options)
    if (options.ifNeeded) {
      const { documents, drift, outdated } = await status(app)
      if (drift === 0 && outdated === 0) return { ...unchanged, documents, skipped: true }
    }
    const total = await documentCount(app, since)
    if (dryRun) return { ...unchanged, documents: total }
    if (since || options.inPlace) {
      const documents = await forEachBatch(app, options, total, (batch) => app.search.refresh(batch))
      return { ...unchanged, documents }
    }
    return rebuildAll(app, options, total, lock)
  }
  return withLock(app.database, rebuildLock, options.lockTimeout ?? 0, work, { signal: options.signal })
}

/** Enqueues a rebuild and returns the id of the job, which is deleted at its end. */
export function queueReindex(app: App, payload: jobs.Payloads['reindex']): Promise<string> {
  return app.db.transaction().execute((trx) => enqueueReindex(trx, payload))
}

/** Enqueues a rebuild, unless one is pending. */
export const enqueueReindex = (trx: Trx, payload: jobs.Payloads['reindex'], delayMs = 0): Promise<string> =>
  jobs.enqueue(trx, 'reindex', payload, { dedupeKey: payload.anew ? 'reindex anew' : 'reindex', delayMs })

async function refreshDocuments(
  app: App,
  ids: readonly string[],
  { dryRun, signal, onProgress, ...options }: ReindexOptions,
): Promise<ReindexResult> {
  let done = 0
  for (const batch of dryRun ? [] : slicesOf(ids, batchSize(app, options))) {
    signal?.throwIfAborted()
    await app.search.refresh(batch)
    done += batch.length
    onProgress?.(done, ids.length)
  }
  return { ...unchanged, documents: ids.length }
}

async function rebuildAll(app: App, options: ReindexOptions, total: number, lock: HeldLock): Promise<ReindexResult> {
  await startChangeLog(app)
  let next: IndexRebuild | undefined
  try {
    const started = await app.search.rebuild()
    next = started
    const { keptAs } = next
    const put = async (ids: readonly string[]) => {
      await lock.assertHeld()
      await started.put(ids, options.signal)
    }
    if (options.keepOld && keptAs === undefined) throw invalid('keep_old', `the ${app.search.name} engine cannot keep the old index`)
    const cursor = { id: nilId }
    await forEachBatch(app, options, total, put, cursor)
    const documents = await catchUp(app, options, { ...next, put }, cursor)
    options.signal?.throwIfAborted()
    await lock.assertHeld()
    await next.swap({ keepOld: options.keepOld })
    // Changes that a job wrote into the old index just before the swap.
    await applyChanges(app, put)
    await stopChangeLog(app)
    await applyChanges(app, put)
    const { omitted = new Map<string, unknown>() } = next
    for (const [document_id, err] of omitted) app.log.error({ err, document_id }, 'a document could not be indexed')
    return { ...unchanged, documents, swapped: true, omitted: omitted.size, ...(options.keepOld && keptAs ? { kept: keptAs } : {}) }
  } catch (error) {
    // Without the lock another rebuild may run. It removes what is left of this one.
    const discard = () => Promise.allSettled([next?.discard(), endChangeLog(app)])
    await lock.assertHeld().then(discard, () => {})
    throw error
  }
}

/** Calls `put` with every document after `cursor`, in batches by id. Advances `cursor` and returns the number of documents. */
async function forEachBatch(
  app: App,
  { since, signal, onProgress, ...options }: ReindexOptions,
  total: number,
  put: (ids: readonly string[]) => Promise<void>,
  cursor: { id: string } = { id: nilId },
): Promise<number> {
  for (let done = 0; ; ) {
    signal?.throwIfAborted()
    const rows = await app.db
      .selectFrom('live_documents')
      .select('id')
      .where('id', '>', cursor.id)
      .$if(since !== undefined, (query) => query.where('updated_at', '>=', since!))
      .orderBy('id')
      .limit(batchSize(app, options))
      .execute()
    if (rows.length === 0) return done
    await put(rows.map(({ id }) => id))
    done += rows.length
    cursor.id = rows.at(-1)!.id
    onProgress?.(done, Math.max(done, total))
  }
}

/** Interval and maximum number of attempts to index all changes before the new index is activated. */
const catchUpIntervalMs = 200
const maxCatchUps = 50
/** Attempts after which documents may differ whose index jobs have not ended: these jobs write into the new index after its activation. */
const minCatchUps = 5

/** Indexes changes until the new index contains every document, but those that wait for an index job or were omitted. Returns the number of documents. */
async function catchUp(app: App, options: ReindexOptions, next: IndexRebuild, cursor: { id: string }): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    await forEachBatch(app, { ...options, onProgress: () => {} }, 0, next.put, cursor)
    await applyChanges(app, next.put, batchSize(app, options))
    const documents = await next.complete(options.signal)
    const expected = await documentCount(app)
    if (documents + (next.omitted?.size ?? 0) === expected) return documents
    if (attempt >= minCatchUps && Math.abs(documents - expected) <= (await countChanges(app))) return documents
    if (attempt === maxCatchUps) throw new Error(`the new index has ${documents} of ${expected} documents; the old one stays active`)
    options.signal?.throwIfAborted()
    await sleep(catchUpIntervalMs)
  }
}

const batchSize = (app: App, { batchSize }: ReindexOptions): number => batchSize ?? app.config.search.batch_size

async function documentCount(app: App, since?: Date): Promise<number> {
  const { count } = await app.db
    .selectFrom('live_documents')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .$if(since !== undefined, (query) => query.where('updated_at', '>=', since!))
    .executeTakeFirstOrThrow()
  return count
}

async function waitingChanges(app: App): Promise<{ waiting: number; failing: number }> {
  const { rows } = await sql<{ waiting: number; failing: number }>`
    select count(*) as waiting, count(error_code) as failing from jobs
    where kind = 'index' and status in ('pending', 'processing')`.execute(app.db)
  return rows[0]!
}
