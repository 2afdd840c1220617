/** Statements whose plans PostgreSQL keeps: to plan one takes longer than to run it where it looks into many tables, and half as long or more where it finds a few rows. */
import { createHash } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import pg from 'pg'
import { TrackingClient } from './stalled-connection.ts'

/** Returns the name of the prepared statement for a text. */
const statementName = (text: string): string => createHash('sha1').update(text).digest('base64url')

const mark = '/* kept */'

/** Begins a query that is sent in the same words again and again, with other values, of which none changes how it is best done; see `KeepingClient`. */
export const kept: RawBuilder<unknown> = sql.raw(mark)

/** For each connection, those that were used last: PostgreSQL takes about a megabyte for the plan of a search. */
const maxKept = 16

type Send = (config: unknown, ...rest: unknown[]) => Promise<pg.QueryResult>

/** A connection that prepares what begins with `kept` the first time. */
export class KeepingClient extends TrackingClient {
  /** names by text, the one that was used last at the end */
  readonly #names = new Map<string, string>()
  #knowsModes = false

  constructor(config?: string | pg.ClientConfig) {
    super(config)
    const query = this.query.bind(this) as Send
    const send: Send = (text, ...rest) =>
      typeof text === 'string' && text.startsWith(mark)
        ? this.track(this.#sendKept(query, text, rest[0] as unknown[]))
        : query(text, ...rest)
    this.query = send as typeof this.query
  }

  async #sendKept(query: Send, text: string, values: unknown[]): Promise<pg.QueryResult> {
    const name = this.#names.get(text) ?? statementName(text)
    this.#names.delete(text)
    this.#names.set(text, name)
    if (this.#names.size > maxKept) await this.#forgetOldest(query)
    if (!this.#knowsModes) {
      await query(generic)
      await query(automatic)
      this.#knowsModes = true
    }
    return new Promise((resolve, reject) => {
      const done = (error: Error | null, result: pg.QueryResult) => {
        if (!error) return resolve(result)
        // Leads to whoever asked, instead of to the socket.
        Error.captureStackTrace(error)
        reject(error)
      }
      query(new Generic({ name, text }, values, done))
    })
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

const generic = { name: 'generic', text: 'set plan_cache_mode = force_generic_plan' }
const automatic = { name: 'automatic', text: 'reset plan_cache_mode' }

/** pg's Query and Connection as far as they are used here: what is not in their types, but in the version that package.json pins. */
interface Inside {
  prepare(connection: pg.Connection): void
  handleCommandComplete(message: { text: string }, connection: pg.Connection): void
}
const Query = pg.Query as unknown as new (
  config: object,
  values: unknown[],
  callback: (error: Error | null, result: pg.QueryResult) => void,
) => pg.Query & Inside
interface Steps {
  bind(what: { statement: string }): void
  execute(what: object): void
  sync(): void
}

/**
 * A prepared query whose plan is for any values: PostgreSQL would plan it anew for those of the first five times, to see whether that is worth it.
 * The mode goes there and back in the same message, up to one sync: one transaction, so that of a query that fails it does not stay.
 */
class Generic extends Query {
  override prepare(connection: pg.Connection) {
    const steps = connection as unknown as Steps
    const turn = ({ name }: { name: string }) => {
      steps.bind({ statement: name })
      steps.execute({})
    }
    const sync = () => {
      turn(automatic)
      steps.sync()
    }
    turn(generic)
    super.prepare(Object.create(connection, { sync: { value: sync } }) as pg.Connection)
  }

  override handleCommandComplete(message: { text: string }, connection: pg.Connection) {
    if (message.text !== 'SET' && message.text !== 'RESET') super.handleCommandComplete(message, connection)
  }
}
