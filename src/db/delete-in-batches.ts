/** Deletes many rows without long locks. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from './pool.ts'

const batchSize = 5_000

/** Deletes the rows of `table` whose ids `which` selects, some at a time, so that nobody waits for long; how many. `isDry`: only counts them. */
export async function deleteInBatches(db: Db, table: string, idsToDelete: RawBuilder<unknown>, isDryRun: boolean): Promise<number> {
  if (isDryRun) {
    const { rows } = await sql<{ count: number }>`select count(*)::int as count from (${idsToDelete}) old`.execute(db)
    return rows[0]?.count ?? 0
  }
  for (let total = 0; ; ) {
    const { numAffectedRows = 0n } = await sql`delete from ${sql.table(table)} where id in (${idsToDelete} limit ${batchSize})`.execute(db)
    total += Number(numAffectedRows)
    if (numAffectedRows < batchSize) return total
  }
}
