import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Calls `work` for each item, at most `concurrency` at once. After an error or an abort starts nothing more, waits for running calls, then throws.
 * p-map is not used because it rejects while calls are still running.
 */
export async function mapConcurrently<T>(
  items: Iterable<T> | AsyncIterable<T>,
  concurrency: number,
  work: (item: T) => Promise<void>,
  signal?: AbortSignal,
): Promise<void> {
  const queue = Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : items[Symbol.iterator]()
  let hasFailed = false
  const runUntilEmpty = async () => {
    try {
      for (let next = await queue.next(); !next.done && !hasFailed; next = await queue.next()) {
        signal?.throwIfAborted()
        await work(next.value)
      }
    } catch (error) {
      hasFailed = true
      throw error
    }
  }
  const results = await Promise.allSettled(Array.from({ length: concurrency }, runUntilEmpty))
  await queue.return?.()
  for (const result of results) if (result.status === 'rejected') throw result.reason
}

/** Returns a function that runs at most `slots` tasks at a time, first come, first served. */
export function openSemaphore(slots: number) {
  const waiting: (() => void)[] = []
  let freeSlots = slots
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (freeSlots > 0) freeSlots -= 1
    else await new Promise<void>((resolve) => waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else freeSlots += 1
    }
  }
}

/** Slots that callers wait for by name. Names take turns, so that many works of one owner do not keep those of others waiting. */
export interface Slots {
  /** Waits for a slot. Callers with the same name are served in order. Rejects with the reason of `signal` when it aborts. */
  acquire(name: string, signal?: AbortSignal): Promise<void>
  release(): void
  /** Gives every waiting caller a slot. */
  releaseAll(): void
}

interface WaitingForSlot {
  readonly name: string
  readonly start: () => void
}

/** Opens `count` slots. */
export function openSlots(count: number): Slots {
  const waiting: WaitingForSlot[] = []
  /** number of the last turn by name, since the last time that nobody waited */
  const lastTurns = new Map<string, number>()
  let turnCount = 0
  let busyCount = 0

  const lastTurnOf = ({ name }: WaitingForSlot): number => lastTurns.get(name) ?? 0

  /** Removes and returns the caller whose name has waited longest for a turn. */
  function takeNext(): WaitingForSlot | undefined {
    const next = waiting.reduce<WaitingForSlot | undefined>(
      (first, other) => (first === undefined || lastTurnOf(other) < lastTurnOf(first) ? other : first),
      undefined,
    )
    if (next === undefined) return undefined
    waiting.splice(waiting.indexOf(next), 1)
    if (waiting.length === 0) lastTurns.clear()
    else lastTurns.set(next.name, ++turnCount)
    return next
  }

  return {
    async acquire(name, signal) {
      if (busyCount < count) {
        busyCount++
        return
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const entry = { name, start: resolve }
      const onAbort = (): void => {
        const position = waiting.indexOf(entry)
        if (position < 0) return
        waiting.splice(position, 1)
        reject(signal?.reason)
      }
      waiting.push(entry)
      signal?.addEventListener('abort', onAbort, { once: true })
      await promise.finally(() => signal?.removeEventListener('abort', onAbort))
    },
    release() {
      const next = takeNext()
      if (next) next.start()
      else busyCount--
    },
    releaseAll() {
      for (const { start } of waiting.splice(0)) {
        busyCount++
        start()
      }
    },
  }
}

/** Waits for `work`, at most `timeoutMs`. */
export async function waitAtMost(timeoutMs: number, work: Promise<unknown>): Promise<void> {
  const timeout = new AbortController()
  await Promise.race([work, sleep(timeoutMs, undefined, { signal: timeout.signal }).catch(() => {})])
  timeout.abort()
}

/**
 * Returns a function whose calls share a run until it has ended, and its result for `keptMs` after its start. Many callers must not multiply its
 * requests. A failure is not kept.
 */
export function shareRuns<T>(run: () => Promise<T>, keptMs = 0, now = () => performance.now()): () => Promise<T> {
  let current: { readonly result: Promise<T>; readonly startedAt: number; hasEnded: boolean } | null = null
  return () => {
    if (current === null || (current.hasEnded && now() - current.startedAt >= keptMs)) {
      const started = { result: run(), startedAt: now(), hasEnded: false }
      started.result.then(
        () => {
          started.hasEnded = true
        },
        () => {
          current = null
        },
      )
      current = started
    }
    return current.result
  }
}

/**
 * Returns a function that runs once at a time for each key. Calls during a run of the same key share the next run, which sees what the first may have
 * missed, and its result.
 */
export function shareNextRuns<T>(run: (key: string) => Promise<T>): (key: string) => Promise<T> {
  const running = new Map<string, Promise<T>>()
  const waiting = new Map<string, Promise<T>>()
  return (key) => {
    const shared = waiting.get(key)
    if (shared) return shared
    const next = Promise.resolve(running.get(key))
      .catch(() => {})
      .then(() => {
        waiting.delete(key)
        running.set(key, next)
        return run(key)
      })
      .finally(() => {
        if (running.get(key) === next) running.delete(key)
      })
    waiting.set(key, next)
    return next
  }
}

/** Like shareNextRuns(), without keys. */
export function shareNextRun(run: () => Promise<void>): () => Promise<void> {
  const share = shareNextRuns(run)
  return () => share('')
}

/** Calls `work` for each item, at most `concurrency` at once, and yields the results in order of the items. Throws the first error in that order. */
export async function* mapInOrder<T, R>(items: AsyncIterable<T>, concurrency: number, work: (item: T) => Promise<R>): AsyncGenerator<R> {
  const running: Promise<R>[] = []
  try {
    for await (const item of items) {
      const result = work(item)
      // An error counts when its turn comes.
      result.catch(() => {})
      running.push(result)
      if (running.length >= concurrency) yield await (running.shift() as Promise<R>)
    }
    while (running.length > 0) yield await (running.shift() as Promise<R>)
  } finally {
    await Promise.allSettled(running)
  }
}
