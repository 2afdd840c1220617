/** Look-ups of clients that print their requests (--print-curl): an answer becomes a shell variable. */
import type { Client } from '../../client/client.ts'

export interface Lookup {
  readonly path: string
  /** jq filter of the answer; `$name` is `name` */
  readonly filter: string
  readonly name?: string
  /** shell variable for the result */
  readonly variable: string
}

/** Prints the look-up and returns a stand-in for its result in later requests. It has the form of an id. */
export type PrintLookup = (ask: Lookup) => string

export interface LookupPrinter {
  readonly printLookup: PrintLookup
}

/** Returns the function of a client that prints requests, else null. */
export const lookupPrinterOf = (client: Client): PrintLookup | null => (client as Client & Partial<LookupPrinter>).printLookup ?? null

/** Returns a jq filter: the id of the only entry of `list` with this name in one of `fields`. */
export function jqIdByName(list: string, fields: readonly string[]): string {
  const isMeant = fields.map((field) => `(.${field} | ascii_downcase) == ($name | ascii_downcase)`).join(' or ')
  return `[.${list}[] | select(${isMeant}) | .id] | if length == 1 then .[0] else error("\\(length) are called \\($name)") end`
}
