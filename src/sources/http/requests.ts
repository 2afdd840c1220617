/**
 * Requests to one server: signs in, waits when it is told to, tries again what may go better, follows redirects on the same origin.
 * The transport of the package `webdav` does none of that: it goes wherever a redirect points, with the password, to any address, without a time limit.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { getCACertificates } from 'node:tls'
import { type Dispatcher, Pool } from 'undici'
import { type SourceAddress, SourceFailure, type SourceLimits } from '../../ports/source-type.ts'
import { basic, type Challenge, challengesOf, type DigestAnswers, digest } from '../webdav/digest-auth.ts'
import { type Guard, guardedConnector } from './ssrf-guard.ts'

export interface Asked {
  readonly method: 'GET' | 'OPTIONS' | 'PROPFIND'
  readonly url: URL
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  readonly signal: AbortSignal
  /** how often at most; default 4 */
  readonly tries?: number
}

export interface Answer {
  /** 2xx */
  readonly status: number
  /** one header; of several the first */
  header(name: string): string | undefined
  readonly body: AsyncIterable<Buffer>
  /** where it came from, after redirects */
  readonly url: URL
  /** Gives up what is left of the body. */
  drop(): void
}

export interface Requests {
  /** Throws SourceFailure unless the answer is a 2xx. */
  send(asked: Asked): Promise<Answer>
  /** Opens a socket and closes it. Throws SourceFailure. */
  connect(): Promise<void>
  close(): Promise<void>
}

const maxTries = 4
const maxRedirects = 5
/** Milliseconds that Retry-After is obeyed for; who asks for more is asked again by the next sync. */
const maxWait = 60_000
/** Milliseconds before the second try; doubles. */
const firstPause = 250
const agent = 'dms'

export type Raw = Dispatcher.ResponseData

/** How a server is told who asks. */
export interface SignIn {
  /** Sends a request with the headers that are needed, and once more where the answer says that others are. May throw SourceFailure for an answer. */
  send(asked: Asked, url: URL, once: (headers: Readonly<Record<string, string>>) => Promise<Raw>): Promise<Raw>
}

/** Where requests go and how; nothing is sent yet. Throws SourceFailure SOURCE_ADDRESS_INVALID where `caFile` cannot be read. */
export function openRequests(folder: URL, signIn: SignIn, limits: SourceLimits, guard: Guard): Requests {
  const connector = guardedConnector(guard, { ca: authorities(limits.caFile), timeout: limits.timeoutMs })
  const pool = new Pool(folder.origin, {
    connect: connector,
    connections: limits.concurrency,
    pipelining: 1,
    headersTimeout: limits.timeoutMs,
    bodyTimeout: limits.timeoutMs,
  })
  /** before which nobody asks again (performance.now()) */
  let notBefore = 0

  async function send(asked: Asked): Promise<Answer> {
    const tries = asked.tries ?? maxTries
    for (let attempt = 1; ; attempt++) {
      try {
        await pause(notBefore - performance.now(), asked.signal)
        return await followed(asked)
      } catch (error) {
        asked.signal.throwIfAborted()
        const failure = failureOf(error)
        const wait = failure instanceof Refused ? failure.wait : null
        if (!failure.isRetryable || attempt >= tries || (wait ?? 0) > maxWait) throw failure
        if (wait !== null) notBefore = Math.max(notBefore, performance.now() + wait)
        await pause(firstPause * 2 ** (attempt - 1) * (0.5 + Math.random()), asked.signal)
      }
    }
  }

  async function followed(asked: Asked): Promise<Answer> {
    let url = asked.url
    for (let redirects = 0; ; redirects++) {
      const from = url
      const raw = await signIn.send(asked, from, (headers) => once(asked, from, headers))
      const to = [301, 302, 307, 308].includes(raw.statusCode) ? headerOf(raw, 'location') : undefined
      if (to === undefined && raw.statusCode >= 200 && raw.statusCode < 300)
        return {
          status: raw.statusCode,
          header: (name) => headerOf(raw, name),
          body: atLeast(raw.body, limits),
          url,
          drop: () => drop(raw),
        }
      await discard(raw)
      if (to === undefined) throw refusal(raw)
      if (redirects === maxRedirects) throw new SourceFailure('SOURCE_PROTOCOL', `The source redirects more than ${maxRedirects} times.`)
      url = redirected(url, to)
    }
  }

  function once({ method, headers, body, signal }: Asked, url: URL, more: Readonly<Record<string, string>>): Promise<Raw> {
    return pool.request({
      method: method as Dispatcher.HttpMethod,
      path: url.pathname + url.search,
      signal,
      body,
      headers: { 'user-agent': agent, 'accept-encoding': 'identity', ...headers, ...more },
    })
  }

  return {
    send,
    connect: () =>
      new Promise((resolve, reject) => {
        const { hostname, protocol, port, host } = folder
        connector({ hostname, host, protocol, port: port || (protocol === 'https:' ? '443' : '80') }, (error, socket) => {
          socket?.destroy()
          if (error) reject(failureOf(error))
          else resolve()
        })
      }),
    close: () => pool.destroy(),
  }
}

