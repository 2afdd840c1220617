/** The Meilisearch server: what it refuses, or does not answer, is SERVICE_UNAVAILABLE; what it is told to do it has done when the call returns. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type EnqueuedTask, type Index, Meilisearch, MeilisearchApiError, MeilisearchError, type Task } from 'meilisearch'
import { AppError } from '../../../errors.ts'
import type { Log } from '../../../log/log.ts'
import { SearchFailure } from '../../../ports/search-engine.ts'
import type { Entry } from './document.ts'
import { isSet, settings } from './settings.ts'

export interface ServerOptions {
  readonly url: string
  readonly apiKey: string
  /** milliseconds for one request */
  readonly timeout: number
  readonly maxResults: number
  readonly log: Log
}

export interface Server {
  /** Sends a request to an index. Throws SERVICE_UNAVAILABLE. */
  ask<T>(index: string, ask: (index: Index<Entry>) => Promise<T>): Promise<T>
  /** Sends a request to an index; null if the index does not exist. Throws SERVICE_UNAVAILABLE. */
  askIfThere<T>(index: string, ask: (index: Index<Entry>) => Promise<T>): Promise<T | null>
  /** Has something done; resolves once it is in the queue, in which things are done in their order. Waits while that is long. */
  order(order: (server: Meilisearch) => PromiseLike<EnqueuedTask>): Promise<number>
  /** Resolves once it is done; throws SERVICE_UNAVAILABLE where it failed. */
  finished(task: number): Promise<void>
  /** Makes the index, or sets it up, where that is not so. */
  prepare(index: string): Promise<void>
  /** Removes the index, which may not be there. */
  remove(index: string): Promise<void>
  /** Throws SERVICE_UNAVAILABLE where the server is not one that we can work with. */
  check(): Promise<void>
}

/** The first version whose settings and filters are all there. */
const oldest = [1, 12] as const
/** Milliseconds between two looks at what is being done: short at first. */
const firstLook = 4
const slowestLook = 250
/** Milliseconds after which what was ordered is not waited for any more; it is asked for again later. */
const patience = 15 * 60_000
/** Things that wait to be done on the server; with more nothing is added. */
const maxWaiting = 100

export function openServer({ url, apiKey, timeout, maxResults, log }: ServerOptions): Server {
  // Packed answers come in pieces, between which TCP lets 40 ms pass.
  const requestInit = { headers: { 'accept-encoding': 'identity' } }
  const client = new Meilisearch({ host: url, timeout, requestInit, ...(apiKey === '' ? {} : { apiKey }) })
  let isKnownToFit = false

  const attempt = async <T>(what: () => Promise<T>): Promise<T> => {
    try {
      return await what()
    } catch (error) {
      if (!(error instanceof MeilisearchError) && !(error instanceof SyntaxError)) throw error
      log.warn({ err: reason(error) }, 'Meilisearch does not do what it is asked')
      throw unavailable(error)
    }
  }

  const finished = async (uid: number): Promise<Task> => {
    const until = performance.now() + patience
    for (let pause = firstLook; ; pause = Math.min(pause * 1.5, slowestLook)) {
      const task = await client.tasks.getTask(uid)
      if (task.status !== 'enqueued' && task.status !== 'processing') return task
      if (performance.now() > until) throw new AppError('SERVICE_UNAVAILABLE', {}, 'The search engine takes too long.')
      await sleep(pause)
    }
  }

  const succeeded = async (uid: number, pardoned = ''): Promise<void> => {
    const { status, error } = await finished(uid)
    if (status === 'succeeded' || error?.code === pardoned) return
    log.warn({ task: uid, status, error }, 'Meilisearch failed to do what it was asked')
    throw new SearchFailure(error?.message ?? status)
  }

  const room = async (): Promise<void> => {
    for (;;) {
      const { total } = await client.tasks.getTasks({ statuses: ['enqueued'], limit: 1 })
      if (total <= maxWaiting) return
      await sleep(slowestLook)
    }
  }

  const fits = async (): Promise<void> => {
    if (isKnownToFit) return
    const { pkgVersion } = await client.getVersion()
    const [major = 0, minor = 0] = pkgVersion.split('.').map(Number)
    if (major < oldest[0] || (major === oldest[0] && minor < oldest[1])) {
      throw new AppError('SERVICE_UNAVAILABLE', {}, `Meilisearch ${pkgVersion} is too old: ${oldest.join('.')} or newer is needed.`)
    }
    isKnownToFit = true
  }

  const settingsOf = (index: string) => ifThere(client.index(index).getSettings())

  return {
    ask: (index, ask) => attempt(() => ask(client.index(index))),
    askIfThere: (index, ask) => attempt(() => ifThere(ask(client.index(index)))),
    order: (order) =>
      attempt(async () => {
        await room()
        return (await order(client)).taskUid
      }),
    finished: (uid) => attempt(() => succeeded(uid)),
    prepare: (index) =>
      attempt(async () => {
        await fits()
        let found = await settingsOf(index)
        if (found === null) {
          await succeeded((await client.createIndex(index, { primaryKey: 'id' })).taskUid, 'index_already_exists')
          found = await settingsOf(index)
        }
        const wanted = settings(maxResults)
        if (!isSet(wanted, found)) await succeeded((await client.index(index).updateSettings(wanted)).taskUid)
      }),
    remove: (index) => attempt(async () => succeeded((await client.deleteIndex(index)).taskUid, 'index_not_found')),
    check: () => attempt(fits),
  }
}

/** What an index says; null where there is none. */
async function ifThere<T>(answer: Promise<T>): Promise<T | null> {
  try {
    return await answer
  } catch (error) {
    if (error instanceof MeilisearchApiError && error.cause?.code === 'index_not_found') return null
    throw error
  }
}

/** What is at the bottom of it, in a line. */
const reason = (error: Error): string => (error.cause instanceof Error ? reason(error.cause) : error.message)

const unavailable = (cause: Error): AppError => {
  const error = new AppError('SERVICE_UNAVAILABLE', {}, 'The search engine is out of reach.')
  error.cause = cause
  return error
}
