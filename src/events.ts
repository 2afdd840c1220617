/** Events for clients, published as part of a transaction. */
import { sql } from 'kysely'
import type { Db, Trx } from './db/pool.ts'
import { prepared } from './db/pooled.ts'
import { slicesOf } from './slices.ts'

export interface Events {
  document_created: { document_id: string; title: string; source: string | null }
  document_updated: { document_id: string; changes: string[] }
  /** moved to the trash */
  document_trashed: { document_id: string }
  /** moved out of the trash */
  document_restored: { document_id: string }
  /** destroyed */
  document_purged: { document_id: string }
  version_added: { document_id: string; number: number; origin: string }
  rendition_updated: { document_id: string; number: number; kind: string; state: string }
  notification: { id: string; type: string; title: string; message: string; data: Record<string, unknown> }
  ocr_progress: { document_id: string; progress: number; status: string }
  /** `completed`: since midnight UTC */
  queue_status: { pending: number; processing: number; completed: number }
  sync_progress: { source_id: string; processed: number; total: number; current_file: string | null }
}

export type EventType = keyof Events

/** The NOTIFY channel of servers: `event` (new events), `queue` (the OCR queue changed), `session:USER` (a user's rights changed). */
export const channel = 'dms_live'

/** Events of a statement, which are one JSON value. */
const batchSize = 1000

/** Retention of events. Clients that reconnect request the events that they missed. */
export const retentionMs = 10 * 60_000

/** Publishes an event to its owner (null: none) and to all admins when the transaction commits. */
export function publish<Type extends EventType>(trx: Trx, type: Type, userId: string | null, data: Events[Type]): Promise<void> {
  return publishMany(trx, type, [{ userId, data }])
}

/** Publishes many events of one type. The NOTIFY has no payload, because payloads are limited to 8,000 bytes. */
export async function publishMany<Type extends EventType>(
  trx: Trx,
  type: Type,
  events: readonly { userId: string | null; data: Events[Type] }[],
): Promise<void> {
  for (const some of slicesOf(events, batchSize))
    await sql`${prepared}
    with sent as (
        insert into events (type, user_id, data)
        select ${type}, "userId", data from jsonb_to_recordset(${JSON.stringify(some)}) as event ("userId" uuid, data jsonb)
      )
      select pg_notify(${channel}, 'event')`.execute(trx)
}

/** Truncates the partitions whose events are all past their retention. Events from the future, of a clock that was ahead, begin theirs now. */
export async function truncateExpiredEvents(db: Db): Promise<void> {
  await sql`update events set at = now() where at > now() + ${retentionMs} * interval '1 ms'`.execute(db)
  await sql`select dms_expire_events(${retentionMs} * interval '1 ms')`.execute(db)
}
