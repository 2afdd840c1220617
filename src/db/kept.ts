/** Statements whose plans PostgreSQL keeps: to plan one that looks into many tables takes longer than to run it. */
import { createHash } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import pg from 'pg'

const mark = '/* kept */'

/** Begins a query that is sent in the same words again and again, with other values; see `KeepingClient`. */
export const kept: RawBuilder<unknown> = sql.raw(mark)

/** For each connection: PostgreSQL takes about a megabyte for the plan of a search. More than this are planned each time. */
const maxKept = 12

/** A connection that prepares what begins with `kept` the first time. */
export class KeepingClient extends pg.Client {
  readonly #names = new Map<string, string>()

  constructor(config?: string | pg.ClientConfig) {
    super(config)
    const query = this.query.bind(this) as (config: unknown, values?: unknown, callback?: unknown) => unknown
    const send = (text: unknown, values?: unknown, callback?: unknown) =>
      query(typeof text === 'string' && text.startsWith(mark) ? { name: this.#nameOf(text), text } : text, values, callback)
    this.query = send as unknown as typeof this.query
  }

  #nameOf(text: string): string | undefined {
    const known = this.#names.get(text)
    if (known !== undefined || this.#names.size >= maxKept) return known
    const name = createHash('sha1').update(text).digest('base64url')
    this.#names.set(text, name)
    return name
  }
}
