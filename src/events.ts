/** The events that clients can subscribe to, and the one way to send them. */
import { sql } from 'kysely'
import type { Trx } from './db/db.ts'

export interface Events {
  document_created: { document_id: string; title: string; source: string | null }
  document_updated: { document_id: string; changes: string[] }
  notification: { id: string; type: string; title: string; message: string; data: Record<string, unknown> }
  ocr_progress: { document_id: string; progress: number; status: string }
}

export const channel = 'dms_events'

/** Sends an event to the owner and to all admins with your transaction: it cannot outrun the row it speaks of. The NOTIFY carries the number only (8,000 bytes at most). */
export async function publish<Type extends keyof Events>(trx: Trx, type: Type, userId: string, data: Events[Type]): Promise<void> {
  await sql`
    with event as (insert into events (type, user_id, data) values (${type}, ${userId}, ${JSON.stringify(data)}) returning seq)
    select pg_notify(${channel}, seq::text) from event`.execute(trx)
}
