/** The queue: jobs are rows, so enqueueing rides the transaction of what needs the work. Who works on them is in claims.ts. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Db, Trx } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import { AppError } from '../errors.ts'

export interface Payloads {
  /** read a document, with OCR */
  ocr: { language: string }
  /** read what the document itself carries */
  extract: { language: string }
  /** help a long document along: its pages, one after the other */
  pages: { language: string }
  /** bring the search index up to date with a document, or with its absence */
  index: { document_id: string }
  /** make the index whole where documents are missing in it; `anew`: in any case */
  reindex: { anew?: boolean }
  /** send a user the link that confirms the e-mail address */
  verify_email: { user_id: string }
  /** remove stored bytes that no document has any more; `address`: of an upload that perhaps was never committed */
  purge: { sha256: string; address?: string }
  /** take in what is new at a source; `full`: look at every file again */
  sync: { source_id: string; full: boolean }
}

export type Kind = keyof Payloads
export type Queue = 'ocr' | 'sync' | 'index' | 'maintenance'

/** Enough for a week of tries: an index or a disk that is out of reach is caught up with once it is back. */
const manyAttempts = 1000

/** `kept`: finished jobs stay, as history and for statistics. `tries`: unless told otherwise. */
export const kinds = {
  ocr: { queue: 'ocr', keepsFinished: true, maxAttempts: 3 },
  extract: { queue: 'ocr', keepsFinished: true, maxAttempts: 3 },
  pages: { queue: 'ocr', keepsFinished: false, maxAttempts: 1 },
  index: { queue: 'index', keepsFinished: false, maxAttempts: manyAttempts },
  reindex: { queue: 'index', keepsFinished: false, maxAttempts: manyAttempts },
  verify_email: { queue: 'maintenance', keepsFinished: false, maxAttempts: 20 },
  purge: { queue: 'maintenance', keepsFinished: false, maxAttempts: manyAttempts },
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
  /** whether another try could end better */
  isRetryable: boolean
}

/** What the log says of a job that is done. */
export type LogFields = Readonly<Record<string, string | number>>

/** What a kind of job does. */
export interface Handler<K extends Kind> {
  /** The work. What it returns runs in the transaction that finishes the job, both or neither, and may tell what the log shall say of it. */
  run(app: App, job: Job<K>, signal: AbortSignal): Promise<undefined | ((trx: Trx) => Promise<void> | Promise<LogFields>)>
  /** What else is true once the job failed: it waits for another try, or (`final`) was given up. Same transaction. */
  failed?(app: App, trx: Trx, job: Job<K>, problem: JobProblem, final: boolean): Promise<void>
  /** What else is true once the job was given back without a try being counted. Same transaction. */
  released?(app: App, trx: Trx, job: Job<K>): Promise<void>
}

/** The owner of jobs that are nobody's. */
export const noOwner = '00000000-0000-0000-0000-000000000000'

export interface EnqueueOptions {
  priority?: Priority
  documentId?: string
  parentId?: string
  /** whose turn it takes; default: the owner of the document, else nobody */
  ownerId?: string
  /** a waiting job with the same key is enough: no second one is made */
  dedupeKey?: string
  runAt?: Date
  maxAttempts?: number
}

/** Adds a job; returns its id (of the waiting one where `dedupe` found it). */
export async function enqueue<K extends Kind>(trx: Trx, kind: K, payload: Payloads[K], options: EnqueueOptions = {}): Promise<string> {
  const [id = ''] = await enqueueMany(trx, kind, [{ payload, ...options }])
  return id
}

