import { type Kysely, sql } from 'kysely'

/** A range request continues a view of the same file only. Null: recorded by a server of an earlier release. */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql`alter table shared_link_views add column sha256 text`.execute(db)
  // Downloads that the upgrade interrupts can be resumed.
  await sql`
    update shared_link_views view set sha256 = document.sha256
    from shared_links link join documents document on document.id = link.document_id
    where link.id = view.link_id and view.at > coalesce(document.file_replaced_at, document.created_at)`.execute(db)
}

export const loses = 'which file recent visitors of shared links viewed'

export async function down(db: Kysely<unknown>): Promise<void> {
  await sql`alter table shared_link_views drop column sha256`.execute(db)
}
