/** Requests for one thing after the other. */
import { isExpectedExit } from './exit.ts'

/** What came of each. Requests that are shown instead of sent (--print-curl) end only their own turn, and are thrown when all have had theirs. */
export async function mapSequential<T, R>(things: Iterable<T>, work: (thing: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  let shown = null as { error: unknown } | null
  for (const thing of things) {
    try {
      results.push(await work(thing))
    } catch (error) {
      if (!isExpectedExit(error)) throw error
      shown = { error }
    }
  }
  if (shown) throw shown.error
  return results
}
