import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // Counting a document's comments and deleting a document look for replies too.
  await sql`create index on comments (document_id)`.execute(db)
  // The number of unread notifications is asked for with every page of them.
  await sql`create index on notifications (user_id) where read_at is null`.execute(db)
}
