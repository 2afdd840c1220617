import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // To find what can be forgotten of keys that nobody comes back with.
  await sql`create index on rate_hits (at)`.execute(db)
}
