/** Pieces of words: which words of the index hold them. */
import { sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'

/** A piece of a word, folded; `atEnd`: only where the word ends with it. Words that begin with it are found as a prefix and not listed, save at the end. */
export interface Piece {
  readonly text: string
  readonly atEnd: boolean
}

/** Words, and bytes of them, that all pieces of a query together may stand for: a query has an end, and one with so many words is better read from the documents. */
const maxTogether = 2_000
const maxBytes = 200_000

/** Longer words are not listed: a piece is found at their beginning only. */
export const longestWord = 64

/** Words that hold a piece, mostly in the order in which they came up first: common ones before rare ones. */
export interface Holding {
  readonly words: readonly string[]
  /** false: they are too many, and these are but some */
  readonly isAll: boolean
}

/** For each piece, in their order, the words that hold it. */
export async function wordsWith(db: Db, pieces: readonly Piece[]): Promise<Holding[]> {
  if (pieces.length === 0) return []
  const share = Math.ceil(maxTogether / pieces.length)
  // A folded word holds letters and digits only: nothing of it means anything to LIKE.
  const each = pieces.map(({ text, atEnd }, nth) => {
    // Each pattern on its own, so that PostgreSQL sees it while it plans: the index knows nothing of one or two letters, and would be read from end to end for them.
    const pattern = atEnd ? `%${text}` : `_%${text}%`
    return sql`
      (select ${nth}::integer as nth, word from (
        select word from search_words where word like ${pattern}
        union all select word from search_codes where word like ${pattern}
        limit ${share + 1}
      ) found)`
  })
  const { rows } = await sql<{ nth: number; word: string }>`${sql.join(each, sql` union all `)}`.execute(db)
  const found = Map.groupBy(rows, ({ nth }) => nth)
  return pieces.map((_, index) => {
    const words = (found.get(index) ?? []).map(({ word }) => word)
    const bytes = words.reduce((sum, word) => sum + Buffer.byteLength(word), 0)
    return { words, isAll: words.length <= share && bytes <= maxBytes / pieces.length }
  })
}
