/** Substrings of words: which words of the index hold one. */
import { sql } from 'kysely'
import type { Db } from '../../db/pool.ts'

/** A substring, folded. `isSuffix`: only at the end of a word. Words that begin with it are found as a prefix and not listed, unless they end with it too. */
export interface Substring {
  readonly text: string
  readonly isSuffix: boolean
}

/** Words, and bytes of them, that all substrings of a query together may stand for. */
const maxWords = 2_000
const maxBytes = 200_000

/** Longer words are not listed: a substring is found at their beginning only. */
export const maxListedLength = 64

/** Words that hold a substring, mostly in the order in which they were first indexed: frequent ones before rare ones. */
export interface Holders {
  readonly words: readonly string[]
  /** Whether these are all; false: there are too many. */
  readonly isComplete: boolean
}

/** For each substring, in their order, the words that hold it. */
export async function findWordsWith(db: Db, substrings: readonly Substring[]): Promise<Holders[]> {
  if (substrings.length === 0) return []
  const share = Math.ceil(maxWords / substrings.length)
  // A folded word has letters and digits only: none means anything to LIKE.
  const each = substrings.map(({ text, isSuffix }, nth) => {
    // A subquery per pattern: planned with its value, because the trigram index knows nothing of one or two letters and would be read from end to end.
    const pattern = isSuffix ? `%${text}` : `_%${text}%`
    return sql`
      (select ${nth}::integer as nth, word from (
        select word from search_words where word like ${pattern}
        union all select word from search_codes where word like ${pattern}
        limit ${share + 1}
      ) found)`
  })
  const { rows } = await sql<{ nth: number; word: string }>`${sql.join(each, sql` union all `)}`.execute(db)
  const found = Map.groupBy(rows, ({ nth }) => nth)
  return substrings.map((_, index) => {
    const words = (found.get(index) ?? []).map(({ word }) => word)
    const bytes = words.reduce((sum, word) => sum + Buffer.byteLength(word), 0)
    return { words, isComplete: words.length <= share && bytes <= maxBytes / substrings.length }
  })
}
