/** The OCR queue: its state, its jobs, and changes to them. */
import { sql } from 'kysely'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { keyset, type RowWithCursorKey } from '../db/keyset.ts'
import type { Trx } from '../db/pool.ts'
import type { JobStatus, Row } from '../db/schema.ts'
import { requireDocument } from '../documents/access.ts'
import * as extraction from '../documents/extraction/result.ts'
import { AppError } from '../errors.ts'
import { type FetchedPage, fetchPage, type PageRequest } from '../http/pages.ts'
import * as leases from '../jobs/leases.ts'
import * as jobs from '../jobs/queue.ts'
import { checkLanguage } from '../settings/settings.ts'

export interface Item extends Omit<Row<'jobs'>, 'payload'> {
  payload: { language: string }
  filename: string
  title: string
}

export interface Status {
  pending: number
  processing: number
  completed_today: number
  failed: number
  /** seconds per document over the last 24 hours */
  average_processing_time: number
  /** null: the queue is empty or paused */
  estimated_completion: Date | null
  paused: boolean
}

/** Condition on a failed job and its document: the document has not been read since, and no later job of it has failed. */
export const isUnresolved = sql<boolean>`(documents.status = 'failed' and not exists (
  select from jobs later where later.document_id = jobs.document_id and later.kind = 'ocr' and later.status = 'failed' and later.id > jobs.id))`

/** Returns counts and rates of the jobs that the actor may see. */
export async function status(app: App, actor: Actor): Promise<Status> {
  const now = app.now()
  const paused = await jobs.isOcrPaused(app.db)
  const { rows } = await sql<Omit<Status, 'paused'> & { pages_left: number; pages_per_second: number | null }>`
    select count(*) filter (where jobs.status = 'pending') as pending,
      count(*) filter (where jobs.status = 'processing') as processing,
      count(*) filter (where jobs.status = 'completed' and jobs.finished_at >= date_trunc('day', ${now}::timestamptz, 'UTC')) as completed_today,
      count(*) filter (where jobs.status = 'failed' and ${isUnresolved}) as failed,
      coalesce(avg(extract(epoch from jobs.finished_at - jobs.started_at)) filter (where jobs.status = 'completed' and jobs.finished_at > ${now}::timestamptz - interval '1 day'), 0)::float8
        as average_processing_time,
      coalesce(sum(coalesce(jobs.pages_total, 1) - jobs.pages_done) filter (where jobs.status in ('pending', 'processing')), 0) as pages_left,
      (sum(coalesce(jobs.pages_total, 1)) filter (where jobs.status = 'completed' and jobs.finished_at > ${now}::timestamptz - interval '1 hour')
        / nullif(extract(epoch from ${now}::timestamptz - min(jobs.started_at) filter (where jobs.status = 'completed' and jobs.finished_at > ${now}::timestamptz - interval '1 hour')), 0))::float8
        as pages_per_second
    from (
      select * from jobs where status in ('pending', 'processing', 'failed')
      union all select * from jobs where status = 'completed' and finished_at > ${now}::timestamptz - interval '1 day'
    ) jobs join live_documents documents on documents.id = jobs.document_id
    where jobs.kind = 'ocr' and (${isAdmin(actor)} or documents.owner_id = ${actor.id})`.execute(app.db)
  const { pages_left, pages_per_second, ...counts } = rows[0]!
  const isIdle = counts.pending + counts.processing === 0
  // Default without a measured rate: two seconds per page, the time of a dense page on one core.
  const seconds = pages_left / (pages_per_second ?? 0.5)
  return { ...counts, estimated_completion: isIdle || paused ? null : new Date(now.getTime() + seconds * 1000), paused }
}

/** Pauses the queue: running jobs continue, no other job starts. Returns the new status. */
export async function pause(app: App, actor: Actor): Promise<Status> {
  await app.db.transaction().execute(jobs.pauseOcr)
  return status(app, actor)
}

/** Resumes the queue. Returns the new status. */
export async function resume(app: App, actor: Actor): Promise<Status> {
  await app.db.transaction().execute(jobs.resumeOcr)
  return status(app, actor)
}

export interface ListOptions extends PageRequest {
  status?: readonly JobStatus[] | undefined
  priority?: jobs.Priority | undefined
  sort: (typeof sortable)[number]
}

