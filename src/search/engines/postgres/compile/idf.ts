/** Inverse document frequency: rare words count more than frequent ones. */
import { sql } from 'kysely'
import type { Db } from '../../../../db/pool.ts'
import { nilId } from '../../../../id.ts'
import { entriesOf, withSegments } from '../index/segments.ts'
import { blockTerm } from '../index/terms.ts'
import { or, quote } from './tsquery.ts'

/** Number of newest documents in which words are counted. */
const sampleSize = 1000

/** Idf by word. Empty for queries of one word. */
export type Idf = ReadonlyMap<string, number>

/** Returns the idf of the rarest word, or 1 if none has an idf. */
export const idfOf = (words: readonly string[], idf: Idf): number => Math.max(0, ...words.map((word) => idf.get(word) ?? 0)) || 1

/** Sorts after all ids. */
const lastId = 'g'

/** Returns the idf of each word, about 0.7 to 7: Spärck Jones, "A statistical interpretation of term specificity" (1972). */
export async function loadIdf(db: Db, words: readonly string[]): Promise<Idf> {
  const unique = [...new Set(words)]
  if (unique.length < 2) return new Map()
  const { rows: oldest } = await sql<{ id: string }>`
    select id from live_documents order by created_at desc, id desc limit 1 offset ${sampleSize - 1}`.execute(db)
  const from = oldest[0]?.id ?? nilId
  return withSegments(db, async (segments) => {
    const newest = segments.filter((_, nth) => (segments[nth - 1]?.fromId ?? lastId) > from)
    const counts = newest.map((segment) => {
      const blocks = segment.blocks.flatMap((_, block) => ((segment.blocks[block + 1] ?? lastId) > from ? [quote(blockTerm(block))] : []))
      return sql`(
        select count(*)::integer from ${entriesOf(segment)}
        where entry.words @@ counted.query and entry.words @@ ${or(blocks)}::tsquery and document_id >= ${from}::uuid)`
    })
    const { rows } = await sql<{ word: string; documents: number }>`
      select word, ${sql.join(counts, sql` + `)} as documents
      from unnest(${unique}::text[], ${unique.map(quote)}::text[]::tsquery[]) counted (word, query)`.execute(db)
    return new Map(rows.map(({ word, documents }) => [word, Math.log(1 + sampleSize / (1 + documents))]))
  })
}
