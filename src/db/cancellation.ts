/** Cancels running statements. */
import { sql } from 'kysely'
import type { Db } from './pool.ts'

/** Runs `work` on one connection, outside of a transaction. When `signal` aborts, cancels its statement, and throws the reason. */
export async function withCancellation(db: Db, signal: AbortSignal | undefined, work: (connection: Db) => Promise<void>): Promise<void> {
  await db.connection().execute(async (connection) => {
    signal?.throwIfAborted()
    const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(connection)
    let cancelling: Promise<unknown> | null = null
    const cancel = () => {
      cancelling = sql`select pg_cancel_backend(${rows[0]?.pid})`.execute(db).catch(() => {})
    }
    signal?.addEventListener('abort', cancel)
    try {
      await work(connection)
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    } finally {
      signal?.removeEventListener('abort', cancel)
      // A late request would cancel a statement of the next user of the connection.
      await cancelling
    }
  })
}
