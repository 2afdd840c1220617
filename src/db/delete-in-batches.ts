/** Rows that are needed no more. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from './pool.ts'

const batch = 5_000

/** Deletes the rows of `table` whose ids `which` selects, some at a time, so that nobody waits for long; how many. `isDry`: only counts them. */
export async function sweep(db: Db, table: string, which: RawBuilder<unknown>, isDry: boolean): Promise<number> {
  if (isDry) {
    const { rows } = await sql<{ count: number }>`select count(*)::int as count from (${which}) old`.execute(db)
    return rows[0]?.count ?? 0
  }
  for (let total = 0; ; ) {
    const { numAffectedRows = 0n } = await sql`delete from ${sql.table(table)} where id in (${which} limit ${batch})`.execute(db)
    total += Number(numAffectedRows)
    if (numAffectedRows < batch) return total
  }
}
