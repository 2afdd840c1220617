/** The events that clients can subscribe to, and the one way to send them. */
import { sql } from 'kysely'
import type { Db, Trx } from './db/pool.ts'

export interface Events {
  document_created: { document_id: string; title: string; source: string | null }
  document_updated: { document_id: string; changes: string[] }
  notification: { id: string; type: string; title: string; message: string; data: Record<string, unknown> }
  ocr_progress: { document_id: string; progress: number; status: string }
  /** `completed`: since midnight UTC */
  queue_status: { pending: number; processing: number; completed: number }
  sync_progress: { source_id: string; processed: number; total: number; current_file: string | null }
}

export type EventType = keyof Events

/** What servers listen to: `event` (there are new ones), `queue` (the OCR queue changed), `session:USER` (that user's rights changed). */
export const channel = 'dms_live'

/** How long events are kept for clients that come back and ask what they missed, in milliseconds. */
export const retentionMs = 10 * 60_000

/** Sends an event to the owner (null: to nobody) and to all admins with your transaction: it cannot outrun the row it speaks of. */
export function publish<Type extends EventType>(trx: Trx, type: Type, userId: string | null, data: Events[Type]): Promise<void> {
  return publishMany(trx, type, [{ userId, data }])
}

/** The same for many at once. The NOTIFY only says that there are some: it carries 8,000 bytes at most. */
export async function publishMany<Type extends EventType>(
  trx: Trx,
  type: Type,
  events: readonly { userId: string | null; data: Events[Type] }[],
): Promise<void> {
  if (events.length === 0) return
  await sql`
    with sent as (
      insert into events (type, user_id, data)
      select ${type}, "userId", data from jsonb_to_recordset(${JSON.stringify(events)}) as event ("userId" uuid, data jsonb)
    )
    select pg_notify(${channel}, 'event')`.execute(trx)
}

/** Removes events that nobody can ask for any more. */
export async function deleteExpiredEvents(db: Db): Promise<void> {
  await sql`delete from events where at < now() - ${retentionMs} * interval '1 ms'`.execute(db)
}
