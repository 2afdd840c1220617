/** Notifications that nobody needs any more. */
import { sql } from 'kysely'
import type { Db } from '../db/db.ts'

const batch = 5_000

/** Removes those that were read, and are older than `age` milliseconds; how many. */
export async function forgetRead(db: Db, age: number): Promise<number> {
  for (let total = 0; ; ) {
    const { numAffectedRows = 0n } = await sql`
      delete from notifications where id in (
        select id from notifications where read_at < now() - ${age} * interval '1 ms' limit ${batch})`.execute(db)
    total += Number(numAffectedRows)
    if (numAffectedRows < batch) return total
  }
}
