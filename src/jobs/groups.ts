/** Job groups: small jobs of one owner that one statement leases and one transaction completes. */
import { type RawBuilder, sql } from 'kysely'
import type { Db, Trx } from '../db/pool.ts'
import { msFromNow } from './leases.ts'
import { type GroupLease, type Job, type Kind, moveFinished, ocrPausedKey } from './queue.ts'

/**
 * Leases pending jobs of the kind, priority and owner of a leased job, if their documents satisfy `isSmall`, a condition on `document`. Returns them
 * together with `job`, or nothing if its own document does not satisfy the condition. Leaves out repeated attempts and jobs whose worker died: a job
 * that kills its worker must not fail other jobs again.
 */
export async function leaseGroup<K extends Kind>(
  db: Db,
  job: Job<K>,
  isSmall: RawBuilder<boolean>,
  { worker, leaseMs, limit }: GroupLease,
): Promise<Job<K>[]> {
  if (job.attempts > 1 || job.losses > 0) return []
  const { rows: own } = await sql`select from documents document where id = ${job.document_id} and ${isSmall}`.execute(db)
  if (own.length === 0) return []
  const { rows } = await sql<Job<K>>`
    with next as materialized (
      select id, document_id from jobs
      where queue = ${job.queue} and status = 'pending' and priority = ${job.priority} and owner_id = ${job.owner_id} and kind = ${job.kind}
        and attempts = 0 and losses = 0 and run_at <= now() and not (kind = 'ocr' and exists (select from instance where key = ${ocrPausedKey}))
      order by run_at, id limit ${limit - 1} for update skip locked
    )
    update jobs set status = 'processing', attempts = 1, fence = fence + 1, worker = ${worker},
      lease_until = ${msFromNow(leaseMs)}, started_at = now(), error_code = null, error_message = null
    from next join documents document on document.id = next.document_id where jobs.id = next.id and ${isSmall} returning jobs.*`.execute(db)
  return [job, ...rows]
}

/** Marks jobs as completed, each with its number of pages. Leaves out jobs whose lease is lost. Returns the ids of the completed ones. */
export async function completeGroup(trx: Trx, done: readonly { job: Job; pages: number }[]): Promise<Set<string>> {
  const rows = sql`unnest(${done.map(({ job }) => job.id)}::uuid[], ${done.map(({ job }) => job.fence)}::bigint[],
    ${done.map(({ pages }) => pages)}::integer[]) as done (id, fence, pages)`
  const { rows: completed } = await sql<{ id: string }>`
    ${moveFinished(
      sql`(id, fence) in (select id, fence from ${rows}) and status = 'processing'`,
      sql`(select jsonb_build_object('status', 'completed', 'pages_done', pages, 'pages_total', pages) from ${rows} where id = (job).id)`,
    )} returning id`.execute(trx)
  return new Set(completed.map(({ id }) => id))
}
