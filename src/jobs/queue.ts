/** The job queue. Jobs are rows, and enqueueing is part of the caller's transaction. Leases are in leases.ts. */
import { type RawBuilder, sql } from 'kysely'
import type { App } from '../app.ts'
import type { Db, Trx } from '../db/pool.ts'
import { prepared } from '../db/pooled.ts'
import type { Row } from '../db/schema.ts'
import { AppError } from '../errors.ts'
import { nilId } from '../id.ts'

export interface Payloads {
  /** extract the text of a document, with OCR */
  ocr: { language: string }
  /** extract the text that the file contains, without OCR */
  extract: { language: string }
  /** read pages of a long document for its running job */
  pages: { language: string }
  /** make a rendition of a version */
  rendition: { number: number; kind: 'pdfa' }
  /** index a document, or remove it from the index after its deletion */
  index: { document_id: string }
  /** rebuild the index if documents are missing in it; `anew`: rebuild it in any case */
  reindex: { anew?: boolean }
  /** send a user the link that confirms the e-mail address */
  verify_email: { user_id: string }
  /** remove a stored file that no document uses; `address`: of an upload that may not have been committed */
  purge: { sha256: string; address?: string }
  /** retain the documents of a label; `owner_id`: only documents of this owner */
  retain: { label_id: string; days: number; owner_id: string | null }
  /** sync a source; `full`: check every file again; `accept_changes`: however many files have changed */
  sync: { source_id: string; full: boolean; accept_changes?: boolean }
}

export type Kind = keyof Payloads
export type Queue = 'ocr' | 'sync' | 'index' | 'maintenance'

/** Number of attempts for about a week. The job then survives an outage of the index or the disk. */
const manyAttempts = 1000

/** `keepsFinished`: finished jobs stay for history and statistics. `maxAttempts`: default of enqueue(). */
export const kinds = {
  ocr: { queue: 'ocr', keepsFinished: true, maxAttempts: 3 },
  extract: { queue: 'ocr', keepsFinished: true, maxAttempts: 3 },
  pages: { queue: 'ocr', keepsFinished: false, maxAttempts: 1 },
  rendition: { queue: 'ocr', keepsFinished: false, maxAttempts: 3 },
  index: { queue: 'index', keepsFinished: false, maxAttempts: manyAttempts },
  // Not in the queue of index jobs: these run meanwhile, and would wait for hours behind it.
  reindex: { queue: 'maintenance', keepsFinished: false, maxAttempts: manyAttempts },
  verify_email: { queue: 'maintenance', keepsFinished: false, maxAttempts: 20 },
  purge: { queue: 'maintenance', keepsFinished: false, maxAttempts: manyAttempts },
  retain: { queue: 'maintenance', keepsFinished: false, maxAttempts: manyAttempts },
  sync: { queue: 'sync', keepsFinished: false, maxAttempts: 3 },
} as const satisfies Record<Kind, { queue: Queue; keepsFinished: boolean; maxAttempts: number }>

export const priorities = { low: 25, normal: 50, high: 75, urgent: 100 } as const
export type Priority = keyof typeof priorities

export interface Job<K extends Kind = Kind> extends Omit<Row<'jobs'>, 'kind' | 'payload'> {
  kind: K
  payload: Payloads[K]
}

export interface JobProblem {
  code: string
  message: string
  /** another attempt may succeed */
  isRetryable: boolean
}

export interface JobFailure extends JobProblem {
  /** there is no further attempt */
  isFinal: boolean
}

/** Fields of the log line of a completed job. */
export type LogFields = Readonly<Record<string, string | number>>

/** Runs one kind of job. */
export interface Handler<K extends Kind> {
  /** Does the work. The returned function runs in the transaction that completes the job; it may return fields for the log. */
  run(app: App, job: Job<K>, signal: AbortSignal): Promise<undefined | ((trx: Trx) => Promise<void> | Promise<LogFields>)>
  /** Runs in the transaction that records a failed attempt. */
  failed?(app: App, trx: Trx, job: Job<K>, failure: JobFailure): Promise<void>
  /** Runs in the transaction that returns the job to the queue without counting the attempt. */
  released?(app: App, trx: Trx, job: Job<K>): Promise<void>
  /** Runs small jobs together. */
  group?: GroupHandler<K>
}

