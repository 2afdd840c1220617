/** Records the last success of recurring tasks. */
import { sql } from 'kysely'
import type { Db } from '../db/pool.ts'

export type RecurringTask = 'backup' | 'maintenance' | 'rehearsal'

/** Records a success at the database's current time. Does nothing on a schema without the table. */
export async function recordSuccess(db: Db, name: RecurringTask): Promise<void> {
  const { rows } = await sql<{ found: boolean }>`select to_regclass('runs') is not null as found`.execute(db)
  if (!rows[0]?.found) return
  await db
    .insertInto('runs')
    .values({ name, last_success_at: sql<Date>`now()` })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ last_success_at: sql<Date>`now()` }))
    .execute()
}

/** Returns whether the task has not succeeded within the last `seconds`. */
export async function isDue(db: Db, name: RecurringTask, seconds: number): Promise<boolean> {
  const { rows } = await sql`
    select from runs where name = ${name} and last_success_at > now() - ${seconds} * interval '1 s'`.execute(db)
  return rows.length === 0
}
