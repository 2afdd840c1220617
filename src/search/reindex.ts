/** Rebuilds the search index, and follows the changes made meanwhile. */
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { withLock } from '../db/lock.ts'
import type { Trx } from '../db/pool.ts'
import { invalid } from '../errors.ts'
import * as jobs from '../jobs/queue.ts'
import type { IndexRebuild, IndexStatus } from '../ports/search-engine.ts'

export interface ReindexOptions {
  /** do nothing where the index holds every document in today's form */
  ifNeeded?: boolean
  /** only documents that changed since then, in the index in force */
  since?: Date
  /** only these, in the index in force; one that is gone is taken out */
  ids?: readonly string[]
  /** write into the index in force instead of making a new one beside it */
  inPlace?: boolean
  /** keep the index that was in force until now, where the engine can, until the next run */
  keepOld?: boolean
  /** only say what would be done */
  dryRun?: boolean
  /** documents at once; search.batch_size where nothing is said */
  batchSize?: number
  /** milliseconds to wait for another run before Busy is thrown */
  lockTimeout?: number
  signal?: AbortSignal
  onProgress?: (done: number, total: number) => void
}

export interface ReindexResult {
  documents: number
  /** there was nothing to do */
  skipped: boolean
  /** a new index came into force */
  swapped: boolean
  /** what the old one is called from now on, where it was kept */
  kept?: string
}

export interface IndexHealth extends IndexStatus {
  engine: string
  /** documents in the database */
  database: number
  /** entries that are missing, and that are too many; these do not make up for those */
  drift: number
  /** changes of documents that are not in the index yet, and of them those that have been tried in vain */
  waiting: number
  failing: number
}

const nothingNew = { skipped: false, swapped: false }

/** How the index stands to the database. Throws SERVICE_UNAVAILABLE. */
export async function status(app: App): Promise<IndexHealth> {
  const [index, database, changes] = await Promise.all([app.search.status(), documentCount(app), waitingChanges(app)])
  return { ...index, engine: app.search.name, database, drift: index.missing + index.extra, ...changes }
}

/** Brings the index up to date with documents; a new index that is being next hears of them too. */
export async function indexDocuments(app: App, documentIds: readonly string[]): Promise<void> {
  const ids = [...new Set(documentIds)].sort()
  // Noted first: whoever finds no rebuild here reads the documents before that rebuild does.
  await sql`
    insert into search_changes (document_id) select id from search_rebuild cross join unnest(${ids}::uuid[]) id order by id
    on conflict do nothing`.execute(app.db)
  await app.search.refresh(ids)
}

/**
 * Makes the index anew beside the one in force, which answers all the while; or writes (some) documents into that. Throws Busy, SERVICE_UNAVAILABLE.
 * Whatever ends it before its end leaves the old index in force; the next run removes what it left.
 */
export function reindex(app: App, options: ReindexOptions = {}): Promise<ReindexResult> {
  return withLock(app.database, 'search.reindex', options.lockTimeout ?? 0, async () => {
    const { ids, since, dryRun = false } = options
    if (ids) return refreshThese(app, ids, options)
    if (options.ifNeeded) {
      const { documents, drift, outdated } = await status(app)
      if (drift === 0 && outdated === 0) return { ...nothingNew, documents, skipped: true }
    }
    const total = await documentCount(app, since)
    if (dryRun) return { ...nothingNew, documents: total }
    if (since || options.inPlace) {
      const documents = await walk(app, options, total, (batch) => app.search.refresh(batch))
      return { ...nothingNew, documents }
    }
    return rebuildAll(app, options, total)
  })
}

/** Leaves it to a worker; the id of the job, which is gone once it has ended. `ifNeeded`: as of ReindexOptions. */
export function queueReindex(app: App, ifNeeded: boolean): Promise<string> {
  return app.db.transaction().execute((trx) => enqueueReindex(trx, { anew: !ifNeeded }))
}

/** One waiting job of a kind is enough. */
export const enqueueReindex = (trx: Trx, payload: jobs.Payloads['reindex'], runAt?: Date): Promise<string> =>
  jobs.enqueue(trx, 'reindex', payload, { dedupeKey: payload.anew ? 'reindex anew' : 'reindex', ...(runAt ? { runAt } : {}) })

