import { type Kysely, sql } from 'kysely'

/** Indexes of lists. bench/archive-rows.ts measures them. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // Few documents have warnings: lists and metrics read these instead of all.
  await sql`create index documents_with_warnings on documents (created_at desc, id desc) where warnings <> '[]'`.execute(db)
  await sql`create index documents_updated on documents (updated_at, id)`.execute(db)
  // With the documents that have no date, as `sort=document_date` lists them.
  await sql`create index documents_by_date on documents (document_date nulls first, id)`.execute(db)
  await sql`drop index documents_date`.execute(db)
}

export const loses = 'two indexes'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`create index documents_date on documents (document_date, id) where document_date is not null`.execute(db)
  await sql`drop index documents_by_date, documents_updated, documents_with_warnings`.execute(db)
}
