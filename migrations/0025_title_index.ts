import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // A title of 1,000 characters is too long for an index. Equal prefixes are sorted by the whole title.
  await sql`create index documents_by_title on documents (owner_id, left(title, 100)) where deleted_at is null`.execute(db)
}

export const loses = 'an index'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop index documents_by_title`.execute(db)
}
