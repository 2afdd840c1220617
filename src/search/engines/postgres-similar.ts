/** Documents that are like one: by the words that say most about it. */
import { sql } from 'kysely'
import type { Db } from '../../db/db.ts'
import type { SearchHit, SimilarQuery } from '../../ports.ts'
import { hits } from './postgres-hits.ts'
import { ranges, rank, type Scored } from './postgres-match.ts'
import { filters, or } from './postgres-query.ts'
import { quote } from './postgres-vector.ts'

/** Words of the document that are counted, by how often it has them; and those that are asked for, the rarest of these. */
const maxCounted = 40
const maxAsked = 15
/** Documents that a word is counted in, and that are ranked. */
const maxSeen = 1000

/** The best first; none where the document is not in the index. */
export async function similar(db: Db, { documentId, filter, limit }: SimilarQuery): Promise<readonly SearchHit[]> {
  const words = await telling(db, documentId)
  if (words.length === 0) return []
  const asked = or(words.map(quote))
  const narrowed = filters(filter).join(' & ')
  const { rows } = await sql<Scored>`
    select document_id, least(1, ${rank(asked)}) as score from (
      select document_id, words from search_entries entry
      where ${sql.join(
        [
          sql`entry.words @@ ${narrowed === '' ? asked : `${asked} & ${narrowed}`}::tsquery`,
          sql`entry.document_id <> ${documentId}`,
          ...ranges(filter),
        ],
        sql` and `,
      )}
      order by document_id desc limit ${maxSeen}
    ) entry order by score desc, document_id desc limit ${limit}`.execute(db)
  return hits(db, rows, { markers: {}, passage: null })
}

/** The words that the document has often and others seldom. */
async function telling(db: Db, documentId: string): Promise<string[]> {
  const { rows: own } = await sql<{ word: string; times: number }>`
    select lexeme as word, array_length(positions, 1) + case when 'A' = any(weights) then 3 else 0 end as times
    from search_entries, unnest(words)
    where document_id = ${documentId} and char_length(lexeme) between 3 and 40 and lexeme !~ '^~|^[0-9]+$' and positions is not null
    order by times desc, char_length(lexeme) desc, lexeme limit ${maxCounted}`.execute(db)
  const { rows: seen } = await sql<{ nth: number; documents: number }>`
    select nth, documents from unnest(${own.map(({ word }) => quote(word))}::text[]) with ordinality as own (query, nth), lateral (
      select count(*) as documents from (select from search_entries where words @@ own.query::tsquery limit ${maxSeen}) found
    ) others`.execute(db)
  const documentsWith = new Map(seen.map(({ nth, documents }) => [nth - 1, documents]))
  return own
    .map(({ word, times }, index) => ({ word, times, documents: documentsWith.get(index) ?? 0 }))
    .filter(({ documents }) => documents > 1)
    .map(({ word, times, documents }) => ({ word, weight: (1 + Math.log(times)) / Math.log(1 + documents) }))
    .sort((one, other) => other.weight - one.weight)
    .slice(0, maxAsked)
    .map(({ word }) => word)
}
