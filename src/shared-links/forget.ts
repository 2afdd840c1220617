/** Links that have been of no use to anybody for long. */
import { sql } from 'kysely'
import type { Db } from '../db/db.ts'
import { sweep } from '../db/sweep.ts'

/** Removes those that expired or were revoked more than `age` milliseconds ago; how many. `isDry`: only counts them. */
export const forgetEnded = (db: Db, age: number, isDry: boolean): Promise<number> =>
  sweep(db, 'shared_links', sql`select id from shared_links where least(expires_at, revoked_at) < now() - ${age} * interval '1 ms'`, isDry)