/** Reads an answer to its end, and asks again where it breaks off. Throws SourceFailure. */
export async function readWhole<T>(requests: Requests, asked: Asked, read: (answer: Answer) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const answer = await requests.send(asked)
    try {
      return await read(answer)
    } catch (error) {
      asked.signal.throwIfAborted()
      const failure = failureOf(error)
      // What was read and is wrong will be wrong again.
      if (error instanceof SourceFailure || !failure.isRetryable || attempt >= (asked.tries ?? maxTries)) throw failure
    } finally {
      answer.drop()
    }
  }
}

/** Signs in with Basic or Digest, whichever the server asks for. */
export function byPassword({ protocol }: URL, { username, password }: Pick<SourceAddress, 'username' | 'password'>): SignIn {
  const credentials = username === null ? null : { username, password: password ?? '' }
  // On a bare wire the password is not shown before the server has said that it takes nothing better.
  let signIn: { basic: string } | { digest: DigestAnswers } | null =
    credentials && protocol === 'https:' ? { basic: basic(credentials.username, credentials.password) } : null
  return {
    async send({ method }, url, once) {
      const signed = () => {
        if (signIn === null) return once({})
        return once({ authorization: 'basic' in signIn ? signIn.basic : signIn.digest.answer(method, url.pathname + url.search) })
      }
      const used = signIn
      const raw = await signed()
      if (raw.statusCode !== 401 || credentials === null) return raw
      const next = chosen(challengesOf(raw.headers['www-authenticate']), credentials)
      // Basic that was refused is refused again; a Digest nonce may have grown old.
      if (next === null || ('basic' in next && used !== null && 'basic' in used)) return raw
      await discard(raw)
      signIn = next
      return signed()
    },
  }
}

/** Whatever went wrong on the way, as a SourceFailure whose message holds nothing that the server said. */
export function failureOf(error: unknown): SourceFailure {
  if (error instanceof SourceFailure) return error
  const [inner] = error instanceof AggregateError ? error.errors : [error]
  const { code = '', name = '', cause } = (inner ?? {}) as { code?: string; name?: string; cause?: unknown }
  if (cause instanceof SourceFailure) return cause
  const unreachable = (message: string, retry: boolean) => new SourceFailure('SOURCE_UNREACHABLE', message, retry)
  if (name === 'AbortError') return unreachable('The request was given up.', false)
  if (code === 'ENOTFOUND') return unreachable('The name of the server is not known.', false)
  if (code === 'EAI_AGAIN') return unreachable('The name of the server cannot be looked up now.', true)
  if (/^UND_ERR_(CONNECT|HEADERS|BODY)_TIMEOUT$|^ETIMEDOUT$/.test(code)) return unreachable('The source does not answer in time.', true)
  if (/^(CERT_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|ERR_TLS_|ERR_SSL_|EPROTO|HOSTNAME_MISMATCH)/.test(code))
    return unreachable(`The server cannot be trusted: TLS fails with ${code}.`, false)
  if (name === 'HTTPParserError' || /^HPE_|^UND_ERR_(RES|REQ|HEADERS|INVALID|RESPONSE)/.test(code))
    return new SourceFailure('SOURCE_PROTOCOL', 'The source answers with broken HTTP.')
  return unreachable('The connection to the source fails.', true)
}

