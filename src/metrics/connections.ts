/** What server processes have open, as they say themselves. */
import { sql } from 'kysely'
import type { Db } from '../db/db.ts'

/** Seconds; a server that has said nothing for longer is dead. */
const silence = 60

/** Open connections of all live server processes, and how many processes those are. */
export async function openConnections(db: Db): Promise<{ servers: number; http: number; ws: number }> {
  const { rows } = await sql<{ servers: number; http: number; ws: number }>`
    select count(*) as servers, coalesce(sum(http_connections), 0) as http, coalesce(sum(ws_connections), 0) as ws
    from servers where seen_at > now() - ${silence} * interval '1 s'`.execute(db)
  return rows[0] as { servers: number; http: number; ws: number }
}
