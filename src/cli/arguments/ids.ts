/** Ids as they stand on a command line, or one a line on standard input. */
import { text } from 'node:stream/consumers'
import { Failure, usage } from '../runtime/exit.ts'

/** Whether it has the form of an id. */
export const isId = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

/** The id, where it can be one; nothing else may become part of a path. Throws Failure NOT_FOUND. */
export function parseId(given: string, what: string): string {
  if (!isId(given)) throw new Failure('NOT_FOUND', `no ${what} "${given}": that is not an id`)
  return given.toLowerCase()
}

/** The ids given, each once; "-" stands for those on standard input, separated by white space. Throws Failure USAGE. */
export async function readIds(given: readonly string[]): Promise<string[]> {
  if (!given.includes('-')) return [...new Set(given)]
  if (process.stdin.isTTY) throw usage('"-" reads ids from a pipe or file, and standard input is a terminal')
  const read = (await text(process.stdin)).split(/\s+/).filter((id) => id !== '')
  return [...new Set(given.flatMap((id) => (id === '-' ? read : [id])))]
}
