/** The OCR queue as people see it: what waits, what runs, what went wrong, and how to change that. */
import { sql } from 'kysely'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { keyset, type RowWithCursorKey } from '../db/keyset.ts'
import type { Trx } from '../db/pool.ts'
import type { JobStatus, Row } from '../db/schema.ts'
import { requireDocument } from '../documents/access.ts'
import * as reading from '../documents/extraction-result.ts'
import { AppError } from '../errors.ts'
import { type FetchedPage, fetchPage, type PageRequest } from '../http/pages.ts'
import * as claims from '../jobs/leases.ts'
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
  /** null: nothing is to be done, or nothing is done as the queue is paused */
  estimated_completion: Date | null
  /** no job is begun until somebody resumes it */
  paused: boolean
}

/** Counts and rates of the whole queue that the actor may see. */
export async function status(app: App, actor: Actor): Promise<Status> {
  const now = app.now()
  const paused = await jobs.isOcrPaused(app.db)
  const { rows } = await sql<Omit<Status, 'paused'> & { pages_left: number; pages_per_second: number | null }>`
    select count(*) filter (where j.status = 'pending') as pending,
      count(*) filter (where j.status = 'processing') as processing,
      count(*) filter (where j.status = 'completed' and j.finished_at >= date_trunc('day', ${now}::timestamptz, 'UTC')) as completed_today,
      count(*) filter (where j.status = 'failed') as failed,
      coalesce(avg(extract(epoch from j.finished_at - j.started_at)) filter (where j.status = 'completed' and j.finished_at > ${now}::timestamptz - interval '1 day'), 0)::float8
        as average_processing_time,
      coalesce(sum(coalesce(j.pages_total, 1) - j.pages_done) filter (where j.status in ('pending', 'processing')), 0) as pages_left,
      (sum(coalesce(j.pages_total, 1)) filter (where j.status = 'completed' and j.finished_at > ${now}::timestamptz - interval '1 hour')
        / nullif(extract(epoch from ${now}::timestamptz - min(j.started_at) filter (where j.status = 'completed' and j.finished_at > ${now}::timestamptz - interval '1 hour')), 0))::float8
        as pages_per_second
    from jobs j join documents d on d.id = j.document_id
    where j.kind = 'ocr' and (${isAdmin(actor)} or d.owner_id = ${actor.id})`.execute(app.db)
  const { pages_left, pages_per_second, ...counts } = rows[0]!
  const isIdle = counts.pending + counts.processing === 0
  // Before anything was measured: two seconds a page, which is a dense page on one core.
  const seconds = pages_left / (pages_per_second ?? 0.5)
  return { ...counts, estimated_completion: isIdle || paused ? null : new Date(now.getTime() + seconds * 1000), paused }
}

/** From now on no OCR job is begun; what runs goes on to its end. The queue as it is then. */
export async function pause(app: App, actor: Actor): Promise<Status> {
  await app.db.transaction().execute(jobs.pauseOcr)
  return status(app, actor)
}

/** The end of that. */
export async function resume(app: App, actor: Actor): Promise<Status> {
  await app.db.transaction().execute(jobs.resumeOcr)
  return status(app, actor)
}

export interface ListOptions extends PageRequest {
  status?: readonly JobStatus[] | undefined
  priority?: jobs.Priority | undefined
  /** `next`: what runs, what runs next, what is over */
  sort: (typeof sortable)[number]
}

/** When the jobs that wait have their turns: what cannot run yet comes after the rest of its priority, and who was served last after all others. */
const turns = sql<{ id: string }>`(
  select w.id, w.owner_id, (w.run_at > now() or coalesce(u.disabled, false))::int as held, coalesce(w.owner_id <= t.owner_id, false)::int as served,
    row_number() over (partition by w.priority, w.owner_id order by w.run_at, w.id) as round
  from jobs w left join users u on u.id = w.owner_id left join job_turns t on t.queue = w.queue and t.priority = w.priority
  where w.queue = 'ocr' and w.status = 'pending')`.as('turns')

