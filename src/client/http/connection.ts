/** Requests over any transport: tokens, retries, errors and pages. */
import type { z } from 'zod'
import type { Pagination } from '../../http/pages.ts'
import { multipart, type Upload } from './multipart.ts'
import { idempotentMethods, isBroken, isRetryable, maxWaitSeconds, retryDelaysSeconds, secondsToWait } from './retries.ts'

/** Sends one request. */
export type Transport = (request: Request) => Promise<Response>

/** Error response of the API. */
export class ClientError extends Error {
  readonly status: number
  readonly code: string
  readonly details: Record<string, unknown>
  readonly request_id: string | null

  constructor(
    status: number,
    { code, message, details, request_id }: { code: string; message: string; details?: Record<string, unknown>; request_id?: string },
  ) {
    super(message)
    this.name = 'ClientError'
    this.status = status
    this.code = code
    this.details = details ?? {}
    this.request_id = request_id ?? null
  }
}

type QueryValue = string | number | boolean | undefined

export type Query = Readonly<Record<string, QueryValue>>

/** Query parameters of a route. */
export type QueryOf<Schema extends z.ZodType> = { readonly [Name in keyof z.output<Schema>]?: QueryValue }

export interface Page<T> {
  data: T[]
  pagination: z.infer<typeof Pagination>
}

/** Yields all entries of a list, page by page. An entry is yielded once, even if others are added or removed meanwhile. */
export interface EntryStream<T> extends AsyncGenerator<T> {
  /** total number of entries at the first page; null before */
  total(): number | null
}

type HeaderLines = Readonly<Record<string, string>>

export interface Connection {
  /** Sends a request and returns the response whatever its status. */
  send(method: string, path: string, json?: unknown, headers?: HeaderLines): Promise<Response>
  /** Sends a request and returns the parsed body. Throws ClientError. */
  call<T>(method: string, path: string, json?: unknown, headers?: HeaderLines): Promise<T>
  /** Sends a request with any body and returns the response whatever its status. */
  raw(method: string, path: string, body: Body | null, headers?: HeaderLines): Promise<Response>
  /** Yields all entries of a list. `field` is the property of the response that contains them. */
  list<T>(path: string, query: Query, field?: string): EntryStream<T>
}

interface UploadRequestOptions {
  method?: 'PUT'
  headers?: HeaderLines
  idempotencyKey?: string | undefined
  signal?: AbortSignal | undefined
}

/** Connection with further methods for the client itself. */
export interface OpenConnection extends Connection {
  /** Sends a request for bytes or text. Throws ClientError. */
  fetch(method: string, path: string, json?: unknown, headers?: HeaderLines): Promise<Response>
  /** Sends a request once, without retries. */
  sendOnce(method: string, path: string): Promise<Response>
  /** Sends fields and files as multipart/form-data. */
  upload(path: string, form: Form, options?: UploadRequestOptions): Promise<Response>
}

/** Request body. */
export interface Body {
  /** opened for each attempt */
  open(): BodyInit
  /** bytes; null: unknown, such as a pipe, which can be sent only once */
  readonly size: number | null
  /** local path, for display */
  readonly path?: string
}

export interface Form {
  fields: Query
  /** name of the field for the files */
  field: string
  files: readonly Upload[]
}

export interface ClientOptions {
  /** URL of the server */
  base?: string
  /** returns the token; called before each request */
  token?: () => Promise<string | null>
  /** returns a new token after the server rejected one (401); null returns the rejection to the caller */
  renew?: (refused: string | null) => Promise<string | null>
  /** waits because the server is overloaded (429, 503) or was not reached (`error`); without it requests are not retried */
  pause?: (seconds: number, error?: unknown) => Promise<void>
}

