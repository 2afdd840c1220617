/** Documents that are like one: by the words that say most about it. */
import { sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import type { SearchHit, SimilarQuery } from '../../../ports/search-engine.ts'
import type { Scored } from './candidates.ts'
import { hits } from './hits.ts'
import { indexed, ranges, rank } from './plan.ts'
import { type Chunk, chunkFor, entriesOf, reading, tableOf } from './segments.ts'
import { filterHints } from './tags.ts'
import { eachAlone, filters, or } from './tsquery.ts'
import { quote } from './tsvector.ts'

/** Words of the document that are counted, the ones it has most often; of these, so many that are rarest rank others, and so many find them. */
const maxCounted = 40
const maxRanking = 16
const maxFinding = 8
/** Documents that a word is counted in, and that are ranked. */
const maxSeen = 1000

/** In scripts without spaces a pair of characters says about as much as a word elsewhere. */
const spacelessPair = '^[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2}$'

/** The best first; none where the document is not in the index. */
export async function similar(db: Db, query: SimilarQuery): Promise<readonly SearchHit[]> {
  const scored = await reading(db, (chunks) => find(db, chunks, query))
  return hits(db, scored, { markers: {}, passage: null })
}

async function find(db: Db, chunks: readonly Chunk[], { documentId, filter, limit }: SimilarQuery): Promise<Scored[]> {
  const words = await telling(db, chunks, documentId)
  if (words.length === 0) return []
  const { wanted, unwanted } = filters(filter)
  const finding = eachAlone([...wanted, or(words.slice(0, maxFinding).map(quote))], unwanted)
  const found: Scored[] = []
  for (const chunk of chunks) {
    if (found.length >= maxSeen) break
    const conditions = [
      ...indexed({ matches: finding, hints: [], oneOf: chunk.hasHints ? filterHints(filter) : [] }),
      ...ranges(filter),
      sql`entry.document_id <> ${documentId}`,
    ]
    const { rows } = await sql<Scored>`
      select document_id, least(1, ${rank(or(words.map(quote)))}) as score from (
        select entry.* from (select entry.* from ${entriesOf(chunk)} where ${sql.join(conditions, sql` and `)} offset 0) entry
        order by document_id desc limit ${maxSeen - found.length}
      ) entry`.execute(db)
    found.push(...rows)
  }
  return found.sort((one, other) => other.score - one.score || (one.document_id < other.document_id ? 1 : -1)).slice(0, limit)
}

/** The words that the document has often and others seldom, the most telling first; how seldom is seen in its own chunk. */
async function telling(db: Db, chunks: readonly Chunk[], documentId: string): Promise<string[]> {
  const own = sql.table(tableOf(chunkFor(chunks, documentId).number))
  const { rows: words } = await sql<{ word: string; times: number }>`
    select lexeme as word, array_length(positions, 1) + case when 'A' = any(weights) then 3 else 0 end as times
    from ${own}, unnest(words)
    where document_id = ${documentId} and (char_length(lexeme) between 3 and 40 or lexeme ~ ${spacelessPair}) and lexeme !~ '^~|^[0-9]+$'
      -- What stands in the filename alone is mostly what many end in.
      and weights && '{A,B,D}'
    order by times desc, char_length(lexeme) desc, lexeme limit ${maxCounted}`.execute(db)
  const { rows: seen } = await sql<{ nth: number; documents: number }>`
    select nth, documents from unnest(${words.map(({ word }) => quote(word))}::text[]) with ordinality as asked (query, nth), lateral (
      select count(*) as documents from (select from ${own} where words @@ asked.query::tsquery limit ${maxSeen}) found
    ) others`.execute(db)
  const documentsWith = new Map(seen.map(({ nth, documents }) => [nth - 1, documents]))
  return words
    .map(({ word, times }, index) => ({ word, weight: (1 + Math.log(times)) / Math.log(2 + (documentsWith.get(index) ?? 0)) }))
    .sort((one, other) => other.weight - one.weight)
    .slice(0, maxRanking)
    .map(({ word }) => word)
}
