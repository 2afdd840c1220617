/** Requests to the bucket of the document store: signed, with timeouts, retried for a bounded time. Throws STORAGE_UNAVAILABLE in an outage. */
import { hash } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Dispatcher } from 'undici'
import type { Config } from '../../../config/schema.ts'
import { type ListedObject, listUrl, parseListPage } from '../../../s3/list-page.ts'
import { S3Error } from '../../../s3/signed-requests.ts'
import { encodeKey, encodeQuery, objectUrl } from '../../../s3/urls.ts'
import { bucketUrl, openEndpoint } from './endpoint.ts'
import { isMisconfigured, isRetryable, throwOutage, toOutage } from './outage.ts'

export interface S3Request {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE'
  readonly key: string
  readonly query?: Readonly<Record<string, string>>
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: S3Body
  /** added to `storage.s3_timeout`, the maximum time of an attempt without progress until the head of the response */
  readonly extraTimeoutMs?: number
  /** is called before another attempt */
  onRetry?(): void
}

/** Bytes of a request. The server compares them with their SHA-256, which is part of the signature. */
export interface S3Body {
  /** Yields the bytes, again for each attempt. */
  read(): AsyncIterable<Uint8Array>
  readonly size: number
  /** hex */
  readonly sha256: string
}

export interface ObjectHead {
  readonly size: number
  readonly etag: string
}

export interface Bucket {
  /** Returns the URL of an object for administrators. */
  locate(key: string): string
  /** Returns a response with status 2xx. Throws S3Error for a refusal, AppError STORAGE_UNAVAILABLE for an outage. */
  send(request: S3Request): Promise<Dispatcher.ResponseData>
  /** Sends a request and reads the response to its end. */
  exchange(request: S3Request): Promise<string>
  /** Stores an object. With `isNew`, keeps an existing object if the server supports conditional writes. */
  put(key: string, body: S3Body, options?: { isNew?: boolean }): Promise<void>
  /** Opens an object, or a range of it; null for a missing one. */
  get(
    key: string,
    range?: { start: number; end?: number },
    etag?: string,
  ): Promise<(ObjectHead & { body: Dispatcher.ResponseData['body'] }) | null>
  head(key: string): Promise<ObjectHead | null>
  /** Returns the text of a short object; null for a missing one. */
  readText(key: string): Promise<string | null>
  /** Copies an object of at most 5 GB. */
  copy(from: string, to: string): Promise<void>
  /** Removes an object. Has no effect on a missing one. */
  remove(key: string): Promise<void>
  /** Lists objects in order of their keys. */
  list(prefix: string): AsyncIterable<ListedObject & { readonly key: string }>
  /** Returns a URL that anybody can GET for some seconds; `query` overrides headers of the response. */
  presign(key: string, seconds: number, query: Readonly<Record<string, string>>): Promise<URL>
  /** Returns the time of the server in milliseconds, according to its last response. */
  serverTimeMs(): number
  close(): Promise<void>
}

const maxAttempts = 5
/** After this time no further attempt begins. */
const retryWindowMs = 10_000
const firstRetryDelayMs = 200