/** Position of each pending job: one job per owner in each round. Within a priority, jobs that cannot run yet come last. */
const turns = sql<{ id: string }>`(
  select w.id, w.owner_id, (w.run_at > now() or coalesce(u.disabled, false))::int as held, coalesce(w.owner_id <= t.owner_id, false)::int as served,
    row_number() over (partition by w.priority, w.owner_id order by w.run_at, w.id) as round
  from jobs w left join users u on u.id = w.owner_id left join job_turns t on t.queue = w.queue and t.priority = w.priority
  where w.queue = 'ocr' and w.status = 'pending')`.as('turns')

const lastKey = { by: 'jobs.id', type: 'id', order: 'asc' } as const
const orders = {
  /** running jobs, then pending jobs in the order in which they will run, then finished ones */
  next: keyset(
    { by: sql`case jobs.status when 'processing' then 0 when 'pending' then 1 else 2 end`, type: 'integer', order: 'asc' },
    { by: 'jobs.priority', type: 'integer', order: 'desc' },
    // Round robin: the oldest job of each owner, then the second of each.
    { by: sql`turns.held`, type: 'integer', order: 'asc', nulls: 'last' },
    { by: sql`turns.round`, type: 'integer', order: 'asc', nulls: 'last' },
    { by: sql`turns.served`, type: 'integer', order: 'asc', nulls: 'last' },
    { by: sql`turns.owner_id`, type: 'id', order: 'asc', nulls: 'last' },
    { by: sql`case when jobs.finished_at is null then jobs.run_at end`, type: 'timestamp', order: 'asc', nulls: 'last' },
    { by: 'jobs.finished_at', type: 'timestamp', order: 'desc', nulls: 'last' },
    lastKey,
  ),
  created_at: keyset({ by: 'jobs.created_at', type: 'timestamp', order: 'asc' }, lastKey),
}
export const sortable = Object.keys(orders) as (keyof typeof orders)[]

/** Returns a page of jobs. With `status`, leaves out failures that were resolved since. Throws VALIDATION_ERROR for a cursor of another list. */
export function list(
  app: App,
  actor: Actor,
  { status, priority, sort, ...page }: ListOptions,
): Promise<FetchedPage<Item & RowWithCursorKey>> {
  let query = visibleJobs(app, actor)
  if (status?.length) query = query.where('jobs.status', 'in', status).where(sql<boolean>`(jobs.status <> 'failed' or ${isUnresolved})`)
  if (priority) query = query.where('jobs.priority', '=', jobs.priorities[priority])
  const order = orders[sort]
  return fetchPage(
    page,
    order,
    ['ocr queue', status, priority, sort],
    ({ limit, offset, after }) =>
      order
        .orderBy(
          (after ? query.where(order.isAfter(after)) : query).$if(sort === 'next', (rows) => rows.leftJoin(turns, 'turns.id', 'jobs.id')),
        )
        .selectAll('jobs')
        .select(['documents.filename', 'documents.title'])
        .select(order.key)
        .limit(limit)
        .offset(offset)
        .$castTo<Item & RowWithCursorKey>()
        .execute(),
    async () => (await query.select(sql<number>`count(*)`.as('total')).executeTakeFirstOrThrow()).total,
  )
}

/** Returns a job. Throws OCR_JOB_NOT_FOUND. */
export const get = (app: App, actor: Actor, id: string): Promise<Item> =>
  visibleJobs(app, actor)
    .selectAll('jobs')
    .select(['documents.filename', 'documents.title'])
    .where('jobs.id', '=', id)
    .$castTo<Item>()
    .executeTakeFirstOrThrow(() => new AppError('OCR_JOB_NOT_FOUND'))

const visibleJobs = (app: App, actor: Actor) =>
  app.db
    .selectFrom('jobs')
    .innerJoin('live_documents as documents', 'documents.id', 'jobs.document_id')
    .where('jobs.kind', '=', 'ocr')
    .$if(!isAdmin(actor), (query) => query.where('documents.owner_id', '=', actor.id))

/** Throws FORBIDDEN for `urgent` of a user, who would delay the jobs of all others. */
function checkPriority(actor: Actor, priority: jobs.Priority): void {
  if (priority === 'urgent' && !isAdmin(actor))
    throw new AppError('FORBIDDEN', {}, 'The priority urgent is for admins; high is the highest of others.')
}

