/** WebSockets of this server process at /ws. */
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { Peer } from 'crossws'
import crossws from 'crossws/adapters/node'
import { isAdmin } from '../../actor.ts'
import type { App } from '../../app.ts'
import { findActiveSessions } from '../../auth/auth.ts'
import { listen } from '../../db/listen.ts'
import { isForeignKeyViolation } from '../../db/pool.ts'
import { AppError } from '../../errors.ts'
import { channel, type EventType } from '../../events.ts'
import { clientNetwork } from '../../http/rate-limit.ts'
import { openForwardedIp } from '../http/client-ip.ts'
import { whenAnswered } from '../http/pipelined-requests.ts'
import type { ReplicaReads } from '../replica-reads.ts'
import { type ServerHeartbeat, startServerHeartbeat } from '../server-heartbeat.ts'
import { releaseOthers, releaseSlot, takeSlot } from './connection-slots.ts'
import { isVisibleTo, type LiveEvent, openFeed } from './event-feed.ts'
import { renderEvent } from './messages.ts'
import { watchQueue } from './queue-status.ts'
import { openSocket, type Socket, type SocketContext } from './socket.ts'
import { checkUpgrade, rejectUpgrade } from './upgrade-check.ts'

export interface WebSocketOptions {
  /** Time between two pings. A client that does not answer until the next one is disconnected (F26). */
  heartbeatIntervalMs?: number
  /** Maximum time until authentication. */
  authTimeoutMs?: number
  /** Gets the users of delivered events. */
  replica?: Pick<ReplicaReads, 'noteWrites'> | null
}

export interface WebSockets {
  /** Refuses new connections and closes all open ones. */
  close(): Promise<void>
}

const path = '/ws'
/**
 * Limits of a message: its size, its fragments, and the packets of a frame. A fragment or packet occupies about 200 bytes besides its content. The types
 * of crossws lack the last two, which its copy of ws documents.
 */
const messageLimits = { maxPayload: 65_536, maxFragments: 64, maxBufferedChunks: 1024 }
/** Time for clients to answer the close frame when the server stops. */
const closeTimeoutMs = 2000
/** Time between two queries for events whose NOTIFY may be lost. */
const pollIntervalSeconds = 5
/** Time between two checks of all sessions. */
const recheckIntervalSeconds = 15
/** Time until the second try to take a slot. The slot of a connection that has just closed may not be released yet. */
const slotRetryMs = 250

