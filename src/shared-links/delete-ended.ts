/** Links that have been of no use to anybody for long. */
import { sql } from 'kysely'
import { deleteInBatches } from '../db/delete-in-batches.ts'
import type { Db } from '../db/pool.ts'

/** Removes those that expired or were revoked more than `age` milliseconds ago; how many. `isDry`: only counts them. */
export const forgetEnded = (db: Db, age: number, isDry: boolean): Promise<number> =>
  deleteInBatches(
    db,
    'shared_links',
    sql`select id from shared_links where least(expires_at, revoked_at) < now() - ${age} * interval '1 ms'`,
    isDry,
  )