/** Opens a client without a request. */
export function openBucket(storage: Config['storage']): Bucket {
  const url = bucketUrl(storage)
  const { pool, signer } = openEndpoint(storage, url)
  const encryption = encryptionHeaders(storage)
  let clock = { timeMs: 0, atMs: 0 }

  async function sendOnce({ method, key, query, headers, body, extraTimeoutMs = 0 }: S3Request): Promise<Dispatcher.ResponseData> {
    const target = key === '' ? new URL(url) : objectUrl(url, key)
    if (query) target.search = encodeQuery(query)
    const timeoutMs = storage.s3_timeout + extraTimeoutMs
    const aborter = new AbortController()
    const timer = setTimeout(() => aborter.abort(new Error(`no response from S3 within ${timeoutMs / 1000} s`)), timeoutMs)
    const sendChunks = async function* (sent: S3Body) {
      for await (const chunk of sent.read()) {
        timer.refresh()
        yield chunk
      }
    }
    try {
      const payload = { 'x-amz-content-sha256': body?.sha256 ?? emptySha256, ...(body ? { 'content-length': String(body.size) } : {}) }
      const response = await signer.send(
        { method, headers: { ...headers, ...payload } },
        target,
        (signed) =>
          pool.request({
            method,
            path: target.pathname + target.search,
            headers: signed,
            body: (body && sendChunks(body)) as never,
            signal: aborter.signal,
          }),
        timeoutMs,
      )
      const timeMs = Date.parse([response.headers.date].flat()[0] ?? '')
      if (!Number.isNaN(timeMs)) clock = { timeMs, atMs: performance.now() }
      if (response.statusCode < 300) return response
      await response.body.dump()
      throw new Error(`S3 redirects to ${response.headers.location}: set storage.s3_region or storage.s3_endpoint`)
    } finally {
      clearTimeout(timer)
    }
  }

  async function withRetries<T>(work: () => Promise<T>, onRetry?: () => void): Promise<T> {
    const startedAt = performance.now()
    for (let attempt = 1; ; attempt++) {
      try {
        return await work()
      } catch (error) {
        if (error instanceof S3Error && !isRetryable(error) && !isMisconfigured(error)) throw error
        const delayMs = firstRetryDelayMs * 2 ** (attempt - 1) * (0.5 + Math.random())
        const isLast = attempt >= maxAttempts || performance.now() + delayMs - startedAt > retryWindowMs
        if (isLast || (error instanceof S3Error && isMisconfigured(error))) throw toOutage(error)
        onRetry?.()
        await sleep(delayMs)
      }
    }
  }

  const send = (request: S3Request) => withRetries(() => sendOnce(request))
  const exchange = (request: S3Request) => withRetries(async () => text((await sendOnce(request)).body), request.onRetry)
  const nullIfMissing = (error: unknown) => {
    if (error instanceof S3Error && error.status === 404) return null
    return throwOutage(error)
  }

  return {
    locate: (key) => `s3://${storage.s3_bucket}/${key}`,
    send,
    exchange,
    async put(key, body, { isNew = false } = {}) {
      const headers = { ...encryption, ...(isNew ? { 'if-none-match': '*' } : {}) }
      const refused = await exchange({ method: 'PUT', key, headers, body }).catch((error) => {
        if (!isNew || !(error instanceof S3Error)) return throwOutage(error)
        return error
      })
      // 412: it exists. 501: the server has no conditional writes.
      if (refused instanceof S3Error && refused.status !== 412)
        await exchange({ method: 'PUT', key, headers: encryption, body }).catch(throwOutage)
    },
    async get(key, range, etag) {
      const headers: Record<string, string> = etag ? { 'if-match': etag } : {}
      if (range) headers.range = `bytes=${range.start}-${range.end ?? ''}`
      const response = await send({ method: 'GET', key, headers }).catch(nullIfMissing)
      return response && { ...headOf(response), body: response.body }
    },
    async head(key) {
      const ask = () => send({ method: 'HEAD', key })
      const askWithRegion = async (error: unknown) => {
        if (!(error instanceof S3Error) || error.status !== 400) throw error
        // Answers to HEAD have no body that names the region. The answer to a list does.
        await exchange({ method: 'GET', key: '', query: { 'list-type': '2', 'max-keys': '1' } })
        return ask()
      }
      const response = await ask().catch(askWithRegion).catch(nullIfMissing)
      await response?.body.dump()
      return response && headOf(response)
    },
    readText: (key) => exchange({ method: 'GET', key }).catch(nullIfMissing),
    async copy(from, to) {
      const source = `/${storage.s3_bucket}/${from.split('/').map(encodeKey).join('/')}`
      const answer = await exchange({ method: 'PUT', key: to, headers: { 'x-amz-copy-source': source, ...encryption } })
      // A server may answer 200 before it fails.
      if (answer.includes('<Error')) throw toOutage(new Error('S3 could not copy an object'))
    },
    async remove(key) {
      const response = await send({ method: 'DELETE', key }).catch(nullIfMissing)
      await response?.body.dump()
    },
    async *list(prefix) {
      for (let token: string | null = null; ; ) {
        const { searchParams } = listUrl(url, { prefix, token })
        const request: S3Request = { method: 'GET', key: '', query: Object.fromEntries(searchParams) }
        const page = await withRetries(async () => parseListPage((await sendOnce(request)).body))
        for (const one of page.objects) if (one.key !== null) yield { ...one, key: one.key }
        if (page.nextToken === null) return
        if (page.nextToken === token) throw toOutage(new Error('the list repeats pages'))
        token = page.nextToken
      }
    },
    async presign(key, seconds, query) {
      const target = objectUrl(url, key)
      target.search = encodeQuery(query)
      return signer.presign(target, seconds)
    },
    serverTimeMs: () => clock.timeMs + performance.now() - clock.atMs,
    close: () => pool.destroy(),
  }
}

const emptySha256 = hash('sha256', '')

/** Returns the body for bytes in memory. */
export const bytesBody = (bytes: Uint8Array): S3Body => ({
  async *read() {
    yield bytes
  },
  size: bytes.length,
  sha256: hash('sha256', bytes),
})

/** Returns the body for short text. */
export const textBody = (content: string): S3Body => bytesBody(Buffer.from(content))

/** Returns the headers of new objects for encryption by the server. */
export function encryptionHeaders({ s3_sse, s3_sse_kms_key_id }: Config['storage']): Record<string, string> {
  const headers: Record<string, string> = s3_sse === 'none' ? {} : { 'x-amz-server-side-encryption': s3_sse }
  if (s3_sse_kms_key_id !== '') headers['x-amz-server-side-encryption-aws-kms-key-id'] = s3_sse_kms_key_id
  return headers
}

const headOf = ({ headers }: Dispatcher.ResponseData): ObjectHead => ({
  size: Number(headers['content-length'] ?? Number.NaN),
  etag: [headers.etag].flat()[0] ?? '',
})
