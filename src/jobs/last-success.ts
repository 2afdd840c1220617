/** Records the last success of recurring tasks. */
import { sql } from 'kysely'
import type { Db } from '../db/pool.ts'

/** `tables_backup`: a backup without files */
export type RecurringTask = 'backup' | 'maintenance' | 'rehearsal' | 'tables_backup'

/** Records a success at the database's current time. Does nothing on an older schema without the table. */
export async function recordSuccess(db: Db, name: RecurringTask): Promise<void> {
  const { rows } = await sql<{ exists: boolean }>`select to_regclass('runs') is not null as exists`.execute(db)
  if (!rows[0]?.exists) return
  await sql`
    insert into runs (name, last_success_at) values (${name}, now())
    on conflict (name) do update set last_success_at = excluded.last_success_at`.execute(db)
}

/** Returns whether the task has not succeeded within the last `seconds`. A success in the future does not count: the clock was ahead. */
export async function isDue(db: Db, name: RecurringTask, seconds: number): Promise<boolean> {
  const { rows } = await sql`
    select from runs where name = ${name} and last_success_at > now() - ${seconds} * interval '1 s' and last_success_at <= now()`.execute(
    db,
  )
  return rows.length === 0
}
