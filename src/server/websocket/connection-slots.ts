/** Connection slots of users, counted over all server processes. A slot ends with its server. */
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import { isLiveServer } from '../../db/clock.ts'
import type { Db } from '../../db/pool.ts'

/** Takes a slot under a new id. Returns false if the user has no free one. Throws a foreign key violation if the row of the server is gone. */
export function takeSlot({ db, config }: App, id: string, userId: string, serverId: string): Promise<boolean> {
  return db.transaction().execute(async (trx) => {
    // Serializes the connections of a user: two at once cannot both take the last slot.
    await sql`select pg_advisory_xact_lock(hashtextextended(${`live:${userId}`}, 0))`.execute(trx)
    const { rows } = await sql`
      insert into live_places (id, user_id, server_id)
      select ${id}, ${userId}, ${serverId}
      where (select count(*) from live_places join servers on servers.id = server_id
        where user_id = ${userId} and (server_id = ${serverId} or ${isLiveServer}))
        < ${config.limits.ws_connections_per_user}
      returning id`.execute(trx)
    return rows.length > 0
  })
}

/** Releases a slot. Has no effect if it was not taken. */
export async function releaseSlot(db: Db, id: string): Promise<void> {
  await db.deleteFrom('live_places').where('id', '=', id).execute()
}

/** Releases slots of a server whose release failed: all except `ids` and slots taken in the last ten seconds. */
export async function releaseOthers(db: Db, serverId: string, ids: readonly string[]): Promise<void> {
  await sql`delete from live_places where server_id = ${serverId} and not id = any(${ids}::uuid[])
    and taken_at < now() - interval '10 seconds'`.execute(db)
}