/** Runs small jobs of one owner together. */
export interface GroupHandler<K extends Kind> {
  /** Leases pending jobs that can run together with a leased job. Returns all of them, or nothing if the leased job must run alone. */
  lease(app: App, job: Job<K>, lease: GroupLease): Promise<Job<K>[]>
  /** Runs and completes the jobs. Returns the log fields of completed jobs by id. The other jobs must run alone. */
  run(app: App, jobs: readonly Job<K>[], signal: AbortSignal): Promise<ReadonlyMap<string, LogFields>>
}

export interface GroupLease {
  worker: string
  leaseMs: number
  /** maximum number of jobs, the first one included */
  limit: number
}

interface EnqueueOptions {
  priority?: Priority
  documentId?: string
  parentId?: string
  /** for fair scheduling; default: the owner of the document, else the nil id */
  ownerId?: string
  /** Key; at most one job with it is pending. */
  dedupeKey?: string
  /** Earliest start; default: the start of the transaction. */
  runAt?: Date
  /** Delay of the start by the database clock. */
  delayMs?: number
  maxAttempts?: number
}

/** Adds a job. Returns its id, or the id of the pending job with equal `dedupeKey`. */
export async function enqueue<K extends Kind>(trx: Trx, kind: K, payload: Payloads[K], options: EnqueueOptions = {}): Promise<string> {
  const [id = ''] = await enqueueAll(trx, [{ kind, payload, ...options } as NewJob])
  return id
}

type NewJob = { [K in Kind]: EnqueueOptions & { kind: K; payload: Payloads[K] } }[Kind]

/** Adds jobs with distinct `dedupeKey`s. Returns their ids in no particular order. */
export async function enqueueAll(trx: Trx, newJobs: readonly NewJob[]): Promise<string[]> {
  if (newJobs.length === 0) return []
  const jobs = newJobs.map(({ kind, payload, priority = 'normal', ...options }) => ({
    kind,
    queue: kinds[kind].queue,
    payload,
    priority: priorities[priority],
    document_id: options.documentId ?? null,
    // The job belongs to the owner of this document.
    about_id: options.ownerId ? null : (options.documentId ?? ('document_id' in payload ? payload.document_id : null)),
    parent_id: options.parentId ?? null,
    owner_id: options.ownerId ?? null,
    dedupe_key: options.dedupeKey ?? null,
    max_attempts: options.maxAttempts ?? kinds[kind].maxAttempts,
    run_at: options.runAt ?? null,
    delay_ms: options.delayMs ?? 0,
  }))
  // DO UPDATE and not DO NOTHING: it locks the pending row, so that no worker starts the job before this transaction commits. Rows are inserted
  // in the given order, which prevents deadlocks between transactions with the same keys.
  const { rows } = await sql<{ id: string }>`${prepared}
    insert into jobs_live as jobs (kind, queue, payload, priority, document_id, parent_id, owner_id, dedupe_key, max_attempts, run_at)
    select kind, queue, payload, priority, document_id, parent_id, coalesce(w.owner_id, d.owner_id, ${nilId}::uuid),
      dedupe_key, max_attempts, coalesce(run_at, now() + delay_ms * interval '1 ms')
    from rows from (jsonb_to_recordset(${JSON.stringify(jobs)}::jsonb) as (kind text, queue text, payload jsonb, priority smallint,
      document_id uuid, about_id uuid, parent_id uuid, owner_id uuid, dedupe_key text, max_attempts integer, run_at timestamptz, delay_ms float8)) with ordinality as
      w (kind, queue, payload, priority, document_id, about_id, parent_id, owner_id, dedupe_key, max_attempts, run_at, delay_ms, nth)
    left join lateral (select owner_id from documents where id = w.about_id limit 1) d on true
    order by nth
    on conflict (dedupe_key) where status = 'pending' do update set run_at = least(jobs.run_at, excluded.run_at)
    returning id`.execute(trx)
  return rows.map(({ id }) => id)
}

/**
 * Moves unfinished jobs that satisfy `which` to the finished jobs, with `changes` to the row `job`. Deletes and inserts them, because an update that
 * moves a row to another partition makes concurrent updates fail. Locks them by id, which prevents deadlocks.
 */
