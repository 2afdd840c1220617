/** Statements whose plans PostgreSQL keeps: to plan one that looks into many tables takes longer than to run it. */
import { createHash } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import pg from 'pg'

/** What a statement of that text is called where it is prepared. */
export const statementName = (text: string): string => createHash('sha1').update(text).digest('base64url')

const mark = '/* kept */'

/** Begins a query that is sent in the same words again and again, with other values; see `KeepingClient`. */
export const kept: RawBuilder<unknown> = sql.raw(mark)

/** For each connection, those that were used last: PostgreSQL takes about a megabyte for the plan of a search. */
const maxKept = 12

type Send = (config: unknown, ...rest: unknown[]) => Promise<unknown>

/** A connection that prepares what begins with `kept` the first time. */
export class KeepingClient extends pg.Client {
  /** names by text, the one that was used last at the end */
  readonly #names = new Map<string, string>()

  constructor(config?: string | pg.ClientConfig) {
    super(config)
    const query = this.query.bind(this) as Send
    const send: Send = (text, ...rest) =>
      typeof text === 'string' && text.startsWith(mark) ? this.#sendKept(query, text, rest[0]) : query(text, ...rest)
    this.query = send as typeof this.query
  }

  async #sendKept(query: Send, text: string, values: unknown): Promise<unknown> {
    const name = this.#names.get(text) ?? statementName(text)
    this.#names.delete(text)
    this.#names.set(text, name)
    if (this.#names.size > maxKept) await this.#forgetOldest(query)
    // PostgreSQL would plan it anew for the values of the first five times, to see whether that is worth it.
    await query('set plan_cache_mode = force_generic_plan')
    try {
      return await query({ name, text, values })
    } finally {
      // A connection that failed meanwhile is not used again.
      await query('reset plan_cache_mode').catch(() => {})
    }
  }

  /** Chunks come and go: what names one that is gone is never asked again. */
  async #forgetOldest(query: Send): Promise<void> {
    const [[text, name]] = this.#names as unknown as [[string, string]]
    this.#names.delete(text)
    // pg keeps the texts of what it has prepared; not in its types, but in the version that package.json pins.
    const { parsedStatements } = this.connection as unknown as { parsedStatements: Record<string, string> }
    if (!(name in parsedStatements)) return
    delete parsedStatements[name]
    await query(`deallocate "${name}"`)
  }
}
