/** The API as methods, over any transport: a server far away, or one in this very process. */
import type { z } from 'zod'
import type { BulkAnswer, UploadAnswer } from '../documents/uploads.ts'
import type { DocumentView } from '../documents/view.ts'
import type { Pagination } from '../http/pages.ts'
import type { Priority } from '../jobs.ts'
import type { ItemAnswer, RetryAnswer, StatusAnswer } from '../ocr/routes.ts'
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

export type Query = Readonly<Record<string, string | number | boolean | undefined>>

export interface Page<T> {
  data: T[]
  pagination: z.infer<typeof Pagination>
}

export interface UploadOptions {
  title?: string | undefined
  labels?: string | undefined
  language?: string | undefined
  ocr_enabled?: boolean | undefined
  on_duplicate?: 'allow' | 'reject' | 'return' | undefined
  owner?: string | undefined
  idempotencyKey?: string | undefined
}

export type OcrJob = z.infer<typeof ItemAnswer>
export type OcrStatus = z.infer<typeof StatusAnswer>

export interface Uploaded extends z.infer<typeof UploadAnswer> {
  /** false: the same bytes were there already, and that document is given back (`on_duplicate: 'return'`) */
  created: boolean
}

export interface Client {
  /** One request as it is; the answer as it comes. */
  send(method: string, path: string, json?: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>
  /** One request; the parsed answer, or ClientError. */
  call<T>(method: string, path: string, json?: unknown): Promise<T>
  /** All pages of a list, one entry after the other. */
  each<T>(path: string, query: Query): AsyncGenerator<T>
  readonly documents: {
    get(id: string): Promise<DocumentView>
    list(query?: Query): AsyncGenerator<DocumentView>
    upload(file: Upload, options?: UploadOptions): Promise<Uploaded>
    bulkUpload(files: readonly Upload[], options?: Omit<UploadOptions, 'title'>): Promise<z.infer<typeof BulkAnswer>>
    download(id: string): Promise<Response>
    delete(id: string): Promise<void>
    retryOcr(id: string, how?: { language?: string | undefined; priority?: Priority | undefined }): Promise<z.infer<typeof RetryAnswer>>
  }
  readonly ocrQueue: {
    status(): Promise<OcrStatus>
    list(query?: Query): AsyncGenerator<OcrJob>
    get(id: string): Promise<OcrJob>
    prioritise(id: string, priority: Priority): Promise<OcrJob>
    cancel(id: string): Promise<void>
  }
}

export interface ClientOptions {
  /** the server's address */
  base?: string
  /** asked before each request */
  token?: () => Promise<string | null>
  /** waits these seconds because the server asked for it (429, 503); without it such an answer is the answer */
  pause?: (seconds: number) => Promise<void>
}

/** Seconds that one request may wait in all before the server's "later" is taken for its answer. */
const patience = 300

/** Makes a client. */
export function createClient(transport: Transport, { base = 'http://dms', token, pause }: ClientOptions = {}): Client {
  const attempt = async (method: string, path: string, init: RequestInit): Promise<Response> => {
    const headers = new Headers(init.headers)
    const bearer = await token?.()
    if (bearer && !headers.has('authorization')) headers.set('authorization', `Bearer ${bearer}`)
    return transport(new Request(new URL(path, base), { ...init, method, headers }))
  }
  /** `init` is asked for each attempt: a body can be sent once. */
  const request = async (method: string, path: string, init: () => RequestInit, isRepeatable = true): Promise<Response> => {
    for (let waited = 0; ; ) {
      const response = await attempt(method, path, init())
      const seconds = secondsToWait(response)
      if (!pause || !isRepeatable || seconds === null || waited + seconds > patience) return response
      waited += seconds
      await response.arrayBuffer()
      await pause(seconds)
    }
  }
  const send: Client['send'] = (method, path, json, headers = {}) =>
    request(method, path, () =>
      json === undefined ? { headers } : { headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(json) },
    )

  const call: Client['call'] = async <T>(method: string, path: string, json?: unknown) => {
    const response = await good(await send(method, path, json))
    return (response.status === 204 ? undefined : await response.json()) as T
  }
  async function* each<T>(path: string, query: Query): AsyncGenerator<T> {
    for (let page = 1, more = true; more; page++) {
      const { data, pagination } = await call<Page<T>>('GET', `${path}?${encode({ per_page: 100, ...query, page })}`)
      yield* data
      more = pagination.has_next
    }
  }
  const upload = async (path: string, field: string, files: readonly Upload[], options: UploadOptions): Promise<Response> => {
    const { idempotencyKey, ...fields } = options
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
    return good(await request('POST', path, init, isRepeatable))
  }
  const pathOf = (kind: 'documents' | 'ocr/queue', id: string, more = '') => `/api/${kind}/${encodeURIComponent(id)}${more}`

  return {
    send,
    call,
    each,
    documents: {
      get: (id) => call('GET', pathOf('documents', id)),
      list: (query = {}) => each('/api/documents', query),
      upload: async (file, options = {}) => {
        const response = await upload('/api/documents/upload', 'file', [file], options)
        return { ...((await response.json()) as Omit<Uploaded, 'created'>), created: response.status === 201 }
      },
      bulkUpload: async (files, { labels, ...options } = {}) => {
        const fields = { ...options, default_labels: labels } as UploadOptions
        return (await upload('/api/documents/bulk-upload', 'files', files, fields)).json() as Promise<z.infer<typeof BulkAnswer>>
      },
      download: async (id) => good(await send('GET', pathOf('documents', id, '/download'))),
      delete: (id) => call('DELETE', pathOf('documents', id)),
      retryOcr: (id, how = {}) => call('POST', pathOf('documents', id, '/retry-ocr'), how),
    },
    ocrQueue: {
      status: () => call('GET', '/api/ocr/queue/status'),
      list: (query = {}) => each('/api/ocr/queue', query),
      get: (id) => call('GET', pathOf('ocr/queue', id)),
      prioritise: (id, priority) => call('PUT', pathOf('ocr/queue', id, '/priority'), { priority }),
      cancel: (id) => call('DELETE', pathOf('ocr/queue', id)),
    },
  }
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

async function good(response: Response): Promise<Response> {
  if (response.ok) return response
  const body = (await response.json().catch(() => null)) as { error?: { code: string; message: string } } | null
  throw new ClientError(response.status, body?.error ?? { code: 'INTERNAL_ERROR', message: `the server answered ${response.status}` })
}
