/** The places that a user's connections take, counted over all server processes. A place lives as long as its server does. */
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Db } from '../../db/pool.ts'
import { heartbeatTimeoutMs } from '../server-heartbeat.ts'

/** Takes a place under an id of your choice; false when the user has no free one. Throws where the server's own row is gone. */
export function takeSlot({ db, config }: App, id: string, userId: string, serverId: string): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    // One after the other for each user: two at once cannot both have the last place.
    await sql`select pg_advisory_xact_lock(hashtextextended(${`live:${userId}`}, 0))`.execute(trx)
    const { rows } = await sql`
      insert into live_places (id, user_id, server_id)
      select ${id}, ${userId}, ${serverId}
      where (select count(*) from live_places join servers on servers.id = server_id
        where user_id = ${userId} and (server_id = ${serverId} or seen_at > now() - ${heartbeatTimeoutMs} * interval '1 ms'))
        < ${config.limits.ws_connections_per_user}
      returning id`.execute(trx)
    return rows.length > 0
  })
}

/** Gives a place back; without effect when it was never taken. */
export async function releaseSlot(db: Db, id: string): Promise<void> {
  await db.deleteFrom('live_places').where('id', '=', id).execute()
}

/** Gives back all places of a server but these, and those of this very moment: what could not be given back at its time. */
export async function releaseOthers(db: Db, serverId: string, ids: readonly string[]): Promise<void> {
  await sql`delete from live_places where server_id = ${serverId} and not id = any(${ids}::uuid[])
    and taken_at < now() - interval '10 seconds'`.execute(db)
}
