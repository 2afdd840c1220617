/** One WebSocket, from its opening to its end: who it belongs to, what it wants to hear, and how much it has not read yet. */
import { randomUUID } from 'node:crypto'
import type { Peer } from 'crossws'
import type { Actor } from '../../actor.ts'
import type { App } from '../../app.ts'
import { authenticateToken } from '../../auth/auth.ts'
import { isUnavailable } from '../../db/pool.ts'
import { AppError, type Code } from '../../errors.ts'
import type { EventType } from '../../events.ts'
import type { Session as TokenSession } from '../../http/route.ts'
import { type Feed, isVisibleTo, type LiveEvent } from './event-feed.ts'
import { type EventName, parseMessage, renderError, renderEvent, typeOf } from './messages.ts'

/** What the server around a socket does for it. */
export interface SocketContext {
  app: App
  feed: Feed
  /** milliseconds to authenticate in */
  authTimeoutMs: number
  /** Takes one of the user's places; false when none is free. */
  take(slot: string, userId: string): Promise<boolean>
  /** Gives a place back; never throws. */
  releaseSlot(place: string): void
  /** Ends the socket if its session has ended since the token was read. */
  recheck(socket: Socket): Promise<void>
  /** Somebody wants to hear of the queue. */
  onQueueSubscribed(): void
}

export interface Session {
  actor: Actor
  claims: TokenSession
  /** when its token expires, by app.monotonicMs() */
  endsAt: number
}

export interface Socket {
  /** of the client, after trusted proxies */
  readonly ip: string
  /** null: nobody has signed in */
  readonly session: Session | null
  /** the id of the place that it takes of its user's; null: none */
  readonly place: string | null
  isSubscribed(type: EventType): boolean
  /** Takes what the client says; null stands for bytes that are no text. */
  receive(text: string | null): void
  /** Sends an event if the client wants it and may have it. */
  offer(event: LiveEvent, text: () => string): void
  /** What the session's user is from now on. */
  setActor(actor: Actor): void
  /** Ends it if its time is over. */
  checkExpiry(): void
  end(code: number, reason: string): void
  /** Tells the client why, and ends it. */
  refuse(code: Code, close: number, message?: string): void
  /** The connection is gone. */
  closed(): void
}

/** Bytes waiting for the client: above the first it reads too slowly, above the second older events wait until it has caught up. */
const maxBufferedBytes = 1_000_000
const drainThresholdBytes = 256_000
/** Messages waiting to be handled. */
const maxUnhandled = 32
/** Milliseconds for the client to answer our close. */
const patience = 5000

