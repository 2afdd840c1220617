/** LISTEN on its own connection, which reconnects by itself. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import type { Log } from '../log/log.ts'
import type { Database } from './pool.ts'

export interface Listener {
  close(): Promise<void>
}

const reconnectDelayMs = 500

/**
 * Calls `onNotification` with the payload of every NOTIFY on `channel`, and `onConnect` after each (re)connection. Notifications sent while
 * disconnected are lost: `onConnect` has to check for changes.
 */
export function listen(
  database: Pick<Database, 'connect'>,
  log: Log,
  channel: string,
  onNotification: (payload: string) => void,
  onConnect: () => void,
): Listener {
  const closing = new AbortController()
  const { signal } = closing
  let client: pg.Client | undefined

  const keepListening = async () => {
    while (!signal.aborted) {
      try {
        client = await database.connect(`dms listen ${channel}`)
        // close() was called while connecting, and had no client to end.
        if (signal.aborted) return await client.end()
        const lost = new Promise<void>((resolve) => client?.once('end', resolve))
        client.on('notification', ({ payload }) => onNotification(payload ?? ''))
        await client.query(`listen ${channel}`)
        onConnect()
        await lost
      } catch (error) {
        log.debug({ err: (error as Error).message, channel }, 'listening failed')
      }
      await sleep(reconnectDelayMs, undefined, { signal }).catch(() => {})
    }
  }
  const done = keepListening()
  return {
    async close() {
      closing.abort()
      await client?.end().catch(() => {})
      await done
    },
  }
}