/** An answer that is no success. `wait`: for how many milliseconds the source asks to be left alone; null where it does not say. */
export class Refused extends SourceFailure {
  readonly wait: number | null

  constructor(code: SourceFailure['code'], message: string | undefined, retry: boolean, wait: number | null = null) {
    super(code, message, retry)
    this.wait = wait
  }
}

/** The same by its status alone. */
export function refusal(raw: Raw): Refused {
  const status = raw.statusCode
  if (status === 401) return new Refused('SOURCE_UNAUTHORIZED', undefined, false)
  if (status === 403) return new Refused('SOURCE_FORBIDDEN', undefined, false)
  if (status === 404 || status === 410) return new Refused('SOURCE_NOT_FOUND_THERE', undefined, false)
  if (status === 423) return new Refused('SOURCE_BUSY', 'The source has locked it.', false)
  if (status === 429 || status === 503) return new Refused('SOURCE_BUSY', undefined, true, waitOf(raw))
  // A proxy that does not reach its server; any other failure may be that of one folder or file.
  if (status === 502 || status === 504) return new Refused('SOURCE_UNREACHABLE', undefined, true)
  return new Refused('SOURCE_PROTOCOL', `The source answers with status ${status}.`, false)
}

/** Retry-After in milliseconds: seconds, or a date by the server's own clock. */
export function waitOf(raw: Raw): number | null {
  const value = headerOf(raw, 'retry-after') ?? ''
  if (/^\d{1,9}$/.test(value)) return Number(value) * 1000
  const wait = Date.parse(value) - Date.parse(headerOf(raw, 'date') ?? '')
  return Number.isNaN(wait) ? null : Math.max(0, wait)
}

/** The body; throws SourceFailure SOURCE_TOO_SLOW where it comes too slowly. Time that its reader takes does not count. */
async function* atLeast(body: Raw['body'], { minBytesPerSecond: minRate, timeoutMs: timeout }: SourceLimits): AsyncGenerator<Buffer> {
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

function redirected(from: URL, location: string): URL {
  if (!URL.canParse(location, from)) throw new SourceFailure('SOURCE_PROTOCOL', 'The source redirects to what is no address.')
  const to = new URL(location, from)
  if (to.origin !== from.origin)
    throw new SourceFailure('SOURCE_PROTOCOL', `The source redirects to ${to.origin}. If that is right, use that address.`)
  return new URL(to.pathname + to.search, from.origin)
}

function chosen(challenges: readonly Challenge[], { username, password }: { username: string; password: string }) {
  const answers = digest(challenges, username, password)
  if (answers) return { digest: answers }
  return challenges.some(({ scheme }) => scheme === 'basic') ? { basic: basic(username, password) } : null
}

/** One header; of several the first. */
export function headerOf({ headers }: Raw, name: string): string | undefined {
  const value = headers[name]
  return Array.isArray(value) ? value[0] : value
}

function drop({ body }: Raw): void {
  // Whoever reads no more need not hear of it.
  body.on('error', () => {}).destroy()
}

/** Reads a short answer to its end, so that its socket can be used again; a long one is cut off. */
async function discard({ body }: Raw): Promise<void> {
  await body.dump({ limit: 64 << 10 })
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms > 0) await sleep(ms, undefined, { signal })
}

function authorities(caFile: string): string[] | undefined {
  if (caFile === '') return undefined
  try {
    return [...getCACertificates('default'), readFileSync(caFile, 'utf8')]
  } catch (error) {
    throw new SourceFailure('SOURCE_ADDRESS_INVALID', `sources.ca_file cannot be read: ${(error as NodeJS.ErrnoException).code}`)
  }
}