/** Opens a socket on a connection. */
export function openSocket(around: SocketContext, peer: Peer, ip: string): Socket {
  const { app, feed } = around
  const openedAt = performance.now()
  /** the types, with the names that the client gave them */
  const subscriptions = new Map<EventType, EventName>()
  let session: Session | null = null
  let place: string | null = null
  let isOver = false
  let cut: NodeJS.Timeout | undefined
  /** live events that come while older ones are still being sent */
  let held: { texts: string[]; size: number } | null = null
  let unhandled = 0
  let handling = Promise.resolve()

  const send = (text: string) => {
    if (isOver) return
    peer.send(text)
    if (peer.bufferedAmount > maxBufferedBytes) end(1013, 'reads too slowly')
  }

  const leave = () => {
    isOver = true
    subscriptions.clear()
    held = null
    if (place) around.releaseSlot(place)
    place = null
  }

  const end = (code: number, reason: string) => {
    if (isOver) return
    leave()
    peer.close(code, reason)
    cut = setTimeout(() => peer.terminate(), patience)
  }

  const refuse = (code: Code, close: number, message?: string) => {
    send(renderError(code, message))
    end(close, code)
  }

  const authenticate = async (token: string) => {
    const { actor, session: claims, remainingMs } = await authenticateToken(app, token)
    const endsAt = app.monotonicMs() + remainingMs
    if (actor.id === null) throw new AppError('UNAUTHORIZED')
    if (actor.scopes && !actor.scopes.includes('read')) throw new AppError('FORBIDDEN', {}, 'This API token lacks the scope "read".')
    if (session && session.actor.id !== actor.id) return send(renderError('FORBIDDEN', 'This connection belongs to another user.'))
    if (!place) {
      const own = randomUUID()
      place = own
      const isFree = await around.take(own, actor.id)
      // Gone while we waited: what was taken only now must be given back now.
      if (isOver) return around.releaseSlot(own)
      if (!isFree) {
        place = null
        return refuse('RATE_LIMITED', 4429, `${app.config.limits.ws_connections_per_user} connections are open already.`)
      }
    }
    session = { actor, claims, endsAt }
    await feed.start()
    await around.recheck(socket)
    send(JSON.stringify({ type: 'auth_success', user_id: actor.id }))
  }

  /** With the place where what is heard live begins: who loses the connection before any event came has it for `since`. */
  const sendSubscriptions = () => send(JSON.stringify({ type: 'subscribed', events: [...subscriptions.values()], seq: feed.last }))

  const subscribe = async ({ actor }: Session, names: readonly EventName[], since: number | null) => {
    if (since !== null) await feed.poll()
    const fresh = names.filter((name) => !subscriptions.has(typeOf(name)))
    for (const name of fresh) subscriptions.set(typeOf(name), name)
    sendSubscriptions()
    const types = fresh.map(typeOf)
    if (types.includes('queue_status')) around.onQueueSubscribed()
    // From this very moment on, what is handed out is held back: earlier events end where it begins.
    if (since !== null && types.length > 0) await replay(actor, types, since, feed.last)
  }

  const replay = async (actor: Actor, types: readonly EventType[], since: number, until: number) => {
    held = { texts: [], size: 0 }
    for await (const event of feed.loadMissed(actor, types, since, until)) {
      send(renderEvent(event))
      if (peer.bufferedAmount > drainThresholdBytes) await peer.waitForDrain({ threshold: drainThresholdBytes })
      if (isOver) return
    }
    const texts = held?.texts ?? []
    held = null
    for (const text of texts) send(text)
  }

  const unsubscribe = (names: readonly EventName[]) => {
    for (const name of names) subscriptions.delete(typeOf(name))
    sendSubscriptions()
  }

  const handle = async (text: string | null) => {
    if (isOver) return
    const said = parseMessage(text)
    if (said.type === 'auth') await authenticate(said.token)
    else if (!session) throw new AppError('UNAUTHORIZED', {}, 'Say who you are first: {"type":"auth","token":"…"}.')
    else if (said.type === 'subscribe') await subscribe(session, said.events, said.since ?? null)
    else unsubscribe(said.events)
  }

  const fail = (error: unknown) => {
    if (error instanceof AppError && error.code === 'VALIDATION_ERROR') send(renderError(error.code, error.message, error.details))
    else if (error instanceof AppError) refuse(error.code, 4401, error.message)
    else if (isUnavailable(error)) refuse('SERVICE_UNAVAILABLE', 1013)
    else {
      app.log.error({ err: error, user_id: session?.actor.id }, 'a WebSocket message failed')
      refuse('INTERNAL_ERROR', 1011)
    }
  }

  const socket: Socket = {
    ip,
    get session() {
      return session
    },
    get place() {
      return place
    },
    isSubscribed: (type) => subscriptions.has(type),
    receive(text) {
      if (isOver) return
      if (++unhandled > maxUnhandled) return end(1008, 'too many messages at once')
      // One after the other: what follows the token is heard by whom the token stands for.
      handling = handling
        .then(() => handle(text))
        .catch(fail)
        .finally(() => {
          unhandled--
        })
    },
    offer(event, text) {
      if (isOver || !session || !subscriptions.has(event.type) || !isVisibleTo(event, session.actor)) return
      if (!held) return send(text())
      held.texts.push(text())
      held.size += text().length
      if (held.size > maxBufferedBytes - drainThresholdBytes) end(1013, 'reads too slowly')
    },
    setActor(actor) {
      if (session) session = { ...session, actor }
    },
    checkExpiry() {
      if (!session && performance.now() - openedAt > around.authTimeoutMs) refuse('UNAUTHORIZED', 4401, 'Nobody signed in in time.')
      if (session && session.endsAt <= app.monotonicMs()) refuse('UNAUTHORIZED', 4401, 'The token has expired.')
    },
    end,
    refuse,
    closed() {
      clearTimeout(cut)
      leave()
    },
  }
  return socket
}
