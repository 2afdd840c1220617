/** A part of a transaction that can fail alone. */
import { sql } from 'kysely'
import type { Trx } from './pool.ts'

/** Does `work` behind a savepoint: what it throws is thrown on, with its writes undone and the transaction still usable. */
export async function inSavepoint<T>(trx: Trx, work: () => Promise<T>): Promise<T> {
  await sql`savepoint part`.execute(trx)
  try {
    const result = await work()
    await sql`release savepoint part`.execute(trx)
    return result
  } catch (error) {
    await sql`rollback to savepoint part; release savepoint part`.execute(trx).catch(() => {})
    throw error
  }
}
