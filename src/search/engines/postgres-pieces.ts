/** Pieces of words: which words of the index hold them. */
import { sql } from 'kysely'
import type { Db } from '../../db/db.ts'

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

/** For each piece, in their order, the words that hold it; null where there are too many. */
export async function wordsWith(db: Db, pieces: readonly Piece[]): Promise<(readonly string[] | null)[]> {
  if (pieces.length === 0) return []
  const share = Math.ceil(maxTogether / pieces.length)
  // A folded word holds letters and digits only: nothing of it means anything to LIKE.
  const patterns = pieces.map(({ text, atEnd }) => (atEnd ? `%${text}` : `_%${text}%`))
  const { rows } = await sql<{ nth: number; word: string }>`
    select nth, word from unnest(${patterns}::text[]) with ordinality as asked (pattern, nth),
    lateral (
      select word from search_words where word like asked.pattern
      union all select word from search_codes where word like asked.pattern
      limit ${share + 1}
    ) found`.execute(db)
  const found = Map.groupBy(rows, ({ nth }) => nth)
  return pieces.map((_, index) => {
    const words = (found.get(index + 1) ?? []).map(({ word }) => word)
    const bytes = words.reduce((sum, word) => sum + Buffer.byteLength(word), 0)
    return words.length > share || bytes > maxBytes / pieces.length ? null : words
  })
}
