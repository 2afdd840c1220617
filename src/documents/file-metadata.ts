/** Metadata that files say of themselves: `documents.file_metadata` is the part of `documents.metadata` that the last reading of the file wrote. */
import { type RawBuilder, sql } from 'kysely'

/**
 * Returns the metadata of a document with that of its file replaced by `next`. What users added or changed takes precedence.
 * `table`: name or alias of the row of `documents`.
 */
export const withFileMetadata = (table: string, next: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  ${next} || coalesce((select jsonb_object_agg(key, value) from jsonb_each(${sql.ref(`${table}.metadata`)})
    where ${sql.ref(`${table}.file_metadata`)} -> key is distinct from value), '{}')`
