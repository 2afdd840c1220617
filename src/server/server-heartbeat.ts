/** Heartbeat of a server process: its row in `servers`, on which its connection slots depend. */
import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../app.ts'

const heartbeatIntervalMs = 20_000
/** Time without a heartbeat after which a server counts as dead. */
export const heartbeatTimeoutMs = 50_000
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

/** Sends the first heartbeat and starts the timer. `onHeartbeat` runs after each later one. Throws if the database is unavailable. */
export async function startServerHeartbeat(
  { db, log }: App,
  count: () => Promise<OpenConnections>,
  onHeartbeat: (heartbeat: ServerHeartbeat, wasLost: boolean) => Promise<void>,
): Promise<ServerHeartbeat> {
  const id = randomUUID()
  let isRegistered = false
  let reported: OpenConnections = { http: 0, ws: 0 }
  const heartbeat: ServerHeartbeat = {
    id,
    async sendHeartbeat() {
      const { http, ws } = await count()
      await sql`delete from servers where seen_at < now() - ${heartbeatTimeoutMs} * interval '1 ms' and id <> ${id}`.execute(db)
      const { rows } = await sql<{ is_new: boolean }>`
        insert into servers (id, http_connections, ws_connections, started_at)
          values (${id}, ${http}, ${ws}, now() - ${process.uptime()} * interval '1 s')
        on conflict (id) do update set http_connections = ${http}, ws_connections = ${ws}, seen_at = now()
        returning xmax = 0 as is_new`.execute(db)
      const wasLost = isRegistered && rows[0]?.is_new === true
      isRegistered = true
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
