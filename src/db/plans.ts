/** Plans of prepared statements. */
import type pg from 'pg'

/** in milliseconds. A busy connection spends less than a hundredth of its time on new plans. */
const defaultMaxAge = 5_000

const plannedAt = new WeakMap<pg.ClientBase, number>()

/**
 * Makes the connection plan its prepared statements again if its plans are older than `maxAge` (milliseconds). A plan made while a table was nearly empty
 * reads the whole table, even when it has thousands of rows, until PostgreSQL analyzes the table: that can take minutes.
 */
export async function renewPlans(client: pg.ClientBase, maxAge = defaultMaxAge): Promise<void> {
  const now = performance.now()
  if (now - (plannedAt.get(client) ?? 0) < maxAge) return
  plannedAt.set(client, now)
  // If the connection is lost, the next statement fails, too.
  await client.query('discard plans').catch(() => {})
}
