/** /ws: the WebSockets of this server process. Who may open one, and everything that they share. */
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Peer } from 'crossws'
import crossws from 'crossws/adapters/node'
import type { App } from '../../app.ts'
import { listen } from '../../db/listen.ts'
import { isForeignKeyViolation } from '../../db/pool.ts'
import { AppError } from '../../errors.ts'
import { channel, type EventType } from '../../events.ts'
import { clientNetwork } from '../../http/rate-limit.ts'
import { openForwardedIp } from '../http/client-ip.ts'
import { type ServerHeartbeat, startServerHeartbeat } from '../server-heartbeat.ts'
import * as places from './connection-slots.ts'
import { type LiveEvent, openFeed } from './event-feed.ts'
import { renderEvent } from './messages.ts'
import { watchQueue } from './queue-status.ts'
import { recheckSessions } from './session-check.ts'
import { openSocket, type Socket, type SocketContext } from './socket.ts'
import { checkUpgrade, rejectUpgrade } from './upgrade-check.ts'

export interface WebSocketOptions {
  /** milliseconds between two pings; a client that answers none until the next is gone */
  heartbeatIntervalMs?: number
  /** milliseconds to authenticate in */
  authTimeoutMs?: number
}

export interface WebSockets {
  /** Takes no more, and says goodbye to all that are open. */
  close(): Promise<void>
}

const path = '/ws'
/** bytes of a message */
const maxPayload = 65_536
/** Milliseconds for clients to answer our close when the server stops. */
const closeTimeoutMs = 2000
/** Seconds between two looks at what a NOTIFY should have told already. */
const pollIntervalSeconds = 5
const recheckIntervalSeconds = 15
/** Milliseconds until a place is asked for again: one of a connection that has just ended may be on its way back. */
const slotRetryMs = 250

