/** Warnings of documents: problems of an extraction with status `completed`. */
import { sql } from 'kysely'
import type { Db } from '../../db/pool.ts'
import type { DocumentWarning } from '../../db/schema-documents.ts'
import type { Outline } from '../../ports/document-reader.ts'

/** Code of the warning about a type that an optional program reads. */
const programMissing = 'program_missing'

/** Code of the warning about pages whose time limit left no time for a further pass of OCR. */
const ocrIncomplete = 'ocr_incomplete'

/** Maximum page numbers in a warning. */
export const maxWarningPages = 100

/** The warnings of a document without those of the codes. */
const otherWarnings = (codes: readonly string[]) =>
  sql`(select coalesce(jsonb_agg(other), '[]') from jsonb_array_elements(warnings) other where other ->> 'code' <> all(${codes}))`

/** Returns the warnings of a document, with these in place of all warnings of these codes. */
export const replaceWarnings = (codes: readonly string[], warnings: readonly DocumentWarning[]) => sql`
  ${otherWarnings(codes)} || ${JSON.stringify(warnings)}::jsonb`

/** Returns the warnings at the start of an extraction: a warning if the type of the document needs a program that is not installed. */
export const warningOfProgram = ({ missingPackage, mimeType }: Outline) =>
  replaceWarnings(
    [programMissing, ocrIncomplete],
    missingPackage === undefined
      ? []
      : [
          {
            code: programMissing,
            message: `Files of the type ${mimeType} are read if ${missingPackage} is installed.`,
            package: missingPackage,
          },
        ],
  )

/** Adds a page to the warning about incomplete pages. Does nothing if the claim on the page has been lost. */
export async function warnIncomplete(db: Db, { document_id, page, claim }: { document_id: string; page: number; claim: string }) {
  const message = 'The time limit of these pages left no time for a further pass of OCR. Words may be missing.'
  await sql`
    update documents set warnings = ${otherWarnings([ocrIncomplete])} || jsonb_build_array(jsonb_build_object('code', ${ocrIncomplete}::text, 'message', ${message}::text, 'pages', (
        select jsonb_agg(number order by number) from (
          select ${page}::int as number
          union select number::int from jsonb_array_elements(warnings) warning, jsonb_array_elements(warning -> 'pages') number
          where warning ->> 'code' = ${ocrIncomplete} order by number limit ${maxWarningPages}
        ) numbers)))
    where id = ${document_id}
      and exists (select from document_pages p where p.document_id = ${document_id} and p.page = ${page} and p.claim = ${claim})`.execute(
    db,
  )
}
