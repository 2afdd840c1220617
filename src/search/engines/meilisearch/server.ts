/** Client of a Meilisearch server. Refusals and outages become SERVICE_UNAVAILABLE. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type EnqueuedTask, type Index, Meilisearch, MeilisearchApiError, MeilisearchError, type Task } from 'meilisearch'
import { AppError } from '../../../errors.ts'
import type { Log } from '../../../log/log.ts'
import { engineUnreachable, SearchFailure } from '../../../ports/search-engine.ts'
import type { Entry } from '../entries.ts'
import { includesSettings, settings } from './settings.ts'

export interface ServerOptions {
  readonly url: string
  readonly apiKey: string
  /** maximum time of a request */
  readonly timeoutMs: number
  readonly maxResults: number
  readonly log: Log
}

export interface Server {
  /** Sends a request to an index. Throws SERVICE_UNAVAILABLE. */
  request<T>(index: string, send: (index: Index<Entry>) => Promise<T>): Promise<T>
  /** Sends a request to an index; null if the index does not exist. Throws SERVICE_UNAVAILABLE. */
  requestExisting<T>(index: string, send: (index: Index<Entry>) => Promise<T>): Promise<T | null>
  /** Enqueues a task and returns its id. Tasks run in order. Waits while the queue is long. */
  enqueue(create: (server: Meilisearch) => PromiseLike<EnqueuedTask>): Promise<number>
  /** Waits until a task has succeeded. Throws SERVICE_UNAVAILABLE if it fails. */
  waitForTask(task: number): Promise<void>
  /** Creates the index if it is missing, and updates its settings. */
  prepare(index: string): Promise<void>
  /** Removes the index if it exists. */
  remove(index: string): Promise<void>
  /** Throws SERVICE_UNAVAILABLE if the server is unreachable or too old. */
  check(): Promise<void>
}

/** The first version with all settings and filters. */
const minVersion = [1, 12] as const
/** Initial interval of status requests for a task. It grows. */
const minPollMs = 4
const maxPollMs = 250
/** Time after which a task is given up. The job is retried later. */
const taskTimeoutMs = 15 * 60_000
/** Maximum number of enqueued tasks on the server before a new one. */
const maxEnqueued = 100

/** Opens a client without a request. */
export function openServer({ url, apiKey, timeoutMs, maxResults, log }: ServerOptions): Server {
  // Compressed responses arrive in chunks, which Nagle's algorithm delays by 40 ms.
  const requestInit = { headers: { 'accept-encoding': 'identity' } }
  const client = new Meilisearch({ host: url, timeout: timeoutMs, requestInit, ...(apiKey === '' ? {} : { apiKey }) })
  let isVersionChecked = false

  const attempt = async <T>(call: () => Promise<T>): Promise<T> => {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof MeilisearchError) && !(error instanceof SyntaxError)) throw error
      log.warn({ err: reason(error) }, 'a request to Meilisearch failed')
      throw engineUnreachable(error)
    }
  }

  const finished = async (uid: number): Promise<Task> => {
    const deadline = performance.now() + taskTimeoutMs
    for (let delayMs = minPollMs; ; delayMs = Math.min(delayMs * 1.5, maxPollMs)) {
      const task = await client.tasks.getTask(uid)
      if (task.status !== 'enqueued' && task.status !== 'processing') return task
      if (performance.now() > deadline) throw new AppError('SERVICE_UNAVAILABLE', {}, 'The search engine takes too long.')
      await sleep(delayMs)
    }
  }

  const succeeded = async (uid: number, expectedError = ''): Promise<void> => {
    const { status, error } = await finished(uid)
    if (status === 'succeeded' || error?.code === expectedError) return
    log.warn({ task: uid, status, error }, 'a task of Meilisearch failed')
    throw new SearchFailure(error?.message ?? status)
  }

  const waitForQueue = async (): Promise<void> => {
    for (;;) {
      const { total } = await client.tasks.getTasks({ statuses: ['enqueued'], limit: 1 })
      if (total <= maxEnqueued) return
      await sleep(maxPollMs)
    }
  }

  const checkVersion = async (): Promise<void> => {
    if (isVersionChecked) return
    const { pkgVersion } = await client.getVersion()
    const [major = 0, minor = 0] = pkgVersion.split('.').map(Number)
    if (major < minVersion[0] || (major === minVersion[0] && minor < minVersion[1])) {
      throw new AppError('SERVICE_UNAVAILABLE', {}, `Meilisearch ${pkgVersion} is too old: ${minVersion.join('.')} or newer is needed.`)
    }
    isVersionChecked = true
  }

  const settingsOf = (index: string) => nullIfMissing(client.index(index).getSettings())

  return {
    request: (index, send) => attempt(() => send(client.index(index))),
    requestExisting: (index, send) => attempt(() => nullIfMissing(send(client.index(index)))),
    enqueue: (create) =>
      attempt(async () => {
        await waitForQueue()
        return (await create(client)).taskUid
      }),
    waitForTask: (uid) => attempt(() => succeeded(uid)),
    prepare: (index) =>
      attempt(async () => {
        await checkVersion()
        let current = await settingsOf(index)
        if (current === null) {
          await succeeded((await client.createIndex(index, { primaryKey: 'id' })).taskUid, 'index_already_exists')
          current = await settingsOf(index)
        }
        const target = settings(maxResults)
        if (!includesSettings(target, current)) await succeeded((await client.index(index).updateSettings(target)).taskUid)
      }),
    remove: (index) => attempt(async () => succeeded((await client.deleteIndex(index)).taskUid, 'index_not_found')),
    check: () => attempt(checkVersion),
  }
}

/** Returns the response of an index; null if the index does not exist. */
async function nullIfMissing<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof MeilisearchApiError && error.cause?.code === 'index_not_found') return null
    throw error
  }
}

/** Returns the message of the innermost cause. */
const reason = (error: Error): string => (error.cause instanceof Error ? reason(error.cause) : error.message)