/** Changes the priority of a pending job. Throws OCR_JOB_NOT_FOUND, FORBIDDEN for `urgent` of a user, CONFLICT. */
export async function setPriority(app: App, actor: Actor, id: string, priority: jobs.Priority): Promise<Item> {
  const before = await get(app, actor, id)
  // A client may send the priority as it read it.
  if (before.priority !== jobs.priorities[priority]) checkPriority(actor, priority)
  await jobs.setPriority(app.db, id, priority)
  return get(app, actor, id)
}

/** Cancels a pending or running job and sets its document to `failed`. Returns the id of the document. Throws OCR_JOB_NOT_FOUND, CONFLICT. */
export async function cancel(app: App, actor: Actor, id: string): Promise<string> {
  const document_id = (await get(app, actor, id)).document_id ?? ''
  await app.db.transaction().execute(async (trx) => {
    await leases.lockDocument(trx, { document_id })
    if ((await jobs.cancel(trx, [id])).length === 0) throw new AppError('CONFLICT', {}, 'The job is finished already.')
    await extraction.finishExtraction(app, trx, document_id, { code: 'OCR_CANCELLED', message: 'The OCR job was cancelled.' })
  })
  return document_id
}

/**
 * Queues OCR of a document again, in place of a pending job. Returns the id of the job.
 * Throws DOCUMENT_NOT_FOUND, FORBIDDEN for `urgent` of a user, CONFLICT while a job runs, VALIDATION_ERROR.
 */
export async function retry(
  app: App,
  actor: Actor,
  documentId: string,
  language: string | undefined,
  priority: jobs.Priority,
): Promise<string> {
  const document = await requireDocument(app.db, actor, documentId)
  checkPriority(actor, priority)
  const code = language ?? document.language
  await checkLanguage(app, code)
  assertOcr(app)
  return app.db.transaction().execute((trx) => requeueDocument(app, trx, documentId, code, priority))
}

/** Throws CONFLICT if OCR is off: without it, a scan would be read again as an empty document. */
function assertOcr(app: App): void {
  if (!app.ocr) throw new AppError('CONFLICT', {}, 'OCR is switched off on this server.')
}

async function requeueDocument(app: App, trx: Trx, documentId: string, language: string, priority: jobs.Priority): Promise<string> {
  // The lock makes concurrent retries wait for each other: the second one replaces the job of the first.
  await trx
    .selectFrom('live_documents')
    .select('id')
    .where('id', '=', documentId)
    .forUpdate()
    .executeTakeFirstOrThrow(() => new AppError('DOCUMENT_NOT_FOUND'))
  const live = await trx
    .selectFrom('jobs')
    .select(['id', 'status'])
    .where('document_id', '=', documentId)
    .where('kind', 'in', ['ocr', 'extract'])
    .where('status', 'in', ['pending', 'processing'])
    .forUpdate()
    .execute()
  if (live.some((job) => job.status === 'processing')) throw new AppError('CONFLICT', {}, 'The document is being read right now.')
  await jobs.cancel(
    trx,
    live.map(({ id }) => id),
  )
  await extraction.restartExtraction(app, trx, documentId, language)
  return jobs.enqueue(trx, 'ocr', { language }, { documentId, priority, maxAttempts: app.config.ocr.max_attempts })
}

/** Queues the documents of failed jobs again: of all failed jobs, or of those with the given ids. Returns the ids of the documents. Throws CONFLICT. */
export async function retryMany(app: App, actor: Actor, selection: { status: 'failed' } | { ids: readonly string[] }): Promise<string[]> {
  assertOcr(app)
  let query = visibleJobs(app, actor).select(['jobs.document_id', 'documents.language']).distinct().where('documents.status', '=', 'failed')
  query = 'ids' in selection ? query.where('jobs.id', 'in', selection.ids) : query.where('jobs.status', '=', 'failed')
  const queued: string[] = []
  for (const { document_id, language } of await query.execute()) {
    const job = await app.db
      .transaction()
      .execute((trx) => requeueDocument(app, trx, document_id ?? '', language, 'normal'))
      .catch((error) => {
        // The document was deleted or is being read meanwhile.
        if (error instanceof AppError && error.status < 500) return null
        throw error
      })
    if (job && document_id) queued.push(document_id)
  }
  return queued
}
