/** Metadata found in files. `documents.file_metadata` has it alone, `documents.metadata` merged with what users added. */
import { type RawBuilder, sql } from 'kysely'

/**
 * Returns `documents.metadata` with the metadata of the file replaced by `next`. Keys that users added or changed keep their values, and keys that
 * they removed stay removed. `table`: name or alias of the row of `documents`.
 */
export const withFileMetadata = (table: string, next: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  (${next} - array(select key from jsonb_object_keys(${sql.ref(`${table}.file_metadata`)}) key where not ${sql.ref(`${table}.metadata`)} ? key))
  || coalesce((select jsonb_object_agg(key, value) from jsonb_each(${sql.ref(`${table}.metadata`)})
    where ${sql.ref(`${table}.file_metadata`)} -> key is distinct from value), '{}')`
