/** Requests and their answers, over any transport: what the methods of the client are made of. */
import type { z } from 'zod'
import type { Pagination } from '../http/pages.ts'
import { multipart, type Upload } from './multipart.ts'

/** Carries one request. */
export type Transport = (request: Request) => Promise<Response>

/** What the server answered instead of the thing: the error body of the API. */
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

/** What a route takes in its query string, by name. */
export type QueryOf<Schema extends z.ZodType> = { readonly [Name in keyof z.output<Schema>]?: QueryValue }

export interface Page<T> {
  data: T[]
  pagination: z.infer<typeof Pagination>
}

/** The entries of a list, one after the other. Pages are fetched by cursor: what is there all the while comes once, whatever else comes and goes. */
export interface EntryStream<T> extends AsyncGenerator<T> {
  /** how many there were in all when the first page came; null until then */
  total(): number | null
}

type HeaderLines = Readonly<Record<string, string>>

export interface Connection {
  /** One request as it is; the answer as it comes. */
  send(method: string, path: string, json?: unknown, headers?: HeaderLines): Promise<Response>
  /** One request; the parsed answer, or ClientError. */
  call<T>(method: string, path: string, json?: unknown, headers?: HeaderLines): Promise<T>
  /** One request with a body of any kind; the answer as it comes. */
  raw(method: string, path: string, body: Body | null, headers?: HeaderLines): Promise<Response>
  /** All entries of a list; `field`: where the answer has them. */
  list<T>(path: string, query: Query, field?: string): EntryStream<T>
}

/** A connection for the client's own methods. */
export interface OpenConnection extends Connection {
  /** One request for bytes or text; the answer, or ClientError. */
  fetch(method: string, path: string, json?: unknown, headers?: HeaderLines): Promise<Response>
  /** One request that waits for nothing; the answer as it comes. */
  sendOnce(method: string, path: string): Promise<Response>
  /** Sends fields and files as a form. */
  upload(path: string, form: Form, idempotencyKey?: string): Promise<Response>
}

/** A body of any kind. */
export interface Body {
  /** opened for each attempt */
  open(): BodyInit
  /** bytes; null where nobody knows, as of a pipe: then it can be sent only once */
  readonly size: number | null
  /** where it is on this machine, for whoever wants to name it */
  readonly path?: string
}

export interface Form {
  fields: Query
  /** the field that files go into */
  field: string
  files: readonly Upload[]
}

export interface ClientOptions {
  /** the server's address */
  base?: string
  /** asked before each request */
  token?: () => Promise<string | null>
  /** asked for another token after the server refused one (401); null: there is none, and the refusal is the answer */
  renew?: (refused: string | null) => Promise<string | null>
  /** waits these seconds because the server asked for it (429, 503) or was not reached (`error`); without it that is the answer */
  pause?: (seconds: number, error?: unknown) => Promise<void>
}

/** Seconds that one request may wait in all before the server's "later" is taken for its answer. */
const maxWaitSeconds = 300
/** Seconds before a server that was not reached is tried again. */
const retryDelaysSeconds = [0.25, 0.5, 1, 2]

