/** Similar documents, as Lucene's MoreLikeThis finds them: the words with the highest tf-idf form a query. */
import { sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import type { SearchHit, SimilarQuery } from '../../../ports/search-engine.ts'
import { hits, noHighlighting, type Scored } from '../../hits.ts'
import { indexed, rangeConditions, rank } from './compile/plan.ts'
import { filterQueries, or, quote, scanKeys } from './compile/tsquery.ts'
import { type Segment, segmentFor, tableOf, withSegments } from './index/segments.ts'
import { newest } from './match/candidates.ts'

/** Number of most frequent words of the document whose document frequency is counted. */
const maxCounted = 40
/** Number of words with the highest tf-idf that rank candidates, and that find them. */
const maxRanking = 16
const maxFinding = 8
/** Maximum document frequency that is counted, and maximum number of candidates. */
const maxDocuments = 1000

/** A pair of characters, the unit of scripts without spaces. */
const spacelessPair = '^[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2}$'

/** Returns the most similar documents, best first. Empty if the document is not indexed. */
export async function moreLikeThis(db: Db, query: SimilarQuery): Promise<readonly SearchHit[]> {
  const scored = await withSegments(db, (segments) => find(db, segments, query))
  return hits(db, scored, noHighlighting)
}

async function find(db: Db, segments: readonly Segment[], { documentId, filter, limit }: SimilarQuery): Promise<Scored[]> {
  const words = await bestWords(db, segments, documentId)
  if (words.length === 0) return []
  const { required, excluded } = filterQueries(filter)
  const keys = scanKeys([...required, or(words.slice(0, maxFinding).map(quote))], excluded)
  const conditions = {
    indexed: keys.map(indexed),
    filters: [...rangeConditions(filter), sql`entry.document_id <> ${documentId}`],
    checks: [],
  }
  const { rows } = await sql<Scored>`
    select document_id, least(1, ${rank(or(words.map(quote)))}) as score from (${newest(segments, conditions, maxDocuments)}) entry
    order by score desc, document_id desc limit ${limit}`.execute(db)
  return rows
}

/** Returns the words with the highest tf-idf. Document frequencies are those of the segment of the document. */
async function bestWords(db: Db, segments: readonly Segment[], documentId: string): Promise<string[]> {
  const own = sql.table(tableOf(segmentFor(segments, documentId).number))
  const { rows: words } = await sql<{ word: string; frequency: number }>`
    select lexeme as word, array_length(positions, 1) + case when 'A' = any(weights) then 3 else 0 end as frequency
    from ${own}, unnest(words)
    where document_id = ${documentId} and (char_length(lexeme) between 3 and 40 or lexeme ~ ${spacelessPair}) and lexeme !~ '^~|^[0-9]+$'
      -- A word of the filename alone is mostly an extension.
      and weights && '{A,B,D}'
    order by frequency desc, char_length(lexeme) desc, lexeme limit ${maxCounted}`.execute(db)
  const { rows: counts } = await sql<{ nth: number; documents: number }>`
    select nth, documents from unnest(${words.map(({ word }) => quote(word))}::text[]) with ordinality as candidate (query, nth), lateral (
      select count(*) as documents from (select from ${own} where words @@ candidate.query::tsquery limit ${maxDocuments}) found
    ) others`.execute(db)
  const documentsWith = new Map(counts.map(({ nth, documents }) => [nth - 1, documents]))
  return words
    .map(({ word, frequency }, index) => ({ word, weight: (1 + Math.log(frequency)) / Math.log(2 + (documentsWith.get(index) ?? 0)) }))
    .sort((one, other) => other.weight - one.weight)
    .slice(0, maxRanking)
    .map(({ word }) => word)
}
