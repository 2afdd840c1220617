/** What server processes have open, and since when they run, as they say themselves. */
import { sql } from 'kysely'
import type { Db } from '../db/pool.ts'

/** Seconds; a server that has said nothing for longer is dead. */
const silence = 60

export interface Servers {
  servers: number
  http: number
  ws: number
  /** of the one that has run longest, in seconds; 0 where none runs */
  uptime: number
}

/** Open connections of all live server processes, and how many processes those are. */
export async function openConnections(db: Db): Promise<Servers> {
  const { rows } = await sql<Servers>`
    select count(*) as servers, coalesce(sum(http_connections), 0) as http, coalesce(sum(ws_connections), 0) as ws,
      coalesce(floor(extract(epoch from now() - min(started_at))), 0)::int4 as uptime
    from servers where seen_at > now() - ${silence} * interval '1 s'`.execute(db)
  return rows[0] as Servers
}