/** Opens a connection. */
export function connect(transport: Transport, { base = 'http://dms', token, renew, pause }: ClientOptions = {}): OpenConnection {
  const { origin } = new URL(base)
  const attempt = (method: string, path: string, init: RequestInit, bearer: string | null | undefined): Promise<Response> => {
    const url = new URL(path, base)
    // A path such as "//elsewhere/x" would send the token to another host.
    if (url.origin !== origin) throw new TypeError(`"${path}" is not a path of ${origin}`)
    const headers = new Headers(init.headers)
    if (bearer && !headers.has('authorization')) headers.set('authorization', `Bearer ${bearer}`)
    return transport(new Request(url, { ...init, method, headers }))
  }
  /** Sends a request; after a 401 renews the token and sends it once more. */
  const authorized = async (method: string, path: string, init: () => RequestInit, isRepeatable: boolean): Promise<Response> => {
    const bearer = (await token?.()) ?? null
    const first = init()
    const response = await attempt(method, path, first, bearer)
    const isOwn = !new Headers(first.headers).has('authorization') && !signInPath.test(path)
    if (response.status !== 401 || !renew || !isRepeatable || !isOwn) return response
    // Other 401 codes mean the password of a shared link.
    const { code } = await readError(response.clone())
    const renewed = code === 'UNAUTHORIZED' ? await renew(bearer) : null
    if (!renewed) return response
    await response.arrayBuffer()
    return attempt(method, path, init(), renewed)
  }
  /** Retries a request. `init` is called for each attempt, because a body can be read once. */
  const request = async (
    method: string,
    path: string,
    init: () => RequestInit,
    isRepeatable = true,
    isIdempotent = idempotentMethods.has(method),
  ): Promise<Response> => {
    // A body that can be sent once is lost if the server refuses the token: a request before it renews the token.
    if (!isRepeatable && renew && (await token?.())) await (await request('GET', pathOf('users', 'profile'), () => ({}))).arrayBuffer()
    let isUncertain = false
    for (let waitedSeconds = 0, failureCount = 0; ; ) {
      let seconds: number | null | undefined
      let reason: unknown
      try {
        const response = await authorized(method, path, init, isRepeatable)
        // The request whose answer was lost has deleted it.
        if (method === 'DELETE' && isUncertain && response.status === 404) return new Response(null, { status: 204 })
        seconds = secondsToWait(response)
        if (!pause || !isRepeatable || seconds === null || waitedSeconds + seconds > maxWaitSeconds) return response
        await response.arrayBuffer()
        waitedSeconds += seconds
      } catch (error) {
        reason = error
        isUncertain ||= isBroken(error)
        seconds = retryDelaysSeconds[failureCount++]
        if (!pause || !isRepeatable || seconds === undefined || !isRetryable(error, isIdempotent)) throw error
      }
      await pause(seconds, reason)
    }
  }
  const send: Connection['send'] = (method, path, json, headers = {}) =>
    request(method, path, () =>
      json === undefined ? { headers } : { headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(json) },
    )
  const fetch: OpenConnection['fetch'] = async (...args) => requireOk(await send(...args))
  const call: Connection['call'] = async <T>(...args: Parameters<Connection['call']>) => {
    const response = await fetch(...args)
    return (response.status === 204 ? undefined : await response.json()) as T
  }
  function list<T>(path: string, query: Query, field = 'data'): EntryStream<T> {
    const length = 'limit' in query ? {} : { per_page: 100 }
    let total: number | null = null
    async function* entries(): AsyncGenerator<T> {
      for (let cursor: string | undefined; ; ) {
        const answer = await call<{ pagination: Partial<Page<T>['pagination']> }>('GET', withQuery(path, { ...length, ...query, cursor }))
        const { next_cursor: next, has_next } = answer.pagination
        total ??= answer.pagination.total ?? null
        yield* (answer as unknown as Record<string, T[]>)[field] ?? []
        if (!next && has_next) throw new Error(`the server returned no cursor for ${path}: it is older than this client`)
        if (!next) return
        cursor = next
      }
    }
    return Object.assign(entries(), { total: () => total })
  }
  const upload: OpenConnection['upload'] = async (path, form, { method = 'POST', headers, idempotencyKey, signal } = {}) => {
    let readError = (): Error | null => null
    const init = () => {
      const { body, contentType, contentLength, ...sent } = multipart(form.fields, form.field, form.files)
      readError = sent.readError
      const length = contentLength === null ? {} : { 'content-length': String(contentLength) }
      const key = idempotencyKey ? { 'idempotency-key': idempotencyKey } : {}
      return { headers: { ...headers, 'content-type': contentType, ...length, ...key }, body, duplex: 'half', signal } as RequestInit
    }
    const isRepeatable = form.files.every(({ size }) => size !== null)
    const answer = await request(method, path, init, isRepeatable, idempotencyKey !== undefined)
    const error = readError()
    if (error) throw error
    return requireOk(answer)
  }
  const sendOnce: OpenConnection['sendOnce'] = async (method, path) => attempt(method, path, {}, await token?.())
  const raw: Connection['raw'] = (method, path, body, headers = {}) => {
    const length: HeaderLines = body?.size == null ? {} : { 'content-length': String(body.size) }
    const init = () => ({ headers: { ...length, ...headers }, ...(body ? { body: body.open(), duplex: 'half' } : {}) }) as RequestInit
    return request(method, path, init, body?.size !== null)
  }
  return { send, fetch, call, list, sendOnce, upload, raw }
}

/** Routes that ignore the token. */
const signInPath = /^\/api\/(v1\/)?auth\/(login|refresh)\b/

/** Encodes a query string without undefined values. */
export const encode = (query: Query): string =>
  new URLSearchParams(
    Object.entries(query).flatMap(([name, value]): [string, string][] => (value === undefined ? [] : [[name, String(value)]])),
  ).toString()

/** Appends a query string to a path. */
export const withQuery = (path: string, query: Query): string => [path, encode(query)].filter((part) => part !== '').join('?')

/** Joins and encodes path segments: `pathOf('documents', id, 'text')`. */
export const pathOf = (...parts: readonly string[]): string => `/api/${parts.map(encodeURIComponent).join('/')}`

async function requireOk(response: Response): Promise<Response> {
  if (!response.ok) throw await readError(response)
  return response
}

/** Reads the error of a failed response. */
export async function readError(response: Response): Promise<ClientError> {
  const body = (await response.json().catch(() => null)) as { error?: { code: string; message: string } } | null
  return new ClientError(response.status, body?.error ?? { code: 'INTERNAL_ERROR', message: `the server answered ${response.status}` })
}
