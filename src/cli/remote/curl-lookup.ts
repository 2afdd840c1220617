/** Clients that print their requests (--print-curl): what takes part of an answer into the next request has to ask through them. */
import type { Client } from '../../client/client.ts'

export interface Lookup {
  readonly path: string
  /** for jq: what to take of the answer; `$name` is `name` */
  readonly filter: string
  readonly name?: string
  /** the variable that gets it */
  readonly variable: string
}

/** Prints the lines that ask for it, and returns what stands for it in requests that follow: it has the form of an id. */
export type PrintLookup = (ask: Lookup) => string

export interface LookupPrinter {
  readonly printLookup: PrintLookup
}

/** The way to ask, where the client only prints. */
export const lookupPrinterOf = (client: Client): PrintLookup | null => (client as Client & Partial<LookupPrinter>).printLookup ?? null

/** For jq: the id of the only one in `list` one of whose `fields` is the name. */
export function jqIdByName(list: string, fields: readonly string[]): string {
  const isMeant = fields.map((field) => `(.${field} | ascii_downcase) == ($name | ascii_downcase)`).join(' or ')
  return `[.${list}[] | select(${isMeant}) | .id] | if length == 1 then .[0] else error("\\(length) are called \\($name)") end`
}
