/** Sequential requests. */
import { isExpectedExit } from './exit.ts'

/** Maps items one after the other. Requests that were printed (--print-curl) do not end the loop; their error is thrown after the last item. */
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
