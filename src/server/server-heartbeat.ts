/** Heartbeat of a server process: its row in `servers`, on which its connection slots depend. */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { isLiveServer, serverTimeoutSeconds } from '../db/clock.ts'
import type { Db, Trx } from '../db/pool.ts'
import { ConfigError } from '../errors.ts'
import { nilId } from '../id.ts'

const heartbeatIntervalMs = 20_000
/** Key in `instance` of the fingerprint of the JWT secret. */
const fingerprintKey = 'jwt_secret_fingerprint'
/** Maximum time until changed numbers of connections are reported. */
const changeIntervalMs = 1000

export interface OpenConnections {
  http: number
  ws: number
}

export interface ServerHeartbeat {
  /** Id of this server process. */
  readonly id: string
  /** Sends a heartbeat. Returns true if other servers had removed the row, and its slots with it. */
  sendHeartbeat(): Promise<boolean>
  /** Stops the heartbeat and removes the row. */
  close(): Promise<void>
}

/**
 * Sends the first heartbeat and starts the timer. `onHeartbeat` runs after each later one. Throws ConfigError if a live server has another
 * JWT secret, and if the database is unavailable.
 */
export async function startServerHeartbeat(
  { db, log, tokens }: App,
  count: () => Promise<OpenConnections>,
  onHeartbeat: (heartbeat: ServerHeartbeat, wasLost: boolean) => Promise<void>,
): Promise<ServerHeartbeat> {
  const id = randomUUID()
  let isRegistered = false
  let reported: OpenConnections = { http: 0, ws: 0 }
  const upsert = async (executor: Db | Trx): Promise<boolean> => {
    const { http, ws } = await count()
    await sql`delete from servers where not (${isLiveServer}) and id <> ${id}`.execute(executor)
    const { rows } = await sql<{ is_new: boolean }>`
      insert into servers (id, http_connections, ws_connections, started_at)
        values (${id}, ${http}, ${ws}, now() - ${process.uptime()} * interval '1 s')
      on conflict (id) do update set http_connections = ${http}, ws_connections = ${ws}, seen_at = now()
      returning xmax = 0 as is_new`.execute(executor)
    reported = { http, ws }
    return rows[0]?.is_new === true
  }
  /** Sends the first heartbeat. */
  const register = (): Promise<boolean> =>
    db.transaction().execute(async (trx) => {
      await claimSecret(trx, id, tokens.fingerprint())
      return upsert(trx)
    })
  const heartbeat: ServerHeartbeat = {
    id,
    async sendHeartbeat() {
      const isNew = await (isRegistered ? upsert(db) : register())
      const wasLost = isRegistered && isNew
      isRegistered = true
      return wasLost
    },
    async close() {
      for (const timer of timers) clearInterval(timer)
      await round
      await db.deleteFrom('servers').where('id', '=', id).execute()
    },
  }
  let round: Promise<void> = Promise.resolve()
  const reportChange = async (): Promise<void> => {
    const { http, ws } = await count()
    if (http === reported.http && ws === reported.ws) return
    reported = { http, ws }
    await db.updateTable('servers').set({ http_connections: http, ws_connections: ws }).where('id', '=', id).execute()
  }
  const every = (intervalMs: number, run: () => Promise<void>) =>
    setInterval(() => {
      round = round.then(run).catch((error) => log.warn({ err: (error as Error).message }, 'cannot send the heartbeat of this server'))
    }, intervalMs)
  const timers = [
    every(heartbeatIntervalMs, async () => onHeartbeat(heartbeat, await heartbeat.sendHeartbeat())),
    every(changeIntervalMs, reportChange),
  ]
  try {
    await heartbeat.sendHeartbeat()
  } catch (error) {
    for (const timer of timers) clearInterval(timer)
    throw error
  }
  return heartbeat
}

/** Throws ConfigError if a live server has another JWT secret: each would refuse the sessions of the other. */
export const checkSecret = ({ db, tokens }: App): Promise<void> =>
  db.transaction().execute((trx) => claimSecret(trx, nilId, tokens.fingerprint()))

/** Stores the fingerprint of the JWT secret. The lock makes the second of two servers with different secrets see the first. */
async function claimSecret(trx: Trx, ownId: string, fingerprint: string): Promise<void> {
  await sql`select pg_advisory_xact_lock(hashtextextended('servers', 0))`.execute(trx)
  const stored = await trx.selectFrom('instance').select('value').where('key', '=', fingerprintKey).executeTakeFirst()
  if (stored?.value === fingerprint) return
  const { rows: others } = await sql`
    select from servers where id <> ${ownId} and ${isLiveServer} limit 1`.execute(trx)
  if (stored && others.length > 0)
    throw new ConfigError([
      `auth.jwt_secret differs from that of a server that runs on this database. Set JWT_SECRET to one value on all servers. To change it, stop all of them; a killed one counts as running for ${serverTimeoutSeconds} s`,
    ])
  await trx
    .insertInto('instance')
    .values({ key: fingerprintKey, value: fingerprint })
    .onConflict((conflict) => conflict.column('key').doUpdateSet({ value: fingerprint }))
    .execute()
}
