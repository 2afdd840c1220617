/** Event stream over a WebSocket. After a lost connection it reconnects and requests the missed events. */
import { on } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Dispatcher, WebSocket } from 'undici'
import { ClientError } from './http/connection.ts'

export interface EventMessage {
  readonly type: string
  /** sequence number among all events of the server */
  readonly seq: number
  readonly timestamp: string
  readonly data: Readonly<Record<string, unknown>>
  /** fields of `data`, repeated at the top level */
  readonly [field: string]: unknown
}

export interface StreamOptions {
  /** URL of /ws */
  readonly url: string
  readonly dispatcher?: Dispatcher
  /** returns the token; called for each connection */
  token(): Promise<string | null>
  /** returns a new token after the server rejected `refused`; null if there is none */
  renew(refused: string | null): Promise<string | null>
  readonly events: readonly string[]
  /** starts with the events of the last ten minutes */
  readonly isReplay: boolean
  /** ends the stream */
  readonly signal: AbortSignal
  /** called before each reconnection with the reason and the delay; throws to give up */
  onReconnect(reason: string, seconds: number): void
}

interface CloseInfo {
  readonly code: number
  readonly reason: string
  /** last error message of the server */
  readonly error: { code: string; message: string } | null
}

interface Progress {
  /** sequence number of the last event, or of the subscription; null before */
  seq: number | null
  /** consecutive connections that failed before the subscription */
  failures: number
}

/** Maximum delay between two attempts. */
const maxDelaySeconds = 30
const unauthorizedCode = 4401
const tooManyConnectionsCode = 4429

/** Yields events until `signal` aborts. Reconnects as often as necessary. Throws ClientError UNAUTHORIZED, RATE_LIMITED, VALIDATION_ERROR. */
export async function* eventStream(options: StreamOptions): AsyncGenerator<EventMessage> {
  const progress: Progress = { seq: null, failures: 0 }
  let refused: string | null = null
  while (!options.signal.aborted) {
    const token: string | null = refused === null ? await options.token() : await options.renew(refused)
    if (token === null) throw new ClientError(401, { code: 'UNAUTHORIZED', message: 'Sign in first.' })
    const { code, reason, error } = yield* connection(token, options, progress)
    if (options.signal.aborted) return
    if (code === tooManyConnectionsCode) throw new ClientError(429, { code: 'RATE_LIMITED', message: error?.message ?? reason })
    if (error?.code === 'VALIDATION_ERROR') throw new ClientError(400, error)
    if (code === unauthorizedCode) {
      if (refused !== null && progress.failures > 0) throw new ClientError(401, error ?? { code: 'UNAUTHORIZED', message: reason })
      refused = token
      progress.failures++
      continue
    }
    refused = null
    const seconds = Math.min(maxDelaySeconds, 0.5 * 2 ** progress.failures++)
    options.onReconnect(error?.message ?? (reason || `closed with code ${code}`), seconds)
    await sleep(seconds * 1000, undefined, { signal: options.signal }).catch(() => {})
  }
}

/** Yields the events of one connection and returns how it ended. */
async function* connection(
  token: string,
  { url, dispatcher, events, isReplay, signal }: StreamOptions,
  progress: Progress,
): AsyncGenerator<EventMessage, CloseInfo> {
  const socket = new WebSocket(url, dispatcher ? { dispatcher } : {})
  let closed = { code: 1006, reason: '' }
  let error: CloseInfo['error'] = null
  const sendMessage = (message: object) => socket.send(JSON.stringify(message))
  const since = progress.seq ?? (isReplay ? 0 : null)
  const stop = () => socket.close(1000)
  socket.addEventListener('open', () => sendMessage({ type: 'auth', token }))
  // A close event follows.
  socket.addEventListener('error', ({ message }) => {
    error ??= message ? { code: 'SERVICE_UNAVAILABLE', message } : null
  })
  socket.addEventListener('close', ({ code, reason }) => {
    closed = { code, reason }
  })
  const messages = on(socket, 'message', { close: ['close'] })
  if (signal.aborted) stop()
  signal.addEventListener('abort', stop, { once: true })
  try {
    for await (const [{ data }] of messages) {
      const message = JSON.parse(String(data)) as EventMessage
      if (message.type === 'auth_success') sendMessage({ type: 'subscribe', events, since: since ?? undefined })
      else if (message.type === 'subscribed') {
        progress.failures = 0
        // Replayed events follow this message and count only when they are received.
        if (since === null) progress.seq = message.seq
      } else if (message.type === 'error') {
        error = message as unknown as NonNullable<CloseInfo['error']>
        if (error.code === 'VALIDATION_ERROR') stop()
      } else {
        progress.seq = message.seq
        yield message
      }
    }
    return { ...closed, error }
  } finally {
    signal.removeEventListener('abort', stop)
    socket.close(1000)
  }
}
