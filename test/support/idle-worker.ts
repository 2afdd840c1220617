/** A live worker that runs no jobs, so that commands leave OCR and indexing to it. */
import { sql } from 'kysely'
import type { App } from '../../src/app.ts'

/** Registers a worker of `queues` and sends its heartbeats until the database is closed or the worker is removed. */
export async function registerIdleWorker({ db }: App, queues: readonly string[] = ['ocr']): Promise<void> {
  const name = 'elsewhere/1'
  await db
    .insertInto('workers')
    .values({ name, queues: [...queues], seen_at: sql<Date>`now()` })
    .execute()
  const beat = async (): Promise<boolean> => {
    const { numUpdatedRows } = await db
      .updateTable('workers')
      .set({ seen_at: sql<Date>`now()` })
      .where('name', '=', name)
      .executeTakeFirst()
    return numUpdatedRows === 1n
  }
  const timer = setInterval(
    () =>
      void beat().then(
        (isRegistered) => isRegistered || clearInterval(timer),
        () => clearInterval(timer),
      ),
    5000,
  ).unref()
}
