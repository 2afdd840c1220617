/** Ids in arguments and on standard input. */
import { text } from 'node:stream/consumers'
import { Failure, usage } from '../runtime/exit.ts'

/** Returns whether the text has the form of a UUID. */
export const isId = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

/** Returns the id in lower case. Throws Failure NOT_FOUND for anything but a UUID, so that nothing else becomes part of a path. */
export function parseId(given: string, what: string): string {
  if (!isId(given)) throw new Failure('NOT_FOUND', `no ${what} "${given}": that is not an id`)
  return given.toLowerCase()
}

/** Returns the ids without duplicates; "-" reads further ids, separated by white space, from standard input. Throws Failure USAGE. */
export async function readIds(given: readonly string[]): Promise<string[]> {
  if (!given.includes('-')) return [...new Set(given)]
  if (process.stdin.isTTY) throw usage('"-" reads ids from a pipe or file, and standard input is a terminal')
  const read = (await text(process.stdin)).split(/\s+/).filter((id) => id !== '')
  return [...new Set(given.flatMap((id) => (id === '-' ? read : [id])))]
}
