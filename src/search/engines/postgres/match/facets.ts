/** Facets: number of matches by MIME type and by label. */
import { type RawBuilder, sql } from 'kysely'

/** Returns two columns, `mime_types` and `labels`, with the counts of a table of entries as JSON objects. */
export const facetsOf = (entries: RawBuilder<unknown>): RawBuilder<unknown> => sql`
  (select coalesce(json_object_agg(mime_type, count), '{}') from (
    select mime_type, count(*) from ${entries} entry group by mime_type order by count(*) desc, mime_type
  ) types) as mime_types,
  (select coalesce(json_object_agg(name, count), '{}') from (
    select labels.name, count from (
      select label_id, count(*) from (select unnest(label_ids) as label_id from ${entries} entry) each group by label_id
    ) carried join labels on labels.id = label_id order by count desc, labels.name
  ) names) as labels`