/** Makes a connection. */
export function connect(transport: Transport, { base = 'http://dms', token, renew, pause }: ClientOptions = {}): OpenConnection {
  const { origin } = new URL(base)
  const attempt = (method: string, path: string, init: RequestInit, bearer: string | null | undefined): Promise<Response> => {
    const url = new URL(path, base)
    // "//elsewhere/x" is a path, too: the token goes to the server alone.
    if (url.origin !== origin) throw new TypeError(`"${path}" is not a path of ${origin}`)
    const headers = new Headers(init.headers)
    if (bearer && !headers.has('authorization')) headers.set('authorization', `Bearer ${bearer}`)
    return transport(new Request(url, { ...init, method, headers }))
  }
  /** A refused token is exchanged once. */
  const authorized = async (method: string, path: string, init: () => RequestInit, isRepeatable: boolean): Promise<Response> => {
    const bearer = (await token?.()) ?? null
    const first = init()
    const response = await attempt(method, path, first, bearer)
    const isOwn = !new Headers(first.headers).has('authorization') && !signInPath.test(path)
    if (response.status !== 401 || !renew || !isRepeatable || !isOwn) return response
    // The password of a shared link may be what is missing.
    const { code } = await readError(response.clone())
    const next = code === 'UNAUTHORIZED' ? await renew(bearer) : null
    if (!next) return response
    await response.arrayBuffer()
    return attempt(method, path, init(), next)
  }
  /** `init` is asked for each attempt: a body can be sent once. `isHarmless`: done twice it is as if it were done once. */
  const request = async (
    method: string,
    path: string,
    init: () => RequestInit,
    isRepeatable = true,
    isHarmless = idempotentMethods.has(method),
  ) => {
    for (let waited = 0, lost = 0; ; ) {
      let seconds: number | null | undefined
      let reason: unknown
      try {
        const response = await authorized(method, path, init, isRepeatable)
        seconds = secondsToWait(response)
        if (!pause || !isRepeatable || seconds === null || waited + seconds > maxWaitSeconds) return response
        await response.arrayBuffer()
        waited += seconds
      } catch (error) {
        reason = error
        seconds = retryDelaysSeconds[lost++]
        if (!pause || !isRepeatable || seconds === undefined || !isRetryable(error, isHarmless)) throw error
      }
      await pause(seconds, reason)
    }
  }
  const send: Connection['send'] = (method, path, json, headers = {}) =>
    request(method, path, () =>
      json === undefined ? { headers } : { headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(json) },
    )
  const fetch: OpenConnection['fetch'] = async (...what) => requireOk(await send(...what))
  const call: Connection['call'] = async <T>(...what: Parameters<Connection['call']>) => {
    const response = await fetch(...what)
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
        if (!next && has_next) throw new Error(`the server has no cursor for ${path}: it is older than this dms`)
        if (!next) return
        cursor = next
      }
    }
    return Object.assign(entries(), { total: () => total })
  }
  const upload: OpenConnection['upload'] = async (path, { fields, field, files }, idempotencyKey) => {
    const init = () => {
      const { body, contentType, contentLength } = multipart(fields, field, files)
      const headers = new Headers({
        'content-type': contentType,
        ...(contentLength === null ? {} : { 'content-length': String(contentLength) }),
      })
      if (idempotencyKey) headers.set('idempotency-key', idempotencyKey)
      return { headers, body, duplex: 'half' } as RequestInit
    }
    const isRepeatable = files.every(({ size }) => size !== null)
    return requireOk(await request('POST', path, init, isRepeatable, idempotencyKey !== undefined))
  }
  const sendOnce: OpenConnection['sendOnce'] = async (method, path) => attempt(method, path, {}, await token?.())
  const raw: Connection['raw'] = (method, path, body, headers = {}) => {
    const length: HeaderLines = body?.size == null ? {} : { 'content-length': String(body.size) }
    const init = () => ({ headers: { ...length, ...headers }, ...(body ? { body: body.open(), duplex: 'half' } : {}) }) as RequestInit
    return request(method, path, init, body?.size !== null)
  }
  return { send, fetch, call, list, sendOnce, upload, raw }
}

/** Where no token counts. */
const signInPath = /^\/api\/(v1\/)?auth\/(login|refresh)\b/
const idempotentMethods: ReadonlySet<string> = new Set(['GET', 'HEAD', 'PUT'])
/** The connection was never made, so that nothing can have been done. */
const connectErrors = /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT)$/
/** It broke; the server may have done what was asked. */
const connectionErrors = /^(ECONNRESET|EPIPE|ETIMEDOUT|UND_ERR_SOCKET)$/

/** Whether a request that failed may be sent again without being done twice. */
function isRetryable(error: unknown, isHarmless: boolean): boolean {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } }
  const reason = String(code ?? cause?.code)
  return connectErrors.test(reason) || (isHarmless && connectionErrors.test(reason))
}

/** How long a server that is too busy wants to be left alone; null for every other answer. */
function secondsToWait({ status, headers }: Response): number | null {
  if (status !== 429 && status !== 503) return null
  const seconds = Number(headers.get('retry-after') ?? Number.NaN)
  return Number.isFinite(seconds) ? Math.max(1, seconds) : 5
}

/** A query string without what is undefined. */
export const encode = (query: Query): string =>
  new URLSearchParams(
    Object.entries(query).flatMap(([name, value]): [string, string][] => (value === undefined ? [] : [[name, String(value)]])),
  ).toString()

/** A path with such a query string, where there is anything to ask. */
export function withQuery(path: string, query: Query): string {
  const asked = encode(query)
  return asked ? `${path}?${asked}` : path
}

/** A path whose parts hold no sign of their own: `pathOf('documents', id, 'text')`. */
export const pathOf = (...parts: readonly string[]): string => `/api/${parts.map(encodeURIComponent).join('/')}`

async function requireOk(response: Response): Promise<Response> {
  if (response.ok) return response
  throw await readError(response)
}

/** What an answer that is none says went wrong. */
export async function readError(response: Response): Promise<ClientError> {
  const body = (await response.json().catch(() => null)) as { error?: { code: string; message: string } } | null
  return new ClientError(response.status, body?.error ?? { code: 'INTERNAL_ERROR', message: `the server answered ${response.status}` })
}
