/** How many of the documents that were found are of which type, and have which label. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import type { SearchAnswer } from '../../../ports/search-engine.ts'

export const noFacets: SearchAnswer['facets'] = { mime_types: {}, labels: {} }

/** Of these entries. */
export async function facets(db: Db, entries: RawBuilder<unknown>): Promise<SearchAnswer['facets']> {
  const { rows } = await sql<SearchAnswer['facets']>`with found as materialized (${entries}) select ${facetsOf(sql`found`)}`.execute(db)
  return rows[0]!
}

/** Two columns: how many of these entries are of which type, and have which label. What an entry does not say of itself is seen in its document. */
export const facetsOf = (entries: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  (select coalesce(json_object_agg(mime_type, count), '{}') from (
    select coalesce(entry.mime_type, (select documents.mime_type from documents where id = document_id)) as mime_type, count(*)
    from ${entries} entry group by 1 order by count(*) desc, 1
  ) types where mime_type is not null) as mime_types,
  (select coalesce(json_object_agg(name, count), '{}') from (
    select labels.name, count from (
      select label_id, count(*) from ${entries} entry,
        unnest(coalesce(entry.label_ids, array(select label_id from document_labels where document_labels.document_id = entry.document_id))) label_id
      group by label_id
    ) carried join labels on labels.id = label_id order by count desc, labels.name
  ) names) as labels`