export const moveFinished = (which: RawBuilder<unknown>, changes: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  with unfinished as (select id from jobs_live as job where ${which} order by id for update),
    moved as (delete from jobs_live as job using unfinished where job.id = unfinished.id returning job)
  insert into jobs select finished.* from moved
  cross join jsonb_populate_record(job, jsonb_build_object('lease_until', null, 'finished_at', now()) || ${changes}) finished`

/** Cancels pending and running jobs with their helpers. Workers are notified at commit. Returns the ids that were pending or running. */
export async function cancel(trx: Trx, ids: readonly string[]): Promise<string[]> {
  if (ids.length === 0) return []
  const { rows } = await sql<{ id: string; parent_id: string | null }>`
    ${moveFinished(
      sql`(id = any(${ids}) or parent_id = any(${ids}))`,
      sql`jsonb_build_object('status', 'cancelled', 'fence', (job).fence + 1)`,
    )} returning id, parent_id`.execute(trx)
  await sql`select pg_notify('dms_jobs', 'cancel:' || id) from unnest(${rows.map(({ id }) => id)}::text[]) id`.execute(trx)
  const requested = new Set(ids)
  return rows.map(({ id }) => id).filter((id) => requested.has(id))
}

/** Cancels all pending and running jobs of documents. */
export async function cancelByDocument(trx: Trx, documentIds: readonly string[]): Promise<void> {
  const { rows } = await sql<{ id: string }>`
    select id from jobs where document_id = any(${documentIds}) and status in ('pending', 'processing')`.execute(trx)
  await cancel(
    trx,
    rows.map(({ id }) => id),
  )
}

/**
 * Deletes pending index jobs of documents. The caller deletes the documents and queues index jobs at the end. Leaves jobs that another transaction has
 * locked, which prevents deadlocks.
 */
export async function deleteIndexJobs(trx: Trx, documentIds: readonly string[]): Promise<void> {
  await sql`
    delete from jobs_live where id in (
      select id from jobs_live where kind = 'index' and status = 'pending' and (payload->>'document_id')::uuid = any(${documentIds}::uuid[])
      for update skip locked)`.execute(trx)
}

/** Moves pending jobs to another owner. */
export async function transferPending(trx: Trx, from: string, to: string): Promise<void> {
  await trx.updateTable('jobs').set({ owner_id: to }).where('owner_id', '=', from).where('status', '=', 'pending').execute()
}

/** Changes the priority of a pending job. Throws CONFLICT when it is not pending. */
export async function setPriority(db: Db, id: string, priority: Priority): Promise<void> {
  const { numUpdatedRows } = await db
    .updateTable('jobs')
    .set({ priority: priorities[priority] })
    .where('id', '=', id)
    .where('status', '=', 'pending')
    .executeTakeFirst()
  if (numUpdatedRows === 1n) return
  const job = await db.selectFrom('jobs').select('status').where('id', '=', id).executeTakeFirst()
  throw new AppError('CONFLICT', { ...job }, 'The job no longer waits.')
}

/** The key in `instance` that exists while OCR is paused. */
export const ocrPausedKey = 'ocr_paused'

/** Returns whether OCR is paused for all workers. */
export const isOcrPaused = async (db: Db): Promise<boolean> =>
  (await db.selectFrom('instance').select('key').where('key', '=', ocrPausedKey).executeTakeFirst()) !== undefined

/** Pauses OCR: after the commit no worker starts an OCR job. Running jobs continue. */
export async function pauseOcr(trx: Trx): Promise<void> {
  await trx
    .insertInto('instance')
    .values({ key: ocrPausedKey, value: 'yes' })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** Resumes OCR and wakes the workers. */
export async function resumeOcr(trx: Trx): Promise<void> {
  await trx.deleteFrom('instance').where('key', '=', ocrPausedKey).execute()
  await sql`select pg_notify('dms_jobs', 'ready')`.execute(trx)
}

/** Returns the name of the nearest priority. */
export const priorityName = (number: number): Priority =>
  (Object.entries(priorities) as [Priority, number][]).reduce((best, entry) =>
    Math.abs(entry[1] - number) < Math.abs(best[1] - number) ? entry : best,
  )[0]