const lastKey = { by: 'jobs.id', type: 'id', order: 'asc' } as const
const orders = {
  /** what runs, what runs next, what is over */
  next: keyset(
    { by: sql`case jobs.status when 'processing' then 0 when 'pending' then 1 else 2 end`, type: 'integer', order: 'asc' },
    { by: 'jobs.priority', type: 'integer', order: 'desc' },
    // Of what waits the oldest job of each owner in turn, then the second of each.
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

/** One page of jobs. Throws VALIDATION_ERROR for a cursor of another list. */
export function list(
  app: App,
  actor: Actor,
  { status, priority, sort, ...page }: ListOptions,
): Promise<FetchedPage<Item & RowWithCursorKey>> {
  let query = seen(app, actor)
  if (status?.length) query = query.where('jobs.status', 'in', status)
  if (priority) query = query.where('jobs.priority', '=', jobs.priorities[priority])
  const order = orders[sort]
  return fetchPage(
    page,
    order,
    ['ocr queue', status, priority, sort],
    ({ limit, offset, after }) =>
      order
        .orderBy(
          (after ? query.where(order.isAfter(after)) : query).$if(sort === 'next', (found) => found.leftJoin(turns, 'turns.id', 'jobs.id')),
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

/** One job. Throws OCR_JOB_NOT_FOUND. */
export async function get(app: App, actor: Actor, id: string): Promise<Item> {
  const item = await seen(app, actor)
    .selectAll('jobs')
    .select(['documents.filename', 'documents.title'])
    .where('jobs.id', '=', id)
    .$castTo<Item>()
    .executeTakeFirst()
  if (!item) throw new AppError('OCR_JOB_NOT_FOUND')
  return item
}

const seen = (app: App, actor: Actor) =>
  app.db
    .selectFrom('jobs')
    .innerJoin('documents', 'documents.id', 'jobs.document_id')
    .where('jobs.kind', '=', 'ocr')
    .$if(!isAdmin(actor), (query) => query.where('documents.owner_id', '=', actor.id))

/** Throws FORBIDDEN: with a priority above everybody's turns a user would keep all others waiting. */
function checkPriority(actor: Actor, priority: jobs.Priority): void {
  if (priority === 'urgent' && !isAdmin(actor))
    throw new AppError('FORBIDDEN', {}, 'The priority urgent is for admins; high is the highest of others.')
}

/** Moves a waiting job. Throws OCR_JOB_NOT_FOUND, FORBIDDEN for `urgent` of a normal user, CONFLICT. */
export async function prioritise(app: App, actor: Actor, id: string, priority: jobs.Priority): Promise<Item> {
  await get(app, actor, id)
  checkPriority(actor, priority)
  await jobs.setPriority(app.db, id, priority)
  return get(app, actor, id)
}

/** Cancels a job, waiting or running; its document is `failed` from then on. Throws OCR_JOB_NOT_FOUND, CONFLICT. */
export async function cancel(app: App, actor: Actor, id: string): Promise<void> {
  const { document_id } = await get(app, actor, id)
  await app.db.transaction().execute(async (trx) => {
    await claims.lockDocument(trx, { document_id })
    if ((await jobs.cancel(trx, [id])).length === 0) throw new AppError('CONFLICT', {}, 'The job is finished already.')
    await reading.finishExtraction(app, trx, document_id ?? '', { code: 'OCR_CANCELLED', message: 'The OCR job was cancelled.' })
  })
}

/** Reads a document anew. A job that waits is replaced. Throws DOCUMENT_NOT_FOUND, FORBIDDEN for `urgent` of a normal user, CONFLICT while one runs, VALIDATION_ERROR. */
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
  checkLanguage(app, code)
  if (!app.ocr) throw new AppError('CONFLICT', {}, 'OCR is switched off on this server.')
  return app.db.transaction().execute((trx) => again(app, trx, documentId, code, priority))
}

async function again(app: App, trx: Trx, documentId: string, language: string, priority: jobs.Priority): Promise<string> {
  // Two retries at once: the second waits here, then sees the first one's job.
  const found = await trx.selectFrom('documents').select('id').where('id', '=', documentId).forUpdate().executeTakeFirst()
  if (!found) throw new AppError('DOCUMENT_NOT_FOUND')
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
  await reading.restartExtraction(app, trx, documentId, language)
  return jobs.enqueue(trx, 'ocr', { language }, { documentId, priority, maxAttempts: app.config.ocr.max_attempts })
}

/** Queues failed jobs' documents again: all that failed, or the given jobs. Returns how many. */
export async function retryMany(app: App, actor: Actor, which: { status: 'failed' } | { ids: readonly string[] }): Promise<number> {
  let query = seen(app, actor).select(['jobs.document_id', 'documents.language']).distinct().where('documents.status', '=', 'failed')
  query = 'ids' in which ? query.where('jobs.id', 'in', which.ids) : query.where('jobs.status', '=', 'failed')
  let queued = 0
  for (const { document_id, language } of await query.execute()) {
    const job = await app.db
      .transaction()
      .execute((trx) => again(app, trx, document_id ?? '', language, 'normal'))
      .catch((error) => {
        // Gone or being read since we looked: not what was asked for any more.
        if (error instanceof AppError && error.status < 500) return null
        throw error
      })
    if (job) queued++
  }
  return queued
}