/** Opens /ws on a listening server. Throws if the database is unavailable. */
export async function openWebSockets(
  app: App,
  server: Server,
  { heartbeatIntervalMs = 30_000, authTimeoutMs = 10_000, replica }: WebSocketOptions = {},
): Promise<WebSockets> {
  const { db, log, config } = app
  const sockets = new Map<Peer, Socket>()
  const addressOf = openForwardedIp(config.server.trusted_proxies)
  let isClosing = false

  const hasSubscriber = (type: EventType) => [...sockets.values()].some((socket) => socket.isSubscribed(type))
  const onEvent = (event: LiveEvent) => {
    let text: string | undefined
    const render = () => {
      text ??= renderEvent(event)
      return text
    }
    for (const socket of sockets.values()) socket.offer(event, render)
  }
  /** Lets the reads of recipients see the state after the events. */
  const beforeDelivery = async (events: readonly LiveEvent[]) => {
    const actors = [...sockets.values()].flatMap(({ session }) => session?.actor ?? [])
    const recipients = actors.filter((actor) => events.some((event) => isVisibleTo(event, actor))).flatMap(({ id }) => id ?? [])
    await replica?.noteWrites([...new Set(recipients)])
  }
  const feed = openFeed(app, onEvent, replica ? beforeDelivery : undefined)
  const queue = watchQueue(app, () => hasSubscriber('queue_status'))
  const logFailure = (work: Promise<unknown>) =>
    void work.catch((error) => log.warn({ err: (error as Error).message }, 'WebSockets: the database is unavailable'))

  const count = async () => {
    const all = await promisify<number>(server.getConnections.bind(server))()
    return { http: Math.max(0, all - sockets.size), ws: sockets.size }
  }
  /**
   * Releases slots in the database that no open socket has. If `wasLost`, other servers removed this server with its slots, and open sockets take new
   * slots.
   */
  const syncSlots = async ({ id }: ServerHeartbeat, wasLost: boolean): Promise<void> => {
    const own = [...sockets.values()].flatMap((socket) =>
      socket.slot && socket.session ? [{ socket, slot: socket.slot, ...socket.session }] : [],
    )
    for (const { socket, slot, actor } of wasLost ? own : [])
      if (!(await takeSlot(app, slot, actor.id ?? '', id))) socket.refuse('RATE_LIMITED', 4429, 'Other connections have taken its slot.')
    const slots = [...sockets.values()].flatMap(({ slot }) => slot ?? [])
    await releaseOthers(db, id, slots)
  }
  const ownHeartbeat = await startServerHeartbeat(app, count, syncSlots)

  const takeOwnSlot = async (slot: string, userId: string): Promise<boolean> => {
    const tryTaking = () =>
      takeSlot(app, slot, userId, ownHeartbeat.id).catch(async (error) => {
        if (!isForeignKeyViolation(error)) throw error
        await syncSlots(ownHeartbeat, await ownHeartbeat.sendHeartbeat())
        return takeSlot(app, slot, userId, ownHeartbeat.id)
      })
    return (await tryTaking()) || (await sleep(slotRetryMs).then(tryTaking))
  }
  const context: SocketContext = {
    app,
    feed,
    authTimeoutMs,
    takeSlot: takeOwnSlot,
    // The next heartbeat releases slots whose release failed.
    releaseSlot: (slot) => logFailure(releaseSlot(db, slot)),
    recheck: (socket) => recheckSessions(app, [socket]),
    onQueueSubscribed: () => queue.onChange(),
  }

  const adapter = crossws({
    idleTimeout: heartbeatIntervalMs / 1000,
    serverOptions: { ...messageLimits, perMessageDeflate: false, clientTracking: false },
    getNamespace: () => path,
    hooks: {
      open(peer) {
        const ip = addressOf(peer.remoteAddress, peer.request.headers.get('x-forwarded-for'))
        sockets.set(peer, openSocket(context, peer, ip))
      },
      message: (peer, { rawData }) => sockets.get(peer)?.receive(typeof rawData === 'string' ? rawData : null),
      ping: (peer) => sockets.get(peer)?.onControlFrame(),
      pong: (peer) => sockets.get(peer)?.onControlFrame(),
      close(peer, { code }) {
        const socket = sockets.get(peer)
        const user_id = socket?.session?.actor.id
        if (config.log.access) log.info({ ip: socket?.ip, user_id, code }, 'WebSocket closed')
        socket?.onClose()
        sockets.delete(peer)
        if (![...sockets.values()].some(({ session }) => session)) feed.stop()
      },
    },
  })

  const refusal = (request: IncomingMessage): AppError | null => {
    if (isClosing) return new AppError('SERVICE_UNAVAILABLE')
    const forwarded = request.headers['x-forwarded-for']
    const from = clientNetwork(addressOf(request.socket.remoteAddress, forwarded === undefined ? null : String(forwarded)))
    const anonymous = [...sockets.values()].filter(({ session, ip }) => !session && clientNetwork(ip) === from)
    return checkUpgrade(request, config.server, anonymous.length)
  }
  const upgrade = async (request: IncomingMessage, connection: Duplex, head: Buffer) => {
    connection.on('error', () => connection.destroy())
    await whenAnswered(connection)
    const error = refusal(request)
    // No subprotocol is supported. The library would answer a malformed list in HTML.
    delete request.headers['sec-websocket-protocol']
    if (error) rejectUpgrade(connection, error, app.now())
    else adapter.handleUpgrade(request, connection, head).catch(() => connection.destroy())
  }
  // On other paths, upgrades such as that of `curl --http2` are ignored.
  Object.assign(server, { shouldUpgradeCallback: ({ url = '' }: IncomingMessage) => url.split('?')[0] === path })
  server.on('upgrade', upgrade)

  const recheck = (shouldCheck: (socket: Socket) => boolean = () => true) =>
    logFailure(recheckSessions(app, [...sockets.values()].filter(shouldCheck)))
  let isPollDue = false
  const poll = async () => {
    isPollDue = true
    await feed.poll()
    isPollDue = false
  }
  const pollAll = () => {
    logFailure(poll())
    queue.onChange()
    recheck()
  }
  const onNotification = (payload: string) => {
    const [kind, id] = payload.split(':')
    if (kind === 'event') logFailure(poll())
    else if (kind === 'queue') queue.onChange()
    else recheck(({ session }) => session?.actor.id === id)
  }
  const listening = listen(app.database, log, channel, onNotification, pollAll)
  let seconds = 0
  const timer = setInterval(() => {
    if (sockets.size === 0) return
    seconds++
    for (const socket of sockets.values()) socket.checkExpiry()
    if (isPollDue || seconds % pollIntervalSeconds === 0) logFailure(poll())
    if (seconds % recheckIntervalSeconds === 0) recheck()
  }, 1000)

  return {
    async close() {
      isClosing = true
      for (const socket of sockets.values()) socket.close(1001, 'the server stops')
      const deadline = performance.now() + closeTimeoutMs
      while (sockets.size > 0 && performance.now() < deadline) await sleep(20)
      adapter.closeAll(1001, undefined, true)
      await adapter.close()
      server.off('upgrade', upgrade)
      clearInterval(timer)
      await queue.close()
      await listening.close()
      await ownHeartbeat.close().catch((error: Error) => log.warn({ err: error.message }, 'cannot remove the heartbeat of this server'))
    },
  }
}

/** Closes sockets whose sessions have ended. A new admin gets more events; a former admin must reconnect. */
async function recheckSessions(app: App, sockets: readonly Socket[]): Promise<void> {
  const checks = sockets.flatMap((socket) => (socket.session ? [{ socket, claims: socket.session.claims }] : []))
  if (checks.length === 0) return
  const active = await findActiveSessions(
    app,
    checks.map(({ claims }) => claims),
  )
  for (const { socket, claims } of checks) {
    const { session } = socket
    // The client has sent another token meanwhile.
    if (session?.claims.jti !== claims.jti) continue
    const actor = active.get(claims.jti)
    if (actor && (isAdmin(actor) || !isAdmin(session.actor))) socket.setActor(actor)
    else socket.refuse('UNAUTHORIZED', 4401, 'The session has ended.')
  }
}
