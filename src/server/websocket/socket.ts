/** One WebSocket: authentication, subscriptions, replay and flow control. */
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

/** Services of the server for its sockets. */
export interface SocketContext {
  app: App
  feed: Feed
  /** Maximum time until authentication. */
  authTimeoutMs: number
  /** Takes a connection slot of the user. Returns false if none is free. */
  takeSlot(slot: string, userId: string): Promise<boolean>
  /** Releases a slot. Never throws. */
  releaseSlot(slot: string): void
  /** Closes the socket if its session has ended since the token was verified. */
  recheck(socket: Socket): Promise<void>
  /** Reports a subscription to the queue. */
  onQueueSubscribed(): void
}

export interface Session {
  actor: Actor
  claims: TokenSession
  /** Expiry of the token by app.monotonicMs(). */
  expiresAt: number
}

export interface Socket {
  /** Address of the client, behind trusted proxies. */
  readonly ip: string
  /** Null before authentication. */
  readonly session: Session | null
  /** Id of its connection slot, or null. */
  readonly slot: string | null
  isSubscribed(type: EventType): boolean
  /** Handles a message of the client; null stands for a binary frame. */
  receive(text: string | null): void
  /** Counts a ping or an unasked pong of the client. The library has answered the ping. */
  onControlFrame(): void
  /** Sends an event if the client has subscribed to it and may see it. */
  offer(event: LiveEvent, text: () => string): void
  /** Replaces the user of the session. */
  setActor(actor: Actor): void
  /** Closes the socket if its token or the time to authenticate has expired. */
  checkExpiry(): void
  close(code: number, reason: string): void
  /** Sends an error and closes the socket. */
  refuse(code: Code, closeCode: number, message?: string): void
  /** Releases resources after the connection is closed. */
  onClose(): void
}

/** Maximum of unread bytes. A client that reads more slowly is disconnected (F25). */
const maxBufferedBytes = 1_000_000
/** Unread bytes at which a replay waits for the client. */
const drainThresholdBytes = 256_000
/** Maximum number of unhandled messages. */
const maxUnhandled = 32
/** Maximum number of pings and pongs in a second. */
const maxControlFrames = 100
/** Time for the client to answer a close frame, and time for one that sends too much. */
const closeTimeoutMs = 5000
const floodCloseTimeoutMs = 200

