/** The API as methods, over any transport: a server far away, or one in this very process. */
import type { z } from 'zod'
import type { BulkAnswer, UploadAnswer } from '../documents/uploads.ts'
import type { DocumentView } from '../documents/view.ts'
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
    upload(file: Upload, options?: UploadOptions): Promise<z.infer<typeof UploadAnswer>>
    bulkUpload(files: readonly Upload[], options?: Omit<UploadOptions, 'title'>): Promise<z.infer<typeof BulkAnswer>>
    download(id: string): Promise<Response>
    delete(id: string): Promise<void>
  }
}

/** Makes a client. `base` is the server's address; `token` is asked before each request. */
export function createClient(
  transport: Transport,
  { base = 'http://dms', token }: { base?: string; token?: () => Promise<string | null> } = {},
): Client {
  const request = async (method: string, path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers)
    const bearer = await token?.()
    if (bearer && !headers.has('authorization')) headers.set('authorization', `Bearer ${bearer}`)
    return transport(new Request(new URL(path, base), { ...init, method, headers }))
  }
  const send: Client['send'] = (method, path, json, headers = {}) =>
    request(
      method,
      path,
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
  const upload = async <T>(
    path: string,
    field: string,
    files: readonly Upload[],
    { idempotencyKey, ...fields }: UploadOptions,
  ): Promise<T> => {
    const { body, contentType, contentLength } = multipart(fields, field, files)
    const headers = new Headers({
      'content-type': contentType,
      ...(contentLength === null ? {} : { 'content-length': String(contentLength) }),
    })
    if (idempotencyKey) headers.set('idempotency-key', idempotencyKey)
    return (await good(await request('POST', path, { headers, body, duplex: 'half' } as RequestInit))).json() as Promise<T>
  }

  return {
    send,
    call,
    each,
    documents: {
      get: (id) => call('GET', `/api/documents/${encodeURIComponent(id)}`),
      list: (query = {}) => each('/api/documents', query),
      upload: (file, options = {}) => upload('/api/documents/upload', 'file', [file], options),
      bulkUpload: (files, { labels, ...options } = {}) =>
        upload('/api/documents/bulk-upload', 'files', files, { ...options, default_labels: labels } as UploadOptions),
      download: async (id) => good(await send('GET', `/api/documents/${encodeURIComponent(id)}/download`)),
      delete: async (id) => void (await good(await send('DELETE', `/api/documents/${encodeURIComponent(id)}`))),
    },
  }
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
