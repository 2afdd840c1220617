import { type Kysely, sql } from 'kysely'

/** The text of the only page of a document is stored once, as the text of the document. Existing pages keep theirs. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table document_pages alter text drop not null`.execute(db)
}

export const loses = 'nothing'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`
    update document_pages page set text = document.content from documents document
    where document.id = page.document_id and page.text is null`.execute(db)
  await sql`alter table document_pages alter text set not null`.execute(db)
}
