/** Texts of pages in `document_pages`. */
import { sql } from 'kysely'

/** The text of the row `page`. The only page of the row `document` has none of its own: PostgreSQL would compress and store it twice. */
export const pageText = sql<string>`coalesce(page.text, document.content)`
/** The rows `page` with their rows `document`. */
export const pagesWithDocuments = sql`document_pages page join documents document on document.id = page.document_id`
