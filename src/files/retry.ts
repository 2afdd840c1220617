/** Retries while files move from one document store to the other. */
import { setTimeout as sleep } from 'node:timers/promises'
import { LockLost } from '../db/lock.ts'
import type { FileStore } from '../ports/file-store.ts'
import { isOutage } from './stores/secondary.ts'

export interface RetryOptions {
  readonly signal: AbortSignal
  /** waits before another attempt */
  wait?(ms: number, signal: AbortSignal): Promise<void>
}

/** Delays before each further attempt: after a failure, and while a store is unavailable. */
const delaysMs = { failure: [500, 2000], outage: [1000, 2000, 4000, 8000, 15_000] }

const pause = (ms: number, signal: AbortSignal) => sleep(ms, undefined, { signal })

/** Tries again after a failure, and longer while a store is unavailable. Throws the last error. */
export async function retry<T>(work: () => Promise<T>, options: RetryOptions): Promise<T> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await work()
    } catch (error) {
      await waitAfter(error, attempt, options)
    }
  }
}

/** Yields the items of `list`, which come in order of `keyOf`. If the list breaks off, starts it again and skips what was yielded. Throws the last error. */
async function* listThroughOutages<T>(list: () => AsyncIterable<T>, keyOf: (item: T) => string, options: RetryOptions): AsyncGenerator<T> {
  let lastKey = ''
  for (let attempt = 0; ; attempt++) {
    try {
      for await (const item of list()) {
        if (keyOf(item) <= lastKey) continue
        lastKey = keyOf(item)
        attempt = 0
        yield item
      }
      return
    } catch (error) {
      await waitAfter(error, attempt, options)
    }
  }
}

/** Yields the stored files of a store, also through outages. Throws the last error. */
export const listFiles = (store: FileStore, options: RetryOptions) =>
  listThroughOutages(
    () => store.list(),
    ({ address }) => address,
    options,
  )

/** Yields the derived files of a store, also through outages. Throws the last error. */
export const listDerived = (store: FileStore, options: RetryOptions) =>
  listThroughOutages(
    () => store.listDerived(),
    ({ key, name }) => `${key.sha256}/${key.ownerId}_${name}`,
    options,
  )

/** Waits until the next attempt is due. Throws `error` if no attempt is left. */
async function waitAfter(error: unknown, attempt: number, { signal, wait = pause }: RetryOptions): Promise<void> {
  const delayMs = delaysMs[isOutage(error) ? 'outage' : 'failure'][attempt]
  if (delayMs === undefined || signal.aborted || error instanceof LockLost) throw error
  await wait(delayMs, signal)
}
