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