/** Opens a socket on a connection. */
export function openSocket(context: SocketContext, peer: Peer, ip: string): Socket {
  const { app, feed } = context
  const openedAt = performance.now()
  /** Subscribed types with their names in messages of the client, and the position after which events were sent live. */
  const subscriptions = new Map<EventType, { name: EventName; liveAfter: number }>()
  let session: Session | null = null
  let slot: string | null = null
  let isClosed = false
  let closeTimer: NodeJS.Timeout | undefined
  /** Live events that wait for the end of a replay. */
  let replayBuffer: { texts: string[]; size: number } | null = null
  let unhandled = 0
  let controlFrames = { since: 0, count: 0 }
  let handling = Promise.resolve()

  const send = (text: string) => {
    if (isClosed) return
    peer.send(text)
    if (peer.bufferedAmount > maxBufferedBytes) close(1013, 'reads too slowly')
  }

  const release = () => {
    isClosed = true
    subscriptions.clear()
    replayBuffer = null
    if (slot) context.releaseSlot(slot)
    slot = null
  }

  const close = (code: number, reason: string, timeoutMs = closeTimeoutMs) => {
    if (isClosed) return
    release()
    peer.close(code, reason)
    closeTimer = setTimeout(() => peer.terminate(), timeoutMs)
  }

  const refuse = (code: Code, closeCode: number, message?: string) => {
    send(renderError(code, message))
    close(closeCode, code)
  }

  const authenticate = async (token: string) => {
    const { actor, session: claims, remainingMs } = await authenticateToken(app, token)
    const expiresAt = app.monotonicMs() + remainingMs
    if (actor.id === null) throw new AppError('UNAUTHORIZED')
    if (actor.scopes && !actor.scopes.includes('read')) throw new AppError('FORBIDDEN', {}, 'This API token lacks the scope "read".')
    if (session && session.actor.id !== actor.id) return send(renderError('FORBIDDEN', 'This connection belongs to another user.'))
    if (!slot) {
      const newSlot = randomUUID()
      slot = newSlot
      const isTaken = await context.takeSlot(newSlot, actor.id)
      // The connection was closed meanwhile.
      if (isClosed) return context.releaseSlot(newSlot)
      if (!isTaken) {
        slot = null
        return refuse(
          'RATE_LIMITED',
          4429,
          `${app.config.limits.ws_connections_per_user} connections are open already, the maximum of limits.ws_connections_per_user.`,
        )
      }
    }
    session = { actor, claims, expiresAt }
    await feed.start()
    await context.recheck(socket)
    send(JSON.stringify({ type: 'auth_success', user_id: actor.id }))
  }

  /** Sends the subscriptions with the position from which events are live, for `since` after a lost connection. */
  const sendSubscriptions = () =>
    send(JSON.stringify({ type: 'subscribed', events: [...subscriptions.values()].map(({ name }) => name), seq: feed.last }))

  const subscribe = async ({ actor }: Session, names: readonly EventName[], since: number | null) => {
    if (since !== null) await feed.poll()
    const newNames = names.filter((name) => !subscriptions.has(typeOf(name)))
    for (const name of newNames) subscriptions.set(typeOf(name), { name, liveAfter: feed.last })
    sendSubscriptions()
    if (newNames.includes('queue_status')) context.onQueueSubscribed()
    // Live events are buffered from here on, and the replay of each type ends where its live events began.
    if (since !== null && names.length > 0) await replay(actor, names.map(typeOf), since)
  }

  const replay = async (actor: Actor, types: readonly EventType[], since: number) => {
    replayBuffer = { texts: [], size: 0 }
    const lastMissed = (type: EventType) => subscriptions.get(type)?.liveAfter ?? 0
    const until = Math.max(...types.map(lastMissed))
    for await (const event of feed.loadMissed(actor, types, since, until)) {
      if (event.position > lastMissed(event.type)) continue
      send(renderEvent(event))
      if (peer.bufferedAmount > drainThresholdBytes) await peer.waitForDrain({ threshold: drainThresholdBytes })
      if (isClosed) return
    }
    const texts = replayBuffer?.texts ?? []
    replayBuffer = null
    for (const text of texts) send(text)
  }

  const unsubscribe = (names: readonly EventName[]) => {
    for (const name of names) subscriptions.delete(typeOf(name))
    sendSubscriptions()
  }

  const handle = async (text: string | null) => {
    if (isClosed) return
    const message = parseMessage(text)
    if (message.type === 'auth') await authenticate(message.token)
    else if (!session) throw new AppError('UNAUTHORIZED', {}, 'Authenticate first: {"type":"auth","token":"…"}.')
    else if (message.type === 'subscribe') await subscribe(session, message.events, message.since ?? null)
    else unsubscribe(message.events)
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
    get slot() {
      return slot
    },
    isSubscribed: (type) => subscriptions.has(type),
    receive(text) {
      if (isClosed) return
      if (++unhandled > maxUnhandled) return close(1008, 'too many messages at once', floodCloseTimeoutMs)
      // Handles messages in order: messages after a token belong to its user.
      handling = handling
        .then(() => handle(text))
        .catch(fail)
        .finally(() => {
          unhandled--
        })
    },
    onControlFrame() {
      const now = performance.now()
      if (now - controlFrames.since > 1000) controlFrames = { since: now, count: 0 }
      if (++controlFrames.count > maxControlFrames) close(1008, 'too many pings', floodCloseTimeoutMs)
    },
    offer(event, text) {
      if (isClosed || !session || !subscriptions.has(event.type) || !isVisibleTo(event, session.actor)) return
      if (!replayBuffer) return send(text())
      replayBuffer.texts.push(text())
      replayBuffer.size += text().length
      if (replayBuffer.size > maxBufferedBytes - drainThresholdBytes) close(1013, 'reads too slowly')
    },
    setActor(actor) {
      if (session) session = { ...session, actor }
    },
    checkExpiry() {
      if (!session && performance.now() - openedAt > context.authTimeoutMs) refuse('UNAUTHORIZED', 4401, 'No token was sent in time.')
      if (session && session.expiresAt <= app.monotonicMs()) refuse('UNAUTHORIZED', 4401, 'The token has expired.')
    },
    close,
    refuse,
    onClose() {
      clearTimeout(closeTimer)
      release()
    },
  }
  return socket
}
