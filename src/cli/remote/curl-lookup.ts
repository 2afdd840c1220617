/** Look-ups of clients that print their requests (--print-curl): an answer becomes a shell variable. */
import type { Client } from '../../client/client.ts'
import { isId } from '../../id.ts'

interface Lookup {
  readonly path: string
  /** jq filter of the answer; `$name` is `name` */
  readonly filter: string
  readonly name?: string
  /** shell variable for the result */
  readonly variable: string
}

/** Prints the look-up and returns a stand-in for its result in later requests. It has the form of an id. */
export type PrintLookup = (lookup: Lookup) => string

export interface LookupPrinter {
  readonly printLookup: PrintLookup
}

/** Returns the function of a client that prints requests, else null. */
export const lookupPrinterOf = (client: Client): PrintLookup | null => (client as Client & Partial<LookupPrinter>).printLookup ?? null

/** List of the API in which a name is looked up. */
export interface NamedEntries {
  readonly path: string
  /** field of the answer that contains the list, and fields of an entry that can have the name */
  readonly list: string
  readonly fields: readonly string[]
  /** shell variable for the id */
  readonly variable: string
}

/** Returns the id or a stand-in for it if the client prints its requests, else null. */
export function printIdLookup(client: Client, nameOrId: string, { path, list, fields, variable }: NamedEntries): string | null {
  const printLookup = lookupPrinterOf(client)
  const name = nameOrId.trim()
  if (!printLookup || isId(name)) return printLookup && name.toLowerCase()
  const isMatch = fields.map((field) => `(.${field} | ascii_downcase) == ($name | ascii_downcase)`).join(' or ')
  const filter = `[.${list}[] | select(${isMatch}) | .id] | if length == 1 then .[0] else error("\\(length) are called \\($name)") end`
  return printLookup({ path, filter, name, variable })
}
