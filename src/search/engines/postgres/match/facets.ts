/** Facets: number of matches by MIME type, by label and by year of the document date. */
import { type RawBuilder, sql } from 'kysely'

/** Returns the columns `mime_types`, `labels` and `years`, with the counts of a table of entries as JSON objects. */
export const facetsOf = (entries: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  (select coalesce(json_object_agg(mime_type, count), '{}') from (
    select mime_type, count(*) from ${entries} entry group by mime_type order by count(*) desc, mime_type
  ) types) as mime_types,
  (select coalesce(json_object_agg(name, count), '{}') from (
    select labels.name, count from (
      select label_id, count(*) from (select unnest(label_ids) as label_id from ${entries} entry) each group by label_id
    ) carried join labels on labels.id = label_id order by count desc, labels.name
  ) names) as labels,
  (select coalesce(json_object_agg(year, count), '{}') from (
    select extract(year from document_date)::integer as year, count(*) from ${entries} entry where document_date is not null group by 1
  ) years) as years`
