/** Connections on which PostgreSQL takes queries and never answers, as behind a frozen process or a network that drops packets. */
import pg from 'pg'

/** Checks before a query counts as stalled. A process that was frozen itself must first read the answers that arrived meanwhile. */
const checksPerTimeout = 4

/** A client that knows its oldest unanswered query. */
export class TrackingClient extends pg.Client {
  readonly #pending = new Set<object>()

  constructor(config?: string | pg.ClientConfig) {
    super(config)
    const send = this.query.bind(this) as (...parameters: unknown[]) => unknown
    this.query = ((...parameters: unknown[]) => {
      const result = send(...parameters)
      return result instanceof Promise ? this.track(result) : result
    }) as typeof this.query
  }

  /** Counts a query as unanswered until its promise settles. */
  protected track<T>(result: Promise<T>): Promise<T> {
    const query = {}
    this.#pending.add(query)
    const remove = () => this.#pending.delete(query)
    result.then(remove, remove)
    return result
  }

  /** Returns a token of the oldest unanswered query, or null. */
  oldestQuery(): object | null {
    for (const query of this.#pending) return query
    return null
  }
}

/**
 * Destroys the connection when one query has had no answer for `timeoutMs`, or a quarter more; callers get ETIMEDOUT. `timeoutMs` is longer than
 * the statement timeout, with which PostgreSQL ends queries itself. `isAtWork` tells if this query may take longer all the same.
 */
export function destroyWhenStalled(client: TrackingClient, timeoutMs: number, isAtWork: () => Promise<boolean> = async () => false): void {
  const { stream } = client.connection
  let query: object | null = null
  let checks = 0
  const check = async () => {
    const oldest = client.oldestQuery()
    if (oldest !== query) checks = 0
    query = oldest
    if (!query || checks++ !== checksPerTimeout) return
    if (await isAtWork().catch(() => false)) checks = 0
    else if (client.oldestQuery() === query) stream.destroy(Object.assign(new Error('PostgreSQL does not answer'), { code: 'ETIMEDOUT' }))
  }
  const timer = setInterval(check, timeoutMs / checksPerTimeout).unref()
  stream.once('close', () => clearInterval(timer))
}
