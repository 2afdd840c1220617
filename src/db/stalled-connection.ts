/** Detects connections on which PostgreSQL accepts queries and never answers: a frozen process, or a network that drops packets (F13 in docs/reliability.md). */
import pg from 'pg'

/** Checks before a query counts as stalled. If this process was frozen itself, it first reads the answers that have arrived. */
const checksPerTimeout = 4

/** A client that tracks its oldest unanswered query. */
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
 * Destroys the connection when a query has had no answer for `timeoutMs` to 1.25 × `timeoutMs`; its callers get ETIMEDOUT. `timeoutMs` must exceed
 * the statement timeout, at which PostgreSQL ends queries itself. `isExecuting` returns true if the query may take longer.
 */
export function destroyWhenStalled(
  client: TrackingClient,
  timeoutMs: number,
  isExecuting: () => Promise<boolean> = async () => false,
): void {
  const { stream } = client.connection
  let query: object | null = null
  let checkCount = 0
  const check = async () => {
    const oldest = client.oldestQuery()
    if (oldest !== query) checkCount = 0
    query = oldest
    if (!query || checkCount++ !== checksPerTimeout) return
    if (await isExecuting().catch(() => false)) checkCount = 0
    else if (client.oldestQuery() === query) stream.destroy(Object.assign(new Error('PostgreSQL does not answer'), { code: 'ETIMEDOUT' }))
  }
  const timer = setInterval(check, timeoutMs / checksPerTimeout).unref()
  stream.once('close', () => clearInterval(timer))
}
