/**
 * The queue: jobs are rows, so enqueueing rides the transaction of what needs the work. A claim is a lease with a fence: the number goes
 * up at each claim, and whoever comes back late with an old one changes nothing.
 */
import { sql } from 'kysely'
import type { App } from './app.ts'
import type { Db, Trx } from './db/db.ts'
import type { Row } from './db/schema.ts'
import { AppError } from './errors.ts'

export interface Payloads {
  /** read a document, with OCR */
  ocr: { language: string }
  /** read what the document itself carries */
  extract: { language: string }
  /** help a long document along: its pages, one after the other */
  pages: { language: string }
  /** bring the search index up to date with a document, or with its absence */
  index: { document_id: string }
  /** remove stored bytes that no document has any more */
  purge: { sha256: string }
}

export type Kind = keyof Payloads
export type Queue = 'ocr' | 'index' | 'maintenance'

/** Enough for a week of tries: an index or a disk that is out of reach is caught up with once it is back. */
const untilItWorks = 1000

/** `kept`: finished jobs stay, as history and for statistics. `tries`: unless told otherwise. */
const kinds = {
  ocr: { queue: 'ocr', kept: true, tries: 3 },
  extract: { queue: 'ocr', kept: true, tries: 3 },
  pages: { queue: 'ocr', kept: false, tries: 1 },
  index: { queue: 'index', kept: false, tries: untilItWorks },
  purge: { queue: 'maintenance', kept: false, tries: untilItWorks },
} as const satisfies Record<Kind, { queue: Queue; kept: boolean; tries: number }>

export const priorities = { low: 25, normal: 50, high: 75, urgent: 100 } as const
export type Priority = keyof typeof priorities

export interface Job<K extends Kind = Kind> extends Omit<Row<'jobs'>, 'kind' | 'payload'> {
  kind: K
  payload: Payloads[K]
}

export interface Problem {
  code: string
  message: string
  /** whether another try could end better */
  retry: boolean
}

/** What a kind of job does. */
export interface Handler<K extends Kind> {
  /** The work. What it returns runs in the transaction that finishes the job: both or neither. */
  run(app: App, job: Job<K>, signal: AbortSignal): Promise<undefined | ((trx: Trx) => Promise<void>)>
  /** What else is true once the job failed: it waits for another try, or (`final`) was given up. Same transaction. */
  failed?(app: App, trx: Trx, job: Job<K>, problem: Problem, final: boolean): Promise<void>
  /** What else is true once the job was given back without a try being counted. Same transaction. */
  released?(app: App, trx: Trx, job: Job<K>): Promise<void>
}

export interface EnqueueOptions {
  priority?: Priority
  documentId?: string
  parentId?: string
  /** a waiting job with the same key is enough: no second one is made */
  dedupe?: string
  runAt?: Date
  maxAttempts?: number
}

/** Adds a job; returns its id (of the waiting one where `dedupe` found it). */
export async function enqueue<K extends Kind>(trx: Trx, kind: K, payload: Payloads[K], options: EnqueueOptions = {}): Promise<string> {
  const { id } = await trx
    .insertInto('jobs')
    .values({
      kind,
      queue: kinds[kind].queue,
      payload: JSON.stringify(payload),
      priority: priorities[options.priority ?? 'normal'],
      document_id: options.documentId ?? null,
      parent_id: options.parentId ?? null,
      dedupe_key: options.dedupe ?? null,
      max_attempts: options.maxAttempts ?? kinds[kind].tries,
      ...(options.runAt ? { run_at: options.runAt } : {}),
    })
    // DO UPDATE rather than DO NOTHING: it locks the waiting row, so no worker starts it before what we commit is there to be read.
    .onConflict((conflict) =>
      conflict
        .column('dedupe_key')
        .where('status', '=', 'pending')
        .doUpdateSet((eb) => ({ run_at: sql<Date>`least(${eb.ref('jobs.run_at')}, excluded.run_at)` })),
    )
    .returning('id')
    .executeTakeFirstOrThrow()
  return id
}

