/** WebSockets over raw TCP, which can stop reading or vanish. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Message {
  type: string
  data?: Record<string, unknown>
  [field: string]: unknown
}

export interface LiveSocket {
  readonly tcp: Socket
  /** all messages so far */
  readonly messages: readonly Message[]
  isOpen(): boolean
  /** close code of the server; null: none */
  closeCode(): number | null
  say(message: object): void
  /** Returns the first message of one of these types; null if none arrives within `mostMs`. */
  next(types: readonly string[], mostMs?: number): Promise<Message | null>
  /** false: the client ignores pings, as if it had vanished */
  answersPings: boolean
}

const opcode = { text: 1, close: 8, ping: 9, pong: 10 } as const

/** Opens a WebSocket. Throws if the server refuses it. Calls `onMessage` for each message. */
export async function openSocket(port: number, onMessage: (message: Message) => void = () => {}): Promise<LiveSocket> {
  const tcp = connect(port, '127.0.0.1').on('error', () => {})
  await Promise.race([once(tcp, 'connect'), once(tcp, 'close').then(() => Promise.reject(new Error('refused')))])
  const head = ['GET /ws HTTP/1.1', `host: 127.0.0.1:${port}`, 'connection: upgrade', 'upgrade: websocket', 'sec-websocket-version: 13']
  tcp.write(`${[...head, 'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA=='].join('\r\n')}\r\n\r\n`)
  const messages: Message[] = []
  const opened = Promise.withResolvers<void>()
  let isUpgraded = false
  let code: number | null = null
  let buffered = Buffer.alloc(0)

  const live: LiveSocket = {
    tcp,
    messages,
    isOpen: () => code === null && !tcp.destroyed,
    closeCode: () => code,
    say: (message) => void tcp.write(frame(opcode.text, Buffer.from(JSON.stringify(message)))),
    async next(types, mostMs = 60_000) {
      for (const end = performance.now() + mostMs; performance.now() < end; await sleep(20)) {
        const found = messages.find(({ type }) => types.includes(type))
        if (found) return found
        if (!live.isOpen()) return messages.find(({ type }) => types.includes(type)) ?? null
      }
      return null
    },
    answersPings: true,
  }

  const take = (kind: number, payload: Buffer) => {
    if (kind === opcode.text) {
      const message = JSON.parse(payload.toString()) as Message
      messages.push(message)
      onMessage(message)
    } else if (kind === opcode.ping && live.answersPings) tcp.write(frame(opcode.pong, payload))
    else if (kind === opcode.close) {
      code = payload.length >= 2 ? payload.readUInt16BE() : 1005
      tcp.end(frame(opcode.close, payload.subarray(0, 2)))
    }
  }
  tcp.on('data', (piece: Buffer) => {
    buffered = Buffer.concat([buffered, piece])
    if (!isUpgraded) {
      const at = buffered.indexOf('\r\n\r\n')
      if (at < 0) return
      if (!buffered.toString('latin1').startsWith('HTTP/1.1 101')) return opened.reject(new Error(buffered.toString('latin1').slice(0, 40)))
      isUpgraded = true
      buffered = buffered.subarray(at + 4)
      opened.resolve()
    }
    for (let next = frameIn(buffered); next; next = frameIn(buffered)) {
      buffered = buffered.subarray(next.end)
      take(next.kind, next.payload)
    }
  })
  tcp.once('close', () => opened.reject(new Error('closed')))
  await opened.promise
  return live
}

/** Opens a WebSocket, signs in and subscribes. Returns null if the server has no free slot. */
export async function joinLive(
  port: number,
  token: string,
  events: readonly string[],
  onMessage?: (message: Message) => void,
  since?: number,
): Promise<LiveSocket | null> {
  const live = await openSocket(port, onMessage)
  live.say({ type: 'auth', token })
  const answer = await live.next(['auth_success', 'error'])
  if (answer?.type !== 'auth_success') {
    live.tcp.destroy()
    return null
  }
  if (events.length > 0) {
    live.say({ type: 'subscribe', events, since })
    await live.next(['subscribed'])
  }
  return live
}

/** Encodes a frame as clients do, masked with zeros. */
function frame(kind: number, payload: Buffer): Buffer {
  const head = payload.length < 126 ? [payload.length | 0x80] : [126 | 0x80, payload.length >> 8, payload.length & 255]
  return Buffer.concat([Buffer.from([0x80 | kind, ...head]), Buffer.alloc(4), payload])
}

/** Returns the first complete frame of a server, which is not masked. */
function frameIn(bytes: Buffer): { kind: number; payload: Buffer; end: number } | null {
  if (bytes.length < 2) return null
  const short = (bytes[1] ?? 0) & 127
  const start = short === 126 ? 4 : short === 127 ? 10 : 2
  if (bytes.length < start) return null
  const length = short === 126 ? bytes.readUInt16BE(2) : short === 127 ? Number(bytes.readBigUInt64BE(2)) : short
  if (bytes.length < start + length) return null
  return { kind: (bytes[0] ?? 0) & 15, payload: bytes.subarray(start, start + length), end: start + length }
}
