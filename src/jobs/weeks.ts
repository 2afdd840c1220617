/** The partitions of completed jobs, one per week. migrations/0024_job_partitions.ts defines the functions. */
import { sql } from 'kysely'
import type { Db } from '../db/pool.ts'
import type { DeletionOptions } from '../db/statements.ts'

/**
 * Adds missing partitions for this week and the next four. Waits at most 100 ms for each lock; the next call adds partitions that are still missing.
 */
export async function addJobWeeks(db: Db): Promise<void> {
  await sql`select dms_add_job_weeks(now(), now() + interval '4 weeks')`.execute(db)
}

/** Drops the weeks that ended `ageMs` ago. Returns the number of their jobs. */
export async function dropJobWeeks(db: Db, ageMs: number, { isDryRun = false }: DeletionOptions = {}): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select dms_drop_job_weeks(now() - ${ageMs} * interval '1 ms', ${isDryRun}) as count`.execute(db)
  return rows[0]?.count ?? 0
}
