import { sql } from 'kysely'
import type { App } from '../../src/app.ts'

/** Opens every connection of the pool, so that concurrent requests of a test do not wait for connections. */
export async function connectAll({ db, config }: App): Promise<void> {
  await Promise.all(Array.from({ length: config.database.pool_max }, () => sql`select pg_sleep(0.05)`.execute(db)))
}