async function refreshThese(
  app: App,
  ids: readonly string[],
  { dryRun, signal, onProgress, ...options }: ReindexOptions,
): Promise<ReindexResult> {
  const size = batchSize(app, options)
  for (let start = 0; start < ids.length && !dryRun; start += size) {
    signal?.throwIfAborted()
    await app.search.refresh(ids.slice(start, start + size))
    onProgress?.(Math.min(start + size, ids.length), ids.length)
  }
  return { ...nothingNew, documents: ids.length }
}

async function rebuildAll(app: App, options: ReindexOptions, total: number): Promise<ReindexResult> {
  await startChangeLog(app)
  let next: IndexRebuild | undefined
  try {
    next = await app.search.rebuild()
    const { put, keptAs } = next
    if (options.keepOld && keptAs === undefined) throw invalid('keep_old', `the ${app.search.name} engine keeps no old index`)
    const from = { id: leastId }
    await walk(app, options, total, put, from)
    const documents = await catchUp(app, options, next, from)
    options.signal?.throwIfAborted()
    await next.swap(options.keepOld)
    // What a job wrote into the old index in the last moment.
    await applyChanges(app, options, next)
    await stopChangeLog(app)
    await applyChanges(app, options, next)
    return { ...nothingNew, documents, swapped: true, ...(options.keepOld && keptAs ? { kept: keptAs } : {}) }
  } catch (error) {
    await next?.discard().catch(() => {})
    await stopChangeLog(app).catch(() => {})
    throw error
  }
}

const leastId = '00000000-0000-0000-0000-000000000000'

/** Every document in the order of ids, from behind `from`, which is moved on. */
async function walk(
  app: App,
  { since, signal, onProgress, ...options }: ReindexOptions,
  total: number,
  put: (ids: readonly string[]) => Promise<void>,
  from: { id: string } = { id: leastId },
): Promise<number> {
  for (let done = 0; ; ) {
    signal?.throwIfAborted()
    const rows = await app.db
      .selectFrom('documents')
      .select('id')
      .where('id', '>', from.id)
      .$if(since !== undefined, (query) => query.where('updated_at', '>=', since!))
      .orderBy('id')
      .limit(batchSize(app, options))
      .execute()
    if (rows.length === 0) return done
    await put(rows.map(({ id }) => id))
    done += rows.length
    from.id = rows.at(-1)!.id
    onProgress?.(done, Math.max(done, total))
  }
}

/** Milliseconds between two looks at whether the new index holds as many documents as the database, and how many looks. */
const catchUpIntervalMs = 200
const maxCatchUps = 50

/** Until the new index holds every document; how many. Documents come and go meanwhile. */
async function catchUp(app: App, options: ReindexOptions, next: IndexRebuild, from: { id: string }): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    await walk(app, { ...options, onProgress: () => {} }, 0, next.put, from)
    await applyChanges(app, options, next)
    const [documents, expected] = [await next.settle(), await documentCount(app)]
    if (documents === expected) return documents
    if (attempt === maxCatchUps) throw new Error(`the new index holds ${documents} documents of ${expected}; the old one stays in force`)
    options.signal?.throwIfAborted()
    await sleep(catchUpIntervalMs)
  }
}

/** Has changes noted from now on. */
async function startChangeLog(app: App): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    await trx.deleteFrom('search_changes').execute()
    await sql`insert into search_rebuild default values on conflict (key) do update set started_at = excluded.started_at`.execute(trx)
  })
}

const stopChangeLog = (app: App) => app.db.deleteFrom('search_rebuild').execute()

async function applyChanges(app: App, options: ReindexOptions, next: IndexRebuild): Promise<void> {
  for (;;) {
    const { rows } = await sql<{ document_id: string }>`
      delete from search_changes where document_id in (select document_id from search_changes limit ${batchSize(app, options)})
      returning document_id`.execute(app.db)
    if (rows.length === 0) return
    await next.put(rows.map(({ document_id }) => document_id))
  }
}

const batchSize = (app: App, { batchSize }: ReindexOptions): number => batchSize ?? app.config.search.batch_size

async function documentCount(app: App, since?: Date): Promise<number> {
  const { count } = await app.db
    .selectFrom('documents')
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
