/** Warnings of documents: problems of an extraction with status `completed`. */
import { sql } from 'kysely'
import type { DocumentWarning } from '../../db/schema-documents.ts'
import type { Outline } from '../../ports/document-reader.ts'

/** Code of the warning about a type that an optional program reads. */
const programMissing = 'program_missing'

/** Returns the warnings of a document, with these in place of all warnings of this code. */
export const replaceWarnings = (code: string, warnings: readonly DocumentWarning[]) => sql`
  (select coalesce(jsonb_agg(other), '[]') from jsonb_array_elements(warnings) other where other ->> 'code' <> ${code})
    || ${JSON.stringify(warnings)}::jsonb`

/** Returns the warnings of a document. Adds a warning if its type needs a program that is not installed. */
export const warningOfProgram = ({ missingPackage, mimeType }: Outline) =>
  replaceWarnings(
    programMissing,
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