/** The same for many at once, no two of which have the same `dedupe`; their ids, in no promised order. */
export async function enqueueMany<K extends Kind>(
  trx: Trx,
  kind: K,
  wanted: readonly (EnqueueOptions & { payload: Payloads[K] })[],
): Promise<string[]> {
  if (wanted.length === 0) return []
  const jobs = wanted.map(({ payload, priority = 'normal', ...options }) => ({
    payload,
    priority: priorities[priority],
    document_id: options.documentId ?? null,
    /** whose owner it belongs to */
    about_id: options.documentId ?? ('document_id' in payload ? payload.document_id : null),
    parent_id: options.parentId ?? null,
    owner_id: options.ownerId ?? null,
    dedupe_key: options.dedupeKey ?? null,
    max_attempts: options.maxAttempts ?? kinds[kind].maxAttempts,
    run_at: options.runAt ?? null,
  }))
  // DO UPDATE rather than DO NOTHING: it locks the waiting row, so no worker starts it before what we commit is there to be read. In the order
  // that was given: two who insert the same keys must not wait for each other.
  const { rows } = await sql<{ id: string }>`
    insert into jobs (kind, queue, payload, priority, document_id, parent_id, owner_id, dedupe_key, max_attempts, run_at)
    select ${kind}, ${kinds[kind].queue}, payload, priority, document_id, parent_id, coalesce(w.owner_id, d.owner_id, ${noOwner}::uuid),
      dedupe_key, max_attempts, coalesce(run_at, now())
    from rows from (jsonb_to_recordset(${JSON.stringify(jobs)}::jsonb) as (payload jsonb, priority smallint, document_id uuid, about_id uuid,
      parent_id uuid, owner_id uuid, dedupe_key text, max_attempts integer, run_at timestamptz)) with ordinality as
      w (payload, priority, document_id, about_id, parent_id, owner_id, dedupe_key, max_attempts, run_at, nth)
    left join lateral (select owner_id from documents where id = w.about_id limit 1) d on true
    order by nth
    on conflict (dedupe_key) where status = 'pending' do update set run_at = least(jobs.run_at, excluded.run_at)
    returning id`.execute(trx)
  return rows.map(({ id }) => id)
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

/** Cancels whatever waits or runs for documents. */
export async function cancelByDocument(trx: Trx, ...documentIds: string[]): Promise<void> {
  const live = await trx
    .selectFrom('jobs')
    .select('id')
    .where('document_id', 'in', documentIds)
    .where('status', 'in', ['pending', 'processing'])
    .execute()
  await cancel(
    trx,
    live.map(({ id }) => id),
  )
}

/** Waiting jobs take another owner's turns, as their documents do. */
export async function transferPending(trx: Trx, from: string, to: string): Promise<void> {
  await trx.updateTable('jobs').set({ owner_id: to }).where('owner_id', '=', from).where('status', '=', 'pending').execute()
}

/** Moves a waiting job forward or back; throws CONFLICT when it no longer waits. */
export async function setPriority(db: Db, id: string, priority: Priority): Promise<void> {
  const { numUpdatedRows } = await db
    .updateTable('jobs')
    .set({ priority: priorities[priority] })
    .where('id', '=', id)
    .where('status', '=', 'pending')
    .executeTakeFirst()
  if (numUpdatedRows !== 1n) throw new AppError('CONFLICT', { status: 'not pending' }, 'The job no longer waits.')
}

/** The key in `instance` that is there while OCR is paused. */
export const ocrPausedKey = 'ocr_paused'

/** Whether documents wait, whatever workers there are, until OCR is resumed. */
export const isOcrPaused = async (db: Db): Promise<boolean> =>
  (await db.selectFrom('instance').select('key').where('key', '=', ocrPausedKey).executeTakeFirst()) !== undefined

/** From the commit on no OCR job is begun by any worker; what runs goes on to its end. */
export async function pauseOcr(trx: Trx): Promise<void> {
  await trx
    .insertInto('instance')
    .values({ key: ocrPausedKey, value: 'yes' })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** The end of that. */
export async function resumeOcr(trx: Trx): Promise<void> {
  await trx.deleteFrom('instance').where('key', '=', ocrPausedKey).execute()
  await sql`select pg_notify('dms_jobs', 'ready')`.execute(trx)
}

/** The name of a priority number, for answers. */
export const priorityName = (number: number): Priority =>
  (Object.entries(priorities) as [Priority, number][]).reduce((best, entry) =>
    Math.abs(entry[1] - number) < Math.abs(best[1] - number) ? entry : best,
  )[0]
