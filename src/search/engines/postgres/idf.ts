/** How rare words are: of several that are asked for, one that few documents have says more about those that have it. */
import { sql } from 'kysely'
import { kept } from '../../../db/cached-plans.ts'
import type { Db } from '../../../db/pool.ts'
import { entriesOf, reading } from './segments.ts'
import { blockHint } from './tags.ts'
import { quote } from './tsvector.ts'

/** Documents that are looked at, the newest. */
const seen = 1000

export type Rarities = ReadonlyMap<string, number>

/** How rare several words are together: as the rarest of them; 1 where nothing is known. */
export const rarestOf = (words: readonly string[], rare: Rarities): number => Math.max(0, ...words.map((word) => rare.get(word) ?? 0)) || 1

/**
 * For each of these words a number that is the higher the fewer of the newest documents have it, from about 0.7 to 7: the inverse document frequency of
 * Karen Spärck Jones, "A statistical interpretation of term specificity" (1972). Empty where nothing is known, or there is nothing to compare.
 */
export async function rarities(db: Db, words: readonly string[]): Promise<Rarities> {
  const asked = [...new Set(words)]
  if (asked.length < 2) return new Map()
  const { rows: oldest } = await sql<{ id: string }>`${kept} select id from documents order by id desc limit 1 offset ${seen - 1}`.execute(
    db,
  )
  const from = oldest[0]?.id ?? ''
  return reading(db, async (chunks) => {
    const newest = chunks.filter(({ hasHints }, nth) => hasHints && (chunks[nth - 1]?.fromId ?? last) > from)
    if (newest.length === 0) return new Map()
    const counts = newest.map((chunk) => {
      const blocks = chunk.blocks.flatMap((_, block) => ((chunk.blocks[block + 1] ?? last) > from ? [blockHint(block)] : []))
      const isNew = from === '' ? sql`` : sql` and entry.hints && ${blocks}::integer[] and document_id >= ${from}::uuid`
      return sql`(select count(*)::integer from ${entriesOf(chunk)} where entry.words @@ asked.query${isNew})`
    })
    const { rows } = await sql<{ word: string; documents: number }>`${kept}
      select word, ${sql.join(counts, sql` + `)} as documents
      from unnest(${asked}::text[], ${asked.map(quote)}::text[]::tsquery[]) asked (word, query)`.execute(db)
    return new Map(rows.map(({ word, documents }) => [word, Math.log(1 + seen / (1 + documents))]))
  })
}

/** Behind all ids. */
const last = 'g'
