/** Events of all processes in the order of their commits: new ones as they arrive, and earlier ones on request. */
import { sql } from 'kysely'
import { type Actor, isAdmin } from '../../actor.ts'
import type { App } from '../../app.ts'
import { openSemaphore, shareNextRun, shareRuns } from '../../concurrency.ts'
import { type EventType, retentionMs } from '../../events.ts'

export interface LiveEvent {
  /** Position in the order of commits, `seq` for clients. */
  position: number
  type: EventType
  user_id: string | null
  data: Record<string, unknown>
  at: Date
}

export interface Feed {
  /** Position of the last delivered event. */
  readonly last: number
  /** Starts with events from now on. Has no effect while it runs. */
  start(): Promise<void>
  /** Stops deliveries and queries. */
  stop(): void
  /** Delivers all events that were committed before the call. */
  poll(): Promise<void>
  /** Returns events of these types that the actor may see, after position `since` and up to `until`, in order. */
  loadMissed(actor: Actor, types: readonly EventType[], since: number, until: number): AsyncIterable<LiveEvent>
}

const pageSize = 500
/** Concurrent reads of earlier events, over all connections: sockets that subscribe again and again would take the connections of the database. */
const maxReads = 2
const columns = sql`position, type, user_id, data, at`

/** Returns whether a user may see an event. Admins see all events except notifications of others and queue counts of single users. */
export function isVisibleTo({ type, user_id }: LiveEvent, actor: Actor): boolean {
  if (type === 'notification') return user_id === actor.id
  if (type === 'queue_status') return user_id === (isAdmin(actor) ? null : actor.id)
  return isAdmin(actor) || user_id === actor.id
}

/** Opens the feed. `onEvent` gets each event once, in order, after `beforeDelivery` of its page. */
export function openFeed(
  { db }: App,
  onEvent: (event: LiveEvent) => void,
  beforeDelivery?: (events: readonly LiveEvent[]) => Promise<void>,
): Feed {
  const inSlot = openSemaphore(maxReads)
  let last = 0
  let isWanted = false
  let isRunning = false

  const poll = shareNextRun(async () => {
    if (!isRunning) return
    await sql`select dms_order_events()`.execute(db)
    while (isRunning) {
      const { rows } = await sql<LiveEvent>`
        select ${columns} from events where position > ${last} order by position limit ${pageSize}`.execute(db)
      if (rows.length > 0) await beforeDelivery?.(rows)
      for (const event of rows) {
        // A restarted feed is past these events.
        if (event.position <= last) continue
        last = event.position
        onEvent(event)
      }
      const isLast = rows.length < pageSize
      // The result may be in V8's old generation, where it would retain these events until a full collection (F25).
      rows.length = 0
      if (isLast) return
    }
  })

  const startAtEnd = shareRuns(async () => {
    await sql`select dms_order_events()`.execute(db)
    const { rows } = await sql<{ last: number | null }>`select max(position) as last from events`.execute(db)
    last = Math.max(last, rows[0]?.last ?? 0)
    // It may have been stopped meanwhile.
    isRunning = isWanted
  })

  return {
    get last() {
      return last
    },
    async start() {
      isWanted = true
      if (!isRunning) await startAtEnd()
    },
    stop() {
      isWanted = false
      isRunning = false
    },
    poll,
    async *loadMissed(actor, types, since, until) {
      for (let after = since; ; ) {
        const page = sql<LiveEvent>`
          select ${columns} from events
          where position > ${after} and position <= ${until} and at > now() - ${retentionMs} * interval '1 ms' and type = any(${types})
            and (${isAdmin(actor)} or user_id = ${actor.id})
          order by position limit ${pageSize}`
        const { rows } = await inSlot(() => page.execute(db))
        if (rows.length > 0) await beforeDelivery?.(rows)
        yield* rows.filter((event) => isVisibleTo(event, actor))
        if (rows.length < pageSize) return
        after = rows.at(-1)?.position ?? until
      }
    },
  }
}
