/**
 * HTTP client for one server: authenticates, retries, honours Retry-After, and follows redirects on the same origin only. The transport of the
 * package `webdav` is not used: it sends the password to any redirect target and has no timeouts.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { getCACertificates } from 'node:tls'
import { type Dispatcher, Pool } from 'undici'
import { SourceFailure, type SourceLimits } from '../../ports/source-type.ts'
import { getHeader, type RawResponse, ResponseFailure, toResponseFailure, toSourceFailure } from './responses.ts'
import { type Guard, guardedConnector } from './ssrf-guard.ts'

export interface SourceRequest {
  readonly method: 'GET' | 'OPTIONS' | 'PROPFIND'
  readonly url: URL
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
  /** maximum number of attempts; default 4 */
  readonly maxAttempts?: number
}

export interface SourceResponse {
  /** always 2xx */
  readonly status: number
  /** Returns a header, the first one of several. */
  header(name: string): string | undefined
  readonly body: AsyncIterable<Buffer>
  /** after redirects */
  readonly url: URL
  /** Discards the rest of the body. */
  discardBody(): void
}

export interface HttpClient {
  /** Throws SourceFailure unless the response is 2xx. */
  send(request: SourceRequest): Promise<SourceResponse>
  /** Opens and closes a socket. Throws SourceFailure. */
  connect(): Promise<void>
  close(): Promise<void>
}

const defaultMaxAttempts = 4
const maxRedirects = 5
/** A longer Retry-After is left to the next sync. */
const maxRetryAfterMs = 60_000
/** Delay before the second attempt; doubles. */
const firstRetryDelayMs = 250
const userAgent = 'dms'

/** Authenticates requests. */
export interface Authenticator {
  /** Sends a request with authentication headers, and once more if the response asks for others. May throw SourceFailure. */
  send(asked: SourceRequest, url: URL, once: (headers: Readonly<Record<string, string>>) => Promise<RawResponse>): Promise<RawResponse>
}

/** Opens a client without connecting. Throws SourceFailure SOURCE_ADDRESS_INVALID where `caFile` cannot be read. */
export function openHttpClient(folder: URL, signIn: Authenticator, limits: SourceLimits, guard: Guard): HttpClient {
  const connector = guardedConnector(guard, { ca: loadCertificates(limits.caFile), timeout: limits.timeoutMs })
  const pool = new Pool(folder.origin, {
    connect: connector,
    connections: limits.concurrency,
    pipelining: 1,
    headersTimeout: limits.timeoutMs,
    bodyTimeout: limits.timeoutMs,
  })
  /** no requests before this time (performance.now()) */
  let notBefore = 0

  async function send(asked: SourceRequest): Promise<SourceResponse> {
    const maxAttempts = asked.maxAttempts ?? defaultMaxAttempts
    for (let attempt = 1; ; attempt++) {
      try {
        await pause(notBefore - performance.now(), asked.signal)
        return await sendFollowingRedirects(asked)
      } catch (error) {
        asked.signal.throwIfAborted()
        const failure = toSourceFailure(error)
        const retryAfterMs = failure instanceof ResponseFailure ? failure.retryAfterMs : null
        if (!failure.isRetryable || attempt >= maxAttempts || (retryAfterMs ?? 0) > maxRetryAfterMs) throw failure
        if (retryAfterMs !== null) notBefore = Math.max(notBefore, performance.now() + retryAfterMs)
        await pause(firstRetryDelayMs * 2 ** (attempt - 1) * (0.5 + Math.random()), asked.signal)
      }
    }
  }

  async function sendFollowingRedirects(asked: SourceRequest): Promise<SourceResponse> {
    let url = asked.url
    for (let redirects = 0; ; redirects++) {
      const from = url
      const raw = await signIn.send(asked, from, (headers) => once(asked, from, headers))
      const to = [301, 302, 307, 308].includes(raw.statusCode) ? getHeader(raw, 'location') : undefined
      if (to === undefined && raw.statusCode >= 200 && raw.statusCode < 300)
        return {
          status: raw.statusCode,
          header: (name) => getHeader(raw, name),
          body: enforceMinRate(raw.body, limits),
          url,
          discardBody: () => drop(raw),
        }
      await drainBody(raw)
      if (to === undefined) throw toResponseFailure(raw)
      if (redirects === maxRedirects) throw new SourceFailure('SOURCE_PROTOCOL', `The source redirects more than ${maxRedirects} times.`)
      url = resolveRedirect(url, to)
    }
  }

  function once({ method, headers, body, signal }: SourceRequest, url: URL, more: Readonly<Record<string, string>>): Promise<RawResponse> {
    return pool.request({
      method: method as Dispatcher.HttpMethod,
      path: url.pathname + url.search,
      signal,
      body,
      headers: { 'user-agent': userAgent, 'accept-encoding': 'identity', ...headers, ...more },
    })
  }

  return {
    send,
    connect: () =>
      new Promise((resolve, reject) => {
        const { hostname, protocol, port, host } = folder
        connector({ hostname, host, protocol, port: port || (protocol === 'https:' ? '443' : '80') }, (error, socket) => {
          socket?.destroy()
          if (error) reject(toSourceFailure(error))
          else resolve()
        })
      }),
    close: () => pool.destroy(),
  }
}

