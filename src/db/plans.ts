/** Plans of prepared statements. */
import type pg from 'pg'

/** in milliseconds. A busy connection spends less than a hundredth of its time on new plans. */
const defaultMaxAge = 5_000

const plannedAt = new WeakMap<pg.ClientBase, number>()

/**
 * Makes the connection plan its prepared statements again if its plans are older than `maxAge` (milliseconds). A plan for a nearly empty table reads
 * all of its rows. PostgreSQL keeps this plan while thousands of rows arrive, until it analyzes the table minutes later.
 */
export async function renewPlans(client: pg.ClientBase, maxAge = defaultMaxAge): Promise<void> {
  const now = performance.now()
  if (now - (plannedAt.get(client) ?? 0) < maxAge) return
  plannedAt.set(client, now)
  // If the connection is lost, the next statement fails, too.
  await client.query('discard plans').catch(() => {})
}
