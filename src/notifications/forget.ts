/** Notifications that nobody needs any more. */
import { sql } from 'kysely'
import type { Db } from '../db/db.ts'
import { sweep } from '../db/sweep.ts'

/** Removes those that were read, and are older than `age` milliseconds; how many. `isDry`: only counts them. */
export const forgetRead = (db: Db, age: number, isDry: boolean): Promise<number> =>
  sweep(db, 'notifications', sql`select id from notifications where read_at < now() - ${age} * interval '1 ms'`, isDry)
