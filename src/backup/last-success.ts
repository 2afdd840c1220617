/** Remembers in the database when something was last done well, for /metrics. */
import { sql } from 'kysely'
import type { Db } from '../db/db.ts'

/** Notes it, by the database's clock; without effect where the schema is older than the table. */
export async function noteSuccess(db: Db, name: 'backup'): Promise<void> {
  const { rows } = await sql<{ found: boolean }>`select to_regclass('runs') is not null as found`.execute(db)
  if (!rows[0]?.found) return
  await db
    .insertInto('runs')
    .values({ name, last_success_at: sql<Date>`now()` })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ last_success_at: sql<Date>`now()` }))
    .execute()
}
