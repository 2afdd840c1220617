/** Some at once. */

/** Does `work` on each, `width` at once. After a failure or an abort nothing new is begun; returns or throws once all that was begun has ended. */
export async function inLanes<T>(width: number, signal: AbortSignal, things: AsyncIterable<T>, work: (thing: T) => Promise<void>) {
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
