import { type Kysely, sql } from 'kysely'

/** Separate from the columns, so that reads continue while the indexes are built. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`create index documents_date on documents (document_date, id) where document_date is not null`.execute(db)
  // Empty once the documents of earlier versions are dated.
  await sql`create index documents_undated on documents (id) where not date_checked and status in ('completed', 'failed')`.execute(db)
}

export const loses = 'two indexes'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`drop index documents_date, documents_undated`.execute(db)
}
