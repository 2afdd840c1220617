/** Client of an OpenSearch cluster. Refusals and outages become SERVICE_UNAVAILABLE. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Client, errors } from '@opensearch-project/opensearch'
import { loadAuthorities } from '../../../certificates.ts'
import { AppError, invalid } from '../../../errors.ts'
import type { Log } from '../../../log/log.ts'
import { engineUnreachable, SearchFailure } from '../../../ports/search-engine.ts'

export interface ClusterOptions {
  readonly urls: readonly string[]
  readonly username: string
  readonly password: string
  /** file with certificates of further authorities; '' for none */
  readonly caFile: string
  /** maximum time of a search */
  readonly timeoutMs: number
  readonly log: Log
  /** waits between attempts; tests replace it */
  readonly wait?: ((ms: number) => Promise<unknown>) | undefined
}

type Method = 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE'
type Query = Readonly<Record<string, string | number | boolean>>
/** Sends a request once and returns the body of the response. */
export type Send = <T>(method: Method, path: string, body?: object, query?: Query) => Promise<T>

export interface Cluster {
  /** Sends a request and returns the body of the response. A body that is a list is sent as NDJSON. Throws SERVICE_UNAVAILABLE. */
  request<T>(method: Method, path: string, body?: object, query?: Query): Promise<T>
  /** Sends a request; null for the statuses in `absent`, by default 404. Throws SERVICE_UNAVAILABLE. */
  requestExisting<T>(method: Method, path: string, body?: object, query?: Query, absent?: readonly number[]): Promise<T | null>
  /** Runs requests that depend on each other; if one fails and may be retried, all are sent again. Null for status 404. Throws SERVICE_UNAVAILABLE. */
  sequence<T>(run: (send: Send) => Promise<T>): Promise<T | null>
  /** Throws SERVICE_UNAVAILABLE if no node answers, or if it is not OpenSearch 2 or newer. */
  check(): Promise<void>
}

const minMajor = 2
/** Minimum timeout of requests that write documents or change indexes. They wait for a refresh, or for other nodes. */
const writeTimeoutMs = 60_000
/** Delays between attempts of a request that a cluster refuses because it is busy or elects a manager. */
const retryDelaysMs = [100, 400, 1000]
/** 500: a node was lost while it collected the hits of a search. */
const retriedStatus = [429, 500, 502, 503, 504]
/** Type of the error of a point in time that was lost with its node; its status is 404. */
const lostPointInTime = 'search_context_missing_exception'

/** Opens a client without a request. Throws ConfigError for an unusable `caFile`. */
export function openCluster({ urls, username, password, caFile, timeoutMs, log, wait = sleep }: ClusterOptions): Cluster {
  const client = new Client({
    nodes: [...urls],
    requestTimeout: timeoutMs,
    // One attempt per node. The loop below waits between attempts.
    maxRetries: urls.length - 1,
    ...(username === '' ? {} : { auth: { username, password } }),
    ...(caFile === '' ? {} : { ssl: { ca: loadAuthorities('search.opensearch_ca_file', caFile) } }),
  })
  let isVersionChecked = false

  const attempt = async <T>(send: () => Promise<T>, absent: readonly number[]): Promise<T | null> => {
    for (let nth = 0; ; nth++) {
      try {
        return await send()
      } catch (error) {
        if (!(error instanceof errors.OpenSearchClientError)) throw error
        const mayRetry = isRetried(error)
        if (absent.includes(statusOf(error)) && !mayRetry) return null
        const delayMs = retryDelaysMs[nth]
        if (delayMs === undefined || !mayRetry) throw failure(error, log)
        await wait(delayMs)
      }
    }
  }

  const send: Send = async <T>(method: Method, path: string, body?: object, query?: Query) => {
    const content = body === undefined ? {} : Array.isArray(body) ? { bulkBody: body } : { body: body as Record<string, unknown> }
    const isRead = method === 'GET' || path.includes('/_search')
    // No caller waits for the search any longer, but a node behind a proxy would not notice and continue.
    const limits = path.endsWith('/_search') ? { cancel_after_time_interval: `${timeoutMs}ms` } : {}
    const response = await client.transport.request(
      { method, path, ...content, querystring: { ...limits, ...query } },
      isRead ? {} : { requestTimeout: Math.max(timeoutMs, writeTimeoutMs) },
    )
    return response.body as T
  }

  return {
    request: async (method, path, body, query) => (await attempt(() => send(method, path, body, query), []))!,
    requestExisting: (method, path, body, query, absent = [404]) => attempt(() => send(method, path, body, query), absent),
    sequence: (run) => attempt(() => run(send), [404]),
    async check() {
      if (isVersionChecked) return
      const info = await attempt(() => send<{ version?: { distribution?: string; number?: string } }>('GET', '/'), [])
      const { distribution, number = '' } = info?.version ?? {}
      if (distribution !== 'opensearch' || Number.parseInt(number, 10) < minMajor)
        throw new AppError('SERVICE_UNAVAILABLE', {}, `${distribution ?? 'The server'} ${number} is not OpenSearch ${minMajor} or newer.`)
      isVersionChecked = true
    },
  }
}

const statusOf = (error: Error): number => (error instanceof errors.ResponseError ? (error.statusCode ?? 0) : 0)

/** Whether another attempt may succeed soon. False after a timeout: the request may still run and would take as long again. */
function isRetried(error: Error): boolean {
  const { type } = causeOf(error)
  if (error instanceof errors.TimeoutError || type === 'task_cancelled_exception') return false
  return error instanceof errors.ConnectionError || retriedStatus.includes(statusOf(error)) || type === lostPointInTime
}

interface Cause {
  readonly type?: string
  readonly reason?: string
}

/** Returns the first root cause that OpenSearch names. */
function causeOf(error: Error): Cause {
  const { error: named } = (error as { body?: { error?: Cause & { readonly root_cause?: readonly Cause[] } } }).body ?? {}
  return named?.root_cause?.[0] ?? named ?? {}
}

function failure(error: InstanceType<typeof errors.OpenSearchClientError>, log: Log): AppError {
  const status = statusOf(error)
  const { type, reason: text = error.message } = causeOf(error)
  log.warn({ err: text, status }, 'a request to OpenSearch failed')
  if (JSON.stringify([type, text]).match(/too_many_(nested_)?clauses|maxClauseCount/))
    return invalid('query', 'has more words than the search engine accepts')
  if (status >= 400 && status < 500 && ![401, 403, 408, 429].includes(status) && type !== lostPointInTime) return new SearchFailure(text)
  return engineUnreachable(new Error(text, { cause: error }))
}
