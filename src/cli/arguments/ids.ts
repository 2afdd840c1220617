/** Ids in arguments and on standard input. */
import { text } from 'node:stream/consumers'
import { isId } from '../../id.ts'
import { Failure, usage } from '../runtime/exit.ts'

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
