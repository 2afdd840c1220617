/** This server process among all that share the database: a row that says it is alive, and what hangs on that. */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../app.ts'

/** Milliseconds between two signs of life, and the silence after which a server counts as dead. */
const heartbeatIntervalMs = 20_000
export const heartbeatTimeoutMs = 50_000
/** Milliseconds after which others know what was opened or closed here. */
const changeIntervalMs = 1000

export interface OpenConnections {
  http: number
  ws: number
}

export interface ServerHeartbeat {
  /** the server's, for as long as it runs */
  readonly id: string
  /** Says that it is alive, now. Returns whether others had given it up: then all that hung on the row is gone. */
  sendHeartbeat(): Promise<boolean>
  /** Says that it is gone. */
  close(): Promise<void>
}

/** Makes the server known to the others. `count` says what is open; `beaten` is called after each sign of life. Throws where the database is out of reach. */
export async function startServerHeartbeat(
  { db, log }: App,
  count: () => Promise<OpenConnections>,
  onHeartbeat: (presence: ServerHeartbeat, wasLost: boolean) => Promise<void>,
): Promise<ServerHeartbeat> {
  const id = randomUUID()
  let isKnown = false
  let reported: OpenConnections = { http: 0, ws: 0 }
  const presence: ServerHeartbeat = {
    id,
    async sendHeartbeat() {
      const { http, ws } = await count()
      await sql`delete from servers where seen_at < now() - ${heartbeatTimeoutMs} * interval '1 ms' and id <> ${id}`.execute(db)
      const { rows } = await sql<{ is_new: boolean }>`
        insert into servers (id, http_connections, ws_connections, started_at)
          values (${id}, ${http}, ${ws}, now() - ${process.uptime()} * interval '1 s')
        on conflict (id) do update set http_connections = ${http}, ws_connections = ${ws}, seen_at = now()
        returning xmax = 0 as is_new`.execute(db)
      const wasLost = isKnown && rows[0]?.is_new === true
      isKnown = true
      reported = { http, ws }
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
  const every = (milliseconds: number, what: () => Promise<void>) =>
    setInterval(() => {
      round = round.then(what).catch((error) => log.warn({ err: (error as Error).message }, 'could not say that this server is alive'))
    }, milliseconds)
  const timers = [
    every(heartbeatIntervalMs, async () => onHeartbeat(presence, await presence.sendHeartbeat())),
    every(changeIntervalMs, reportChange),
  ]
  try {
    await presence.sendHeartbeat()
  } catch (error) {
    for (const timer of timers) clearInterval(timer)
    throw error
  }
  return presence
}