/** Takes the next job of a queue for `lease` milliseconds, or null. */
export async function claim(db: Db, queue: Queue, worker: string, lease: number): Promise<Job | null> {
  const { rows } = await sql<Job>`
    with next as (
      select id from jobs where queue = ${queue} and status = 'pending' and run_at <= now()
      order by priority desc, run_at, id limit 1 for update skip locked
    )
    update jobs set status = 'processing', attempts = attempts + 1, fence = fence + 1, worker = ${worker},
      lease_until = now() + ${lease} * interval '1 ms', started_at = now(), error_code = null, error_message = null
    from next where jobs.id = next.id returning jobs.*`.execute(db)
  return rows[0] ?? null
}

/** Keeps a claim alive; false when it is no longer ours (cancelled, or given to another after a silence). */
export async function renew(db: Db, job: Job, lease: number): Promise<boolean> {
  const { numUpdatedRows } = await held(db, job)
    .set({ lease_until: sql<Date>`now() + ${lease} * interval '1 ms'` })
    .executeTakeFirst()
  return numUpdatedRows === 1n
}

/** Keeps the claim, and keeps it from being taken away before the transaction ends; throws LeaseLost. */
export async function fence(trx: Trx, job: Job, lease: number): Promise<void> {
  await lockDocument(trx, job)
  if (!(await renew(trx, job, lease))) throw new LeaseLost()
}

/** Says how far it is; throws LeaseLost. */
export async function progress(db: Db, job: Job, done: number, total: number): Promise<void> {
  const { numUpdatedRows } = await held(db, job).set({ pages_done: done, pages_total: total }).executeTakeFirst()
  if (numUpdatedRows !== 1n) throw new LeaseLost()
}

/** Whether somebody is at work who helps this job. */
export async function isHelped(db: Db, job: Job): Promise<boolean> {
  const helpers = await db
    .selectFrom('jobs')
    .select('id')
    .where('parent_id', '=', job.id)
    .where('status', '=', 'processing')
    .limit(1)
    .execute()
  return helpers.length > 0
}

/** Says how far the job is that this one helps, while both are live. */
export async function progressOfParent(db: Db, job: Job, done: number, total: number): Promise<void> {
  await db
    .updateTable('jobs')
    .set({ pages_done: done, pages_total: total })
    .where('id', '=', job.parent_id)
    .where('status', '=', 'processing')
    .execute()
}

/** Ends a job well; throws LeaseLost, so that the caller's transaction is undone, when it is no longer ours. */
export async function finish(trx: Trx, job: Job): Promise<void> {
  await lockDocument(trx, job)
  const { numUpdatedRows } = await held(trx, job)
    .set({ status: 'completed', lease_until: null, finished_at: sql<Date>`now()` })
    .executeTakeFirst()
  if (numUpdatedRows !== 1n) throw new LeaseLost()
  if (!kinds[job.kind].kept) await trx.deleteFrom('jobs').where('id', '=', job.id).execute()
}

/** Ends a try badly; true when that was the last. Throws LeaseLost. */
export async function fail(trx: Trx, job: Job, problem: Problem): Promise<boolean> {
  await lockDocument(trx, job)
  const final = !problem.retry || job.attempts >= job.max_attempts
  const { numUpdatedRows } = await held(trx, job)
    .set({
      error_code: problem.code,
      error_message: problem.message,
      lease_until: null,
      worker: null,
      ...(final
        ? { status: 'failed', finished_at: sql<Date>`now()` }
        : { status: 'pending', dedupe_key: null, run_at: sql<Date>`now() + ${backoff(job.attempts)} * interval '1 ms'` }),
    })
    .executeTakeFirst()
  if (numUpdatedRows !== 1n) throw new LeaseLost()
  if (final && !kinds[job.kind].kept) await trx.deleteFrom('jobs').where('id', '=', job.id).execute()
  return final
}

/** Gives a job back unharmed, to be run in `delay` milliseconds: the try does not count. Throws LeaseLost. */
export async function release(trx: Trx, job: Job, delay = 0): Promise<void> {
  await lockDocument(trx, job)
  const { numUpdatedRows } = await held(trx, job)
    .set((eb) => ({
      status: 'pending',
      attempts: eb('attempts', '-', 1),
      run_at: sql<Date>`greatest(run_at, now() + ${delay} * interval '1 ms')`,
      lease_until: null,
      worker: null,
      dedupe_key: null,
    }))
    .executeTakeFirst()
  if (numUpdatedRows !== 1n) throw new LeaseLost()
  await sql`select pg_notify('dms_jobs', 'ready')`.execute(trx)
}

