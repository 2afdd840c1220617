import { type Kysely, sql } from 'kysely'

/** Adds columns without a rewrite, and constraints without a scan of the table. */
export async function up(db: Kysely<unknown>): Promise<void> {
  // The date on the document, as of a letter. date_confidence is that of a date found in the text, 0 to 1.
  // date_checked: a date was looked for. Documents of earlier versions are checked by the worker.
  await sql`
    alter table documents
      add column document_date date,
      add column date_source text,
      add column date_confidence real,
      add column date_checked boolean not null default false,
      add constraint documents_date_source check (date_source in ('user', 'metadata', 'text')) not valid`.execute(db)
  // An entry has no date until its document has one, so that existing entries stay correct.
  const { rows } = await sql<{ number: number }>`select number from search_segments order by number`.execute(db)
  for (const table of ['search_segment_template', ...rows.map(({ number }) => `search_segment_${number}`)])
    await sql`alter table if exists ${sql.table(table)} add column document_date date`.execute(db)
}

export const loses = 'the dates of documents'

export async function down(db: Kysely<unknown>): Promise<void> {
  const { rows } = await sql<{ number: number }>`select number from search_segments order by number`.execute(db)
  for (const table of ['search_segment_template', ...rows.map(({ number }) => `search_segment_${number}`)])
    await sql`alter table if exists ${sql.table(table)} drop column document_date`.execute(db)
  await sql`
    alter table documents drop column document_date, drop column date_source, drop column date_confidence, drop column date_checked`.execute(
    db,
  )
}