/** Opens /ws on a server that listens. Throws where the database is out of reach. */
export async function openWebSockets(
  app: App,
  server: Server,
  { heartbeatIntervalMs: heartbeat = 30_000, authTimeoutMs: authTimeout = 10_000 }: WebSocketOptions = {},
): Promise<WebSockets> {
  const { db, log, config } = app
  const sockets = new Map<Peer, Socket>()
  const addressOf = openForwardedIp(config.server.trusted_proxies)
  let isClosing = false

  const hasSubscriber = (type: EventType) => [...sockets.values()].some((socket) => socket.isSubscribed(type))
  const onEvent = (event: LiveEvent) => {
    let text: string | undefined
    const once = () => {
      text ??= renderEvent(event)
      return text
    }
    for (const socket of sockets.values()) socket.offer(event, once)
  }
  const feed = openFeed(app, onEvent)
  const queue = watchQueue(app, () => hasSubscriber('queue_status'))
  const logFailure = (work: Promise<unknown>) =>
    void work.catch((error) => log.warn({ err: (error as Error).message }, 'WebSockets: the database is out of reach'))

  const count = async () => {
    const all = await promisify<number>(server.getConnections.bind(server))()
    return { http: Math.max(0, all - sockets.size), ws: sockets.size }
  }
  /** Keeps the table of places to what is open here. */
  const syncSlots = async ({ id }: ServerHeartbeat, wasLost: boolean): Promise<void> => {
    const own = [...sockets.values()].flatMap((socket) =>
      socket.place && socket.session ? [{ socket, place: socket.place, user: socket.session.actor.id ?? '' }] : [],
    )
    if (wasLost) {
      for (const { socket, place, user } of own)
        if (!(await places.takeSlot(app, place, user, id))) socket.refuse('RATE_LIMITED', 4429, 'Other connections have taken its place.')
    }
    await places.releaseOthers(
      db,
      id,
      [...sockets.values()].flatMap(({ place }) => place ?? []),
    )
  }
  const ownHeartbeat = await startServerHeartbeat(app, count, syncSlots)

  const takeSlot = async (place: string, userId: string): Promise<boolean> => {
    const once = () =>
      places.takeSlot(app, place, userId, ownHeartbeat.id).catch(async (error) => {
        if (!isForeignKeyViolation(error)) throw error
        await syncSlots(ownHeartbeat, await ownHeartbeat.sendHeartbeat())
        return places.takeSlot(app, place, userId, ownHeartbeat.id)
      })
    return (await once()) || (await sleep(slotRetryMs).then(once))
  }
  const context: SocketContext = {
    app,
    feed,
    authTimeoutMs: authTimeout,
    take: takeSlot,
    // What cannot be given back now is with the next sign of life.
    releaseSlot: (place) => logFailure(places.releaseSlot(db, place)),
    recheck: (socket) => recheckSessions(app, [socket]),
    onQueueSubscribed: () => queue.onChange(),
  }

  const adapter = crossws({
    idleTimeout: heartbeat / 1000,
    serverOptions: { maxPayload, perMessageDeflate: false, clientTracking: false },
    getNamespace: () => path,
    hooks: {
      open(peer) {
        const ip = addressOf(peer.remoteAddress, peer.request.headers.get('x-forwarded-for'))
        sockets.set(peer, openSocket(context, peer, ip))
      },
      message: (peer, { rawData }) => sockets.get(peer)?.receive(typeof rawData === 'string' ? rawData : null),
      close(peer, { code }) {
        const socket = sockets.get(peer)
        const user_id = socket?.session?.actor.id
        if (config.log.access) log.info({ ip: socket?.ip, user_id, code }, 'WebSocket closed')
        socket?.closed()
        sockets.delete(peer)
        if (![...sockets.values()].some(({ session }) => session)) feed.stop()
      },
    },
  })

  const refusal = (request: IncomingMessage): AppError | null => {
    if (isClosing) return new AppError('SERVICE_UNAVAILABLE')
    const forwarded = request.headers['x-forwarded-for']
    const from = clientNetwork(addressOf(request.socket.remoteAddress, forwarded === undefined ? null : String(forwarded)))
    const strangers = [...sockets.values()].filter(({ session, ip }) => !session && clientNetwork(ip) === from)
    return checkUpgrade(request, config.server, strangers.length)
  }
  const upgrade = (request: IncomingMessage, connection: Duplex, head: Buffer) => {
    connection.on('error', () => connection.destroy())
    const error = refusal(request)
    // None is spoken here; a malformed list would be answered in HTML.
    delete request.headers['sec-websocket-protocol']
    if (error) rejectUpgrade(connection, error, app.now())
    else adapter.handleUpgrade(request, connection, head).catch(() => connection.destroy())
  }
  // Elsewhere an upgrade is an offer (curl --http2 makes one) and the request is answered as any other.
  Object.assign(server, { shouldUpgradeCallback: ({ url = '' }: IncomingMessage) => url.split('?')[0] === path })
  server.on('upgrade', upgrade)

  const pollAll = () => {
    logFailure(feed.poll())
    queue.onChange()
    logFailure(recheckSessions(app, [...sockets.values()]))
  }
  const onNotification = (payload: string) => {
    const [word, id] = payload.split(':')
    if (word === 'event') logFailure(feed.poll())
    else if (word === 'queue') queue.onChange()
    else
      logFailure(
        recheckSessions(
          app,
          [...sockets.values()].filter(({ session }) => session?.actor.id === id),
        ),
      )
  }
  const listening = listen(app.database, log, channel, onNotification, pollAll)
  let seconds = 0
  const clock = setInterval(() => {
    if (sockets.size === 0) return
    seconds++
    for (const socket of sockets.values()) socket.checkExpiry()
    if (seconds % pollIntervalSeconds === 0) logFailure(feed.poll())
    if (seconds % recheckIntervalSeconds === 0) logFailure(recheckSessions(app, [...sockets.values()]))
  }, 1000)

  return {
    async close() {
      isClosing = true
      for (const socket of sockets.values()) socket.end(1001, 'the server stops')
      const late = performance.now() + closeTimeoutMs
      while (sockets.size > 0 && performance.now() < late) await sleep(20)
      adapter.closeAll(1001, undefined, true)
      await adapter.close()
      server.off('upgrade', upgrade)
      clearInterval(clock)
      await queue.close()
      await listening.close()
      await ownHeartbeat.close().catch((error: Error) => log.warn({ err: error.message }, 'could not say that this server is gone'))
    },
  }
}
