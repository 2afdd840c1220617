import { type Kysely, sql } from 'kysely'

export async function up(db: Kysely<unknown>): Promise<void> {
  // What the last reading of the file wrote into metadata. Documents of earlier releases: unknown, so all of it counts as added by users.
  await sql`alter table documents add column file_metadata jsonb not null default '{}'`.execute(db)
  // Views do not follow new columns.
  await sql`create or replace view live_documents as select * from documents where deleted_at is null`.execute(db)
  // Null for the current version, whose values are in documents.
  await sql`
    alter table document_versions
      add column file_metadata jsonb,
      add column document_date date,
      add column date_source text constraint document_versions_date_source check (date_source in ('metadata', 'text')),
      add column date_confidence real,
      add column date_checked boolean`.execute(db)
}

export const loses = 'which metadata came from the file of a document, and the dates of versions that are not current'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`
    alter table document_versions drop column file_metadata, drop column document_date, drop column date_source,
      drop column date_confidence, drop column date_checked`.execute(db)
  await sql`drop view live_documents`.execute(db)
  await sql`alter table documents drop column file_metadata`.execute(db)
  await sql`create view live_documents as select * from documents where deleted_at is null`.execute(db)
}