/** Claims whose worker fell silent, one at a time, each already fenced off from it. */
export async function claimExpired(db: Db, worker: string, lease: number): Promise<Job | null> {
  const { rows } = await sql<Job>`
    with lost as (select id from jobs where status = 'processing' and lease_until < now() limit 1 for update skip locked)
    update jobs set fence = fence + 1, worker = ${worker}, lease_until = now() + ${lease} * interval '1 ms'
    from lost where jobs.id = lost.id returning jobs.*`.execute(db)
  return rows[0] ?? null
}

/** Ends the leases of workers known to be dead, without the wait. */
export async function expire(db: Db, workers: readonly string[]): Promise<void> {
  if (workers.length === 0) return
  await db
    .updateTable('jobs')
    .set({ lease_until: new Date(0) })
    .where('status', '=', 'processing')
    .where('worker', 'in', workers)
    .execute()
}

/** The workers that hold claims now, and for how many seconds nobody has seen them (null: never seen). */
export async function holders(db: Db): Promise<{ worker: string; silent: number | null }[]> {
  const { rows } = await sql<{ worker: string; silent: number | null }>`
    select worker, extract(epoch from now() - max(seen_at))::float8 as silent
    from jobs left join workers on name = worker where status = 'processing' and worker is not null group by worker`.execute(db)
  return rows
}

/** Cancels jobs, waiting or running, with their helpers; whoever runs one is told at commit. Returns the ids that were live. */
export async function cancel(trx: Trx, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return []
  const { rows } = await sql<{ id: string; parent_id: string | null }>`
    update jobs set status = 'cancelled', fence = fence + 1, lease_until = null, finished_at = now()
    where (id = any(${ids}) or parent_id = any(${ids})) and status in ('pending', 'processing') returning id, parent_id`.execute(trx)
  for (const { id } of rows) await sql`select pg_notify('dms_jobs', ${`cancel:${id}`})`.execute(trx)
  return rows.map(({ id }) => id).filter((id) => ids.includes(id))
}

/** Cancels whatever waits or runs for a document. */
export async function cancelOf(trx: Trx, documentId: string): Promise<void> {
  const live = await trx
    .selectFrom('jobs')
    .select('id')
    .where('document_id', '=', documentId)
    .where('status', 'in', ['pending', 'processing'])
    .execute()
  await cancel(
    trx,
    live.map(({ id }) => id),
  )
}

/** Moves a waiting job forward or back; throws CONFLICT when it no longer waits. */
export async function prioritise(db: Db, id: string, priority: Priority): Promise<void> {
  const { numUpdatedRows } = await db
    .updateTable('jobs')
    .set({ priority: priorities[priority] })
    .where('id', '=', id)
    .where('status', '=', 'pending')
    .executeTakeFirst()
  if (numUpdatedRows !== 1n) throw new AppError('CONFLICT', { status: 'not pending' }, 'The job no longer waits.')
}

/** The name of a priority number, for answers. */
export const priorityName = (number: number): Priority =>
  (Object.entries(priorities) as [Priority, number][]).reduce((best, entry) =>
    Math.abs(entry[1] - number) < Math.abs(best[1] - number) ? entry : best,
  )[0]

/** The claim is no longer ours: somebody cancelled the job, or another worker has it. */
export class LeaseLost extends Error {
  constructor() {
    super('the job is no longer ours')
    this.name = 'LeaseLost'
  }
}

/**
 * Whoever changes a document and its jobs locks the document first: deleting, retrying and cancelling come from that side, and two who
 * lock in different orders wait for each other.
 */
export async function lockDocument(trx: Trx, { document_id }: Pick<Job, 'document_id'>): Promise<void> {
  if (document_id !== null) await trx.selectFrom('documents').select('id').where('id', '=', document_id).forNoKeyUpdate().execute()
}

const held = (db: Db, job: Job) =>
  db.updateTable('jobs').where('id', '=', job.id).where('fence', '=', job.fence).where('status', '=', 'processing')

/** Milliseconds before try number attempts + 1: 5 s, 20 s, 45 s, … at most 10 minutes, spread by a quarter so that many do not come back at once. */
const backoff = (attempts: number): number => Math.min(600_000, 5_000 * attempts ** 2) * (0.75 + Math.random() / 2)
