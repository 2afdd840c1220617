/** The events of all processes in the one order that everybody sees them in, as they come and as they were. */
import { sql } from 'kysely'
import { type Actor, isAdmin } from '../../actor.ts'
import type { App } from '../../app.ts'
import { type EventType, retentionMs } from '../../events.ts'

export interface LiveEvent {
  /** its place in the order of commits: the `seq` of clients */
  position: number
  type: EventType
  user_id: string | null
  data: Record<string, unknown>
  at: Date
}

export interface Feed {
  /** the position of the last event that was handed out */
  readonly last: number
  /** Begins with what comes from now on; without effect while it runs. */
  start(): Promise<void>
  /** Hands out nothing any more, and asks nothing of the database. */
  stop(): void
  /** Looks for new events. Once it resolves, all that were committed when it was called have been handed out. */
  poll(): Promise<void>
  /** Earlier events of these types that concern the actor, after `since` and up to `until`, in order. */
  loadMissed(actor: Actor, types: readonly EventType[], since: number, until: number): AsyncIterable<LiveEvent>
}

const pageSize = 500
const columns = sql`position, type, user_id, data, at`

/** Whether an event is for this user. Notifications are personal also for admins; the queue is counted for each user, and as a whole for admins. */
export function isVisibleTo({ type, user_id }: LiveEvent, actor: Actor): boolean {
  if (type === 'notification') return user_id === actor.id
  if (type === 'queue_status') return user_id === (isAdmin(actor) ? null : actor.id)
  return isAdmin(actor) || user_id === actor.id
}

/** Opens the feed; `hand` gets each event once, in order. */
export function openFeed({ db }: App, onEvent: (event: LiveEvent) => void): Feed {
  let last = 0
  let isOn = false
  let polling: Promise<void> | null = null
  let next: Promise<void> | null = null

  const pollOnce = async () => {
    await sql`select dms_order_events()`.execute(db)
    while (isOn) {
      const { rows } = await sql<LiveEvent>`
        select ${columns} from events where position > ${last} order by position limit ${pageSize}`.execute(db)
      for (const event of rows) {
        // A feed that was started anew meanwhile is past these.
        if (event.position <= last) continue
        last = event.position
        onEvent(event)
      }
      const isLast = rows.length < pageSize
      // The result of a query may be in the old generation already, where it would keep these until the next full collection (F25).
      rows.length = 0
      if (isLast) return
    }
  }

  /** One at a time; whoever asks during one waits for the next, which sees what this one may have missed. */
  const look = (): Promise<void> => {
    if (!isOn) return Promise.resolve()
    if (!polling) {
      polling = pollOnce().finally(() => {
        polling = null
      })
      return polling
    }
    next ??= polling
      .catch(() => {})
      .then(() => {
        next = null
        return look()
      })
    return next
  }

  let starting: Promise<void> | null = null
  const startAtEnd = async () => {
    await sql`select dms_order_events()`.execute(db)
    const { rows } = await sql<{ last: number | null }>`select max(position) as last from events`.execute(db)
    last = Math.max(last, rows[0]?.last ?? 0)
    isOn = true
  }

  return {
    get last() {
      return last
    },
    async start() {
      if (isOn) return
      starting ??= startAtEnd().finally(() => {
        starting = null
      })
      await starting
    },
    stop() {
      isOn = false
    },
    poll: look,
    async *loadMissed(actor, types, since, until) {
      for (let after = since; ; ) {
        const { rows } = await sql<LiveEvent>`
          select ${columns} from events
          where position > ${after} and position <= ${until} and at > now() - ${retentionMs} * interval '1 ms' and type = any(${types})
            and (${isAdmin(actor)} or user_id = ${actor.id})
          order by position limit ${pageSize}`.execute(db)
        yield* rows.filter((event) => isVisibleTo(event, actor))
        if (rows.length < pageSize) return
        after = rows.at(-1)?.position ?? until
      }
    },
  }
}
