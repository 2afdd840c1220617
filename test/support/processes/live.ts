/** Several server processes on one database, and WebSockets to them. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { WebSocket } from 'undici'
import { onTestFinished } from 'vitest'
import type { App } from '../../../src/app.ts'
import { openLog } from '../../../src/log/log.ts'
import { openApp } from '../../../src/open-app.ts'
import { buildServer } from '../../../src/server/http/assemble.ts'
import { listen } from '../../../src/server/listen.ts'
import { openWebSockets, type WebSocketOptions } from '../../../src/server/websocket/websocket.ts'
import { startApp } from '../app.ts'
import { tokenFor } from '../servers/server.ts'

export interface Message {
  type: string
  seq: number
  timestamp: string
  data: Record<string, unknown>
  [field: string]: unknown
}

export interface LiveSocket {
  readonly messages: Message[]
  readonly socket: WebSocket
  /** resolves with code and reason after it is closed */
  readonly closed: Promise<{ code: number; reason: string }>
  say(message: unknown): void
  /** Returns the first matching message, received or to come; removes it and all earlier ones from `messages`. Rejects after 30 seconds. */
  next(fits: string | ((message: Message) => boolean)): Promise<Message>
  /** Signs in and subscribes. Returns the last answer. */
  join(token: string, events?: readonly string[], since?: number): Promise<Message>
  close(): Promise<void>
}

/** Starts servers with pools of their own, all with /ws; the first is that of startApp(). */
export async function startLive(
  settings: Parameters<typeof startApp>[0] = {},
  { servers = 2, ...options }: WebSocketOptions & { servers?: number } = {},
) {
  const dms = await startApp({ 'server.port': 0, ...settings })
  const urls: string[] = []
  const stops: (() => Promise<unknown>)[] = []
  for (let number = 0; number < servers; number++) {
    const app = number === 0 ? dms.app : await another(dms.app)
    const listening = await listen(buildServer(app), app.config)
    const live = await openWebSockets(app, listening.server, options)
    let stopped: Promise<unknown> | undefined
    const stop = () => {
      stopped ??= Promise.all([listening.close(0), live.close()])
      return stopped
    }
    onTestFinished(async () => void (await stop()))
    urls.push(`${listening.url.replace('http', 'ws')}/ws`)
    stops.push(stop)
  }
  return {
    ...dms,
    /** URLs of /ws */
    urls,
    /** Stops a server as SIGTERM would. */
    stop: (server: number) => stops[server]?.(),
    open: (server = 0, headers: Record<string, string> = {}) => openWebSocket(urls[server] ?? '', headers),
    /** Opens a socket that has signed in and subscribed. */
    joined: async (
      user: Parameters<typeof tokenFor>[1],
      events: readonly string[] = [],
      { server = 0, since }: { server?: number; since?: number } = {},
    ) => {
      const socket = await openWebSocket(urls[server] ?? '')
      await socket.join(await tokenFor(dms.app, user), events, since)
      return socket
    },
  }
}

async function another({ config }: App): Promise<App> {
  const app = await openApp(config, openLog({ level: 'error', format: 'json' }), { migrate: 'never' })
  onTestFinished(() => app.close())
  return app
}

/** Opens a WebSocket; rejects if the server refuses. */
export async function openWebSocket(url: string, headers: Record<string, string> = {}): Promise<LiveSocket> {
  const socket = new WebSocket(url, { headers })
  const messages: Message[] = []
  const waiting = new Set<() => void>()
  const { promise: closed, resolve: tellClosed } = Promise.withResolvers<{ code: number; reason: string }>()
  socket.addEventListener('message', ({ data }) => {
    messages.push(JSON.parse(String(data)) as Message)
    for (const look of waiting) look()
  })
  socket.addEventListener('close', ({ code, reason }) => tellClosed({ code, reason }))
  await new Promise<void>((resolve, reject) => {
    socket.addEventListener('open', () => resolve())
    socket.addEventListener('error', () => reject(new Error('refused')))
  })
  const live: LiveSocket = {
    messages,
    socket,
    closed,
    say: (message) => socket.send(typeof message === 'string' ? message : JSON.stringify(message)),
    next: (fits) =>
      new Promise((resolve, reject) => {
        const isIt = typeof fits === 'string' ? ({ type }: Message) => type === fits : fits
        const look = () => {
          const at = messages.findIndex(isIt)
          if (at === -1) return
          waiting.delete(look)
          clearTimeout(clock)
          resolve(messages.splice(0, at + 1).at(-1) as Message)
        }
        const clock = setTimeout(() => {
          waiting.delete(look)
          reject(new Error(`no ${fits} among ${JSON.stringify(messages)}`))
        }, 30_000)
        waiting.add(look)
        look()
      }),
    async join(token, events = [], since) {
      live.say({ type: 'auth', token })
      const answer = await live.next(({ type }) => type === 'auth_success' || type === 'error')
      if (answer.type === 'error' || events.length === 0) return answer
      live.say({ type: 'subscribe', events, since })
      return live.next('subscribed')
    },
    async close() {
      socket.close()
      await closed
    },
  }
  onTestFinished(() => socket.close())
  return live
}

/** Opens a WebSocket over raw TCP, for messages that no client library sends. */
export async function openRaw(url: string, headers: readonly string[] = []): Promise<Socket> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  onTestFinished(() => void socket.destroy())
  socket.on('error', () => {})
  await once(socket, 'connect')
  const lines = ['GET /ws HTTP/1.1', `host: ${hostname}:${port}`, 'connection: upgrade', 'upgrade: websocket', ...headers]
  socket.write(`${[...lines, 'sec-websocket-version: 13', 'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=='].join('\r\n')}\r\n\r\n`)
  return socket
}

/** Encodes a frame as clients do, masked with zeros. */
export function frame(opcode: number, payload: string | Buffer, { isLast = true, isMasked = true } = {}): Buffer {
  const bytes = Buffer.from(payload as string)
  const length = bytes.length < 126 ? [bytes.length] : bytes.length < 65_536 ? [126, bytes.length >> 8, bytes.length & 255] : null
  const head = Buffer.from([
    (isLast ? 0x80 : 0) | opcode,
    ...(length ?? [127, 0, 0, 0, 0, ...[24, 16, 8, 0].map((bits) => (bytes.length >> bits) & 255)]),
  ])
  if (isMasked) head[1] = (head[1] ?? 0) | 0x80
  return Buffer.concat([head, isMasked ? Buffer.alloc(4) : Buffer.alloc(0), bytes])
}
