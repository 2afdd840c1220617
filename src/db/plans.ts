/** Plans of prepared statements. */
import type pg from 'pg'

/** in milliseconds. A busy connection spends less than a hundredth of its time on new plans. */
const defaultMaxAge = 5_000

const plannedAt = new WeakMap<pg.ClientBase, number>()

/**
 * Discards the plans of a connection's prepared statements if they are older than `maxAge` (milliseconds). A statement that was planned while its table
 * was nearly empty scans the whole table. PostgreSQL keeps that plan until it next analyzes the table, by which time there may be thousands of rows.
 */
export async function renewPlans(client: pg.ClientBase, maxAge = defaultMaxAge): Promise<void> {
  const now = performance.now()
  if (now - (plannedAt.get(client) ?? 0) < maxAge) return
  plannedAt.set(client, now)
  // If the connection is lost, the next statement fails, too.
  await client.query('discard plans').catch(() => {})
}
