/** Documents whose last change is not yet in the search index. */
import { sql } from 'kysely'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'

/** Returns the ids whose indexing is queued or running, or has failed and is retried. Leaves out ids that the actor cannot see. */
export async function findPending(app: App, actor: Actor, ids: readonly string[]): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`
    select id from live_documents documents where id = any(${ids}::uuid[]) and (${isAdmin(actor)} or owner_id = ${actor.id}) and (
      exists (select from jobs where dedupe_key = 'index:' || documents.id and status = 'pending')
      or id in (select (payload->>'document_id')::uuid from jobs where kind = 'index' and status = 'processing')
      -- A job that returned to the queue has no key.
      or id in (select (payload->>'document_id')::uuid from jobs where kind = 'index' and status = 'pending' and dedupe_key is null))`.execute(
    app.db,
  )
  return rows.map(({ id }) => id)
}