/** Reads a response to its end and retries when it breaks off. Throws SourceFailure. */
export async function readResponse<T>(http: HttpClient, asked: SourceRequest, read: (answer: SourceResponse) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const answer = await http.send(asked)
    try {
      return await read(answer)
    } catch (error) {
      asked.signal.throwIfAborted()
      const failure = toSourceFailure(error)
      // A wrong answer would be wrong again.
      if (error instanceof SourceFailure || !failure.isRetryable || attempt >= (asked.maxAttempts ?? defaultMaxAttempts)) throw failure
    } finally {
      answer.discardBody()
    }
  }
}

/** Passes the body on. Throws SourceFailure SOURCE_TOO_SLOW below the minimum rate; time spent by the consumer does not count. */
async function* enforceMinRate(
  body: RawResponse['body'],
  { minBytesPerSecond: minRate, timeoutMs: timeout }: SourceLimits,
): AsyncGenerator<Buffer> {
  const pieces = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  let [waitedMs, bytes] = [0, 0]
  try {
    for (;;) {
      const from = performance.now()
      const { done, value } = await pieces.next()
      waitedMs += performance.now() - from
      if (done) return
      bytes += value.length
      if (waitedMs >= timeout) {
        const rate = (bytes * 1000) / waitedMs
        if (rate < minRate)
          throw new SourceFailure(
            'SOURCE_TOO_SLOW',
            `The source sends ${Math.floor(rate)} bytes a second, less than sources.min_rate (${minRate}).`,
          )
        waitedMs = 0
        bytes = 0
      }
      yield value
    }
  } finally {
    await pieces.return?.()
  }
}

function resolveRedirect(from: URL, location: string): URL {
  if (!URL.canParse(location, from)) throw new SourceFailure('SOURCE_PROTOCOL', 'The source redirects to an invalid address.')
  const to = new URL(location, from)
  if (to.origin !== from.origin)
    throw new SourceFailure('SOURCE_PROTOCOL', `The source redirects to ${to.origin}. If that is right, use that address.`)
  return new URL(to.pathname + to.search, from.origin)
}

function drop({ body }: RawResponse): void {
  // Errors after this point have no consumer.
  body.on('error', () => {}).destroy()
}

/** Reads a short body to its end, so that the socket can be reused. Closes the connection for a long one. */
export async function drainBody({ body }: RawResponse): Promise<void> {
  await body.dump({ limit: 64 << 10 })
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms > 0) await sleep(ms, undefined, { signal })
}

function loadCertificates(caFile: string): string[] | undefined {
  if (caFile === '') return undefined
  try {
    return [...getCACertificates('default'), readFileSync(caFile, 'utf8')]
  } catch (error) {
    throw new SourceFailure('SOURCE_ADDRESS_INVALID', `sources.ca_file cannot be read: ${(error as NodeJS.ErrnoException).code}`)
  }
}
