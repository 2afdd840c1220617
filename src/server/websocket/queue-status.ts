/** Publishes counts of the OCR queue to subscribers when they change, at most once per second over all servers. */
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Trx } from '../../db/pool.ts'
import { publishMany } from '../../events.ts'

export interface QueueWatch {
  /** Schedules a count, because the queue may have changed. */
  onChange(): void
  close(): Promise<void>
}

interface Counts {
  user_id: string | null
  pending: number
  processing: number
  completed: number
}

/** Minimum time between two counts, over all servers. A slow count of a long queue is followed by a pause of ten times its duration. */
const intervalMs = 1000

/** Watches the queue. Counts only while there are subscribers. */
export function watchQueue({ db, log }: App, hasSubscribers: () => boolean): QueueWatch {
  let timer: NodeJS.Timeout | null = null
  let reporting = Promise.resolve()
  let pauseEndsAt = 0
  let isClosed = false

  const reportChange = async () => {
    const started = performance.now()
    timer = null
    const isCounted = await db.transaction().execute(publishCounts)
    pauseEndsAt = performance.now() + Math.max(intervalMs, 10 * (performance.now() - started))
    // Another server has just counted, perhaps before the change; or a user was left out.
    if (!isCounted) onChange()
  }

  const onChange = () => {
    if (timer || isClosed || !hasSubscribers()) return
    timer = setTimeout(
      () => {
        reporting = reportChange().catch((error) => log.warn({ err: (error as Error).message }, 'cannot count the OCR queue'))
      },
      Math.max(0, pauseEndsAt - performance.now()),
    )
  }

  return {
    onChange,
    async close() {
      isClosed = true
      if (timer) clearTimeout(timer)
      await reporting
    },
  }
}

/**
 * Publishes changed counts, in total for admins and for each user. Returns false if the last count was too recent, or if it left out a user whose row is
 * locked: the deletion of a user locks the user before the counts of the user.
 */
async function publishCounts(trx: Trx): Promise<boolean> {
  const { rows: due } = await sql`
    update queue_counts set at = clock_timestamp()
    where key = 'all' and at not between clock_timestamp() - ${intervalMs - 50} * interval '1 ms' and clock_timestamp() returning key`.execute(
    trx,
  )
  if (due.length === 0) return false
  const { rows } = await sql<Counts & { is_stored: boolean }>`
    with counted as (
      select coalesce(documents.owner_id::text, 'all') as key, documents.owner_id as user_id, count(*) filter (where jobs.status = 'pending') as pending,
        count(*) filter (where jobs.status = 'processing') as processing, count(*) filter (where jobs.status = 'completed') as completed
      from (
        select * from jobs where status in ('pending', 'processing')
        union all select * from jobs where status = 'completed' and finished_at >= date_trunc('day', now(), 'UTC')
      ) jobs join live_documents documents on documents.id = jobs.document_id
      where jobs.kind = 'ocr'
      group by grouping sets ((), (documents.owner_id))
    ), changed as (
      select key, coalesce(counted.user_id, previous.user_id) as user_id, coalesce(counted.pending, 0) as pending,
        coalesce(counted.processing, 0) as processing, coalesce(counted.completed, 0) as completed
      from counted full join queue_counts previous using (key)
      where (coalesce(counted.pending, 0), coalesce(counted.processing, 0), coalesce(counted.completed, 0))
        is distinct from (previous.pending, previous.processing, previous.completed)
    ), unlocked as materialized (
      select id from users where id in (select user_id from changed) for key share skip locked
    ), stored as (
      insert into queue_counts (key, user_id, pending, processing, completed)
      select * from changed where user_id is null or user_id in (select id from unlocked)
      on conflict (key) do update set pending = excluded.pending, processing = excluded.processing, completed = excluded.completed
      returning key
    )
    select user_id, pending, processing, completed, key in (select key from stored) as is_stored from changed`.execute(trx)
  await publishMany(
    trx,
    'queue_status',
    rows.filter(({ is_stored }) => is_stored).map(({ user_id, is_stored: _, ...data }) => ({ userId: user_id, data })),
  )
  return rows.every(({ is_stored }) => is_stored)
}
