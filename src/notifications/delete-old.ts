/** Notifications that nobody needs any more. */
import { sql } from 'kysely'
import { deleteInBatches } from '../db/delete-in-batches.ts'
import type { Db } from '../db/pool.ts'

/** Removes those that were read, and are older than `age` milliseconds; how many. `isDry`: only counts them. */
export const forgetRead = (db: Db, age: number, isDry: boolean): Promise<number> =>
  deleteInBatches(db, 'notifications', sql`select id from notifications where read_at < now() - ${age} * interval '1 ms'`, isDry)
