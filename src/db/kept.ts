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
    const query = this.query.bind(this) as (config: unknown, ...rest: unknown[]) => Promise<unknown>
    const send = (text: unknown, ...rest: unknown[]) => {
      const name = typeof text === 'string' && text.startsWith(mark) ? this.#nameOf(text) : undefined
      return name === undefined ? query(text, ...rest) : planned(query, { name, text, values: rest[0] })
    }
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

/** PostgreSQL would plan it anew for the values of the first five times, to see whether that is worth it. */
async function planned(query: (config: unknown) => Promise<unknown>, config: object): Promise<unknown> {
  await query('set plan_cache_mode = force_generic_plan')
  try {
    return await query(config)
  } finally {
    // A connection that failed meanwhile is not used again.
    await query('reset plan_cache_mode').catch(() => {})
  }
}
