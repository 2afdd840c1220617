/** Ids in arguments and on standard input. */
import { text } from 'node:stream/consumers'
import { isId } from '../../id.ts'
import { slicesOf } from '../../slices.ts'
import { Failure, usage } from '../runtime/exit.ts'

/** Maximum number of ids in a request that changes documents. */
const maxIdsPerRequest = 10_000

/** Note for the manual of a command that calls sumOfRequests(). */
export const manyIdsNote = 'More than 10,000 ids take several requests. If one fails, the changes of the earlier ones stay.'

/** Calls `change` with as many ids as a request may have, and returns the sum of its results. A failure leaves the earlier changes. */
export async function sumOfRequests(ids: readonly string[], change: (ids: string[]) => Promise<number>): Promise<number> {
  let sum = 0
  for (const slice of slicesOf(ids, maxIdsPerRequest)) sum += await change(slice)
  return sum
}

/** Returns the id in lower case. Throws Failure NOT_FOUND for any other text than a UUID, because the id becomes part of a URL path. */
export function parseId(text: string, kind: string): string {
  if (!isId(text)) throw new Failure('NOT_FOUND', `no ${kind} "${text}": not an id`)
  return text.toLowerCase()
}

/** Returns the ids without duplicates; "-" reads further ids, separated by white space, from standard input. Throws Failure USAGE. */
export async function readIds(args: readonly string[]): Promise<string[]> {
  if (!args.includes('-')) return [...new Set(args)]
  if (process.stdin.isTTY) throw usage('"-" reads ids from standard input, which is a terminal', 'pass the ids, or pipe them in')
  const piped = (await text(process.stdin)).split(/\s+/).filter((id) => id !== '')
  return [...new Set(args.flatMap((id) => (id === '-' ? piped : [id])))]
}
