/**
 * Calls `work` for each item, at most `width` at once. After an error or an abort starts nothing more, waits for running calls, then throws.
 * p-map is not used because it rejects while calls are still running.
 */
export async function mapConcurrently<T>(width: number, signal: AbortSignal, things: AsyncIterable<T>, work: (thing: T) => Promise<void>) {
  const queue = things[Symbol.asyncIterator]()
  let hasFailed = false
  const lane = async () => {
    try {
      for (let next = await queue.next(); !next.done && !hasFailed; next = await queue.next()) {
        signal.throwIfAborted()
        await work(next.value)
      }
    } catch (error) {
      hasFailed = true
      throw error
    }
  }
  const ended = await Promise.allSettled(Array.from({ length: width }, lane))
  await queue.return?.()
  for (const end of ended) if (end.status === 'rejected') throw end.reason
}
