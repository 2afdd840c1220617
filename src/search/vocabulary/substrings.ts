/** Finds words of the vocabulary that contain a substring. */
import { sql } from 'kysely'
import type { Db } from '../../db/pool.ts'

/**
 * A normalized substring. `isSuffix`: matches only at the end of a word. Otherwise omits words that begin with it, because a prefix query finds them.
 */
export interface Substring {
  readonly text: string
  readonly isSuffix: boolean
}

/** Maximum number, and bytes, of the words for all substrings of a query. */
const maxWords = 2_000
const maxBytes = 200_000

/** Maximum length of a listed word. In longer words, a substring is found at the beginning only. */
export const maxListedLength = 64

/** Words that contain a substring, in the approximate order of their first use. */
export interface Holders {
  readonly words: readonly string[]
  /** Whether `words` is complete. False if there are too many. */
  readonly isComplete: boolean
}

/** Returns for each substring, in order, the words that contain it. */
export async function findWordsWith(db: Db, substrings: readonly Substring[]): Promise<Holders[]> {
  if (substrings.length === 0) return []
  const share = Math.ceil(maxWords / substrings.length)
  // A folded word has letters and digits only: none means anything to LIKE.
  const each = substrings.map(({ text, isSuffix }, nth) => {
    // A subquery per pattern, planned with its value: for one or two letters PostgreSQL would read the whole trigram index.
    const pattern = isSuffix ? `%${text}` : `_%${text}%`
    return sql`
      (select ${nth}::integer as nth, word from (
        select word from search_words where word like ${pattern}
        union all select word from search_codes where word like ${pattern}
        limit ${share + 1}
      ) found)`
  })
  const { rows } = await sql<{ nth: number; word: string }>`${sql.join(each, sql` union all `)}`.execute(db)
  const byNumber = Map.groupBy(rows, ({ nth }) => nth)
  return substrings.map((_, index) => {
    const words = (byNumber.get(index) ?? []).map(({ word }) => word)
    const bytes = words.reduce((sum, word) => sum + Buffer.byteLength(word), 0)
    return { words, isComplete: words.length <= share && bytes <= maxBytes / substrings.length }
  })
}
