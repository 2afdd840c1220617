/** A PostgreSQL that takes queries and never answers, as behind a frozen machine or a network that swallows: nobody may wait for it for ever. */
import type pg from 'pg'

/** pg's client as far as it is looked into here: what is not in its types, but in the version that package.json pins. */
interface Inside {
  _getActiveQuery(): unknown
}

/** Looks at a query before it counts as hung: a process that was itself frozen must not take its own silence for PostgreSQL's. */
const looks = 4

/**
 * Cuts the connection once PostgreSQL has been at one query for `patience` ms or a little more; whoever waits gets ETIMEDOUT. PostgreSQL ends a
 * query by itself before that; `isAtWork` says whether this one may take longer all the same.
 */
export function cutWhenHung(
  client: pg.Client | pg.PoolClient,
  patience: number,
  isAtWork: () => Promise<boolean> = async () => false,
): void {
  const { stream } = (client as pg.Client).connection
  const awaited = () => (client as unknown as Inside)._getActiveQuery()
  let query: unknown = null
  let seen = 0
  const look = async () => {
    if (awaited() !== query) seen = 0
    query = awaited()
    if (!query || seen++ !== looks) return
    if (await isAtWork().catch(() => false)) seen = 0
    else if (awaited() === query) stream.destroy(Object.assign(new Error('PostgreSQL does not answer'), { code: 'ETIMEDOUT' }))
  }
  const timer = setInterval(look, patience / looks).unref()
  stream.once('close', () => clearInterval(timer))
}
