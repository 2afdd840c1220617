/**
 * HTTP client for one server: authenticates, retries, honours Retry-After, and follows redirects on the same origin only. The transport of the
 * package `webdav` is not used: it sends the password to any redirect target and has no timeouts.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Dispatcher, Pool } from 'undici'
import { readAuthorities } from '../../certificates.ts'
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
  /** Returns the first value of a header. */
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
  send(
    request: SourceRequest,
    url: URL,
    sendOnce: (headers: Readonly<Record<string, string>>) => Promise<RawResponse>,
  ): Promise<RawResponse>
}

/** Opens a client without connecting. Throws SourceFailure SOURCE_ADDRESS_INVALID if `caFile` cannot be read. */
export function openHttpClient(folder: URL, auth: Authenticator, limits: SourceLimits, guard: Guard): HttpClient {
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

  async function send(request: SourceRequest): Promise<SourceResponse> {
    const maxAttempts = request.maxAttempts ?? defaultMaxAttempts
    for (let attempt = 1; ; attempt++) {
      try {
        await pause(notBefore - performance.now(), request.signal)
        return await sendFollowingRedirects(request)
      } catch (error) {
        request.signal.throwIfAborted()
        const failure = toSourceFailure(error)
        const retryAfterMs = failure instanceof ResponseFailure ? failure.retryAfterMs : null
        if (!failure.isRetryable || attempt >= maxAttempts || (retryAfterMs ?? 0) > maxRetryAfterMs) throw failure
        if (retryAfterMs !== null) notBefore = Math.max(notBefore, performance.now() + retryAfterMs)
        await pause(firstRetryDelayMs * 2 ** (attempt - 1) * (0.5 + Math.random()), request.signal)
      }
    }
  }

  async function sendFollowingRedirects(request: SourceRequest): Promise<SourceResponse> {
    let url = request.url
    for (let redirects = 0; ; redirects++) {
      const from = url
      const raw = await auth.send(request, from, (headers) => sendOnce(request, from, headers))
      const to = [301, 302, 307, 308].includes(raw.statusCode) ? getHeader(raw, 'location') : undefined
      if (to === undefined && raw.statusCode >= 200 && raw.statusCode < 300)
        return {
          status: raw.statusCode,
          header: (name) => getHeader(raw, name),
          body: enforceMinRate(raw.body, limits),
          url,
          discardBody: () => discardBody(raw),
        }
      await drainBody(raw)
      if (to === undefined) throw toResponseFailure(raw)
      if (redirects === maxRedirects) throw new SourceFailure('SOURCE_PROTOCOL', `The source redirects more than ${maxRedirects} times.`)
      url = resolveRedirect(url, to)
    }
  }

  function sendOnce(
    { method, headers, body, signal }: SourceRequest,
    url: URL,
    authHeaders: Readonly<Record<string, string>>,
  ): Promise<RawResponse> {
    return pool.request({
      method: method as Dispatcher.HttpMethod,
      path: url.pathname + url.search,
      signal,
      body,
      headers: { 'user-agent': userAgent, 'accept-encoding': 'identity', ...headers, ...authHeaders },
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
export async function readResponse<T>(
  http: HttpClient,
  request: SourceRequest,
  read: (response: SourceResponse) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const response = await http.send(request)
    try {
      return await read(response)
    } catch (error) {
      request.signal.throwIfAborted()
      const failure = toSourceFailure(error)
      // A retry of an invalid response would give the same response.
      if (error instanceof SourceFailure || !failure.isRetryable || attempt >= (request.maxAttempts ?? defaultMaxAttempts)) throw failure
    } finally {
      response.discardBody()
    }
  }
}

/** Passes the body on. Throws SourceFailure SOURCE_TOO_SLOW below the minimum rate; time spent by the consumer does not count. */
async function* enforceMinRate(body: RawResponse['body'], { minBytesPerSecond, timeoutMs }: SourceLimits): AsyncGenerator<Buffer> {
  const chunks = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>
  let [waitedMs, bytes] = [0, 0]
  try {
    for (;;) {
      const from = performance.now()
      const { done, value } = await chunks.next()
      waitedMs += performance.now() - from
      if (done) return
      bytes += value.length
      if (waitedMs >= timeoutMs) {
        const rate = (bytes * 1000) / waitedMs
        if (rate < minBytesPerSecond)
          throw new SourceFailure(
            'SOURCE_TOO_SLOW',
            `The source sends ${Math.floor(rate)} bytes a second, less than sources.min_rate (${minBytesPerSecond}).`,
          )
        waitedMs = 0
        bytes = 0
      }
      yield value
    }
  } finally {
    await chunks.return?.()
  }
}

function resolveRedirect(from: URL, location: string): URL {
  if (!URL.canParse(location, from)) throw new SourceFailure('SOURCE_PROTOCOL', 'The source redirects to an invalid address.')
  const to = new URL(location, from)
  if (to.origin !== from.origin)
    throw new SourceFailure(
      'SOURCE_PROTOCOL',
      `The source redirects to ${to.origin}. If it is trusted, use it as the address of the source.`,
    )
  // Not relative to the origin: a path that begins with // would be another host.
  return new URL(from.origin + to.pathname + to.search)
}

function discardBody({ body }: RawResponse): void {
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
    return readAuthorities(caFile)
  } catch (error) {
    const reason = (error as NodeJS.ErrnoException).code ?? 'no certificate in PEM'
    throw new SourceFailure('SOURCE_ADDRESS_INVALID', `sources.ca_file cannot be read: ${reason}`)
  }
}
