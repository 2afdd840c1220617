/** Expands words of a query to other words of the vocabulary. */
import { sql } from 'kysely'
import type { Db } from '../../db/pool.ts'
import type { Term } from '../query/parser.ts'
import { editDistance, maxTypos, wordParts } from '../query/typos.ts'
import { isMistypable, maxLetters } from './vocabulary.ts'

/** Expansions by word: words with the same stem, and words within the edit distance of a typo. */
export type Expansions = ReadonlyMap<string, readonly string[]>

/** Maximum number of expansions by typos, per word and per query. */
const maxTypoWords = 200
const maxTypoWordsOfQuery = 2_000
/** Maximum number of expansions by stem, per word and per query. */
const maxStems = 30
const maxStemsOfQuery = 300
/** Sorts after every character of a word. */
const lastCharacter = 0x10ffff

/** Returns the words that may be expanded: single words and joined parts of terms that are neither quoted nor negated. */
export const expandable = (terms: readonly Term[]): string[] => [
  ...new Set(
    terms
      .filter(({ quoted, negated }) => !quoted && !negated)
      .flatMap(({ parts, joined }) => (parts.length === 1 ? parts[0]!.text : (joined ?? []))),
  ),
]

/** Returns for each word of the terms the words with the same stem, in the languages of the documents. */
export async function stemExpansions(db: Db, terms: readonly Term[]): Promise<Map<string, string[]>> {
  const words = expandable(terms).filter(isMistypable)
  if (words.length === 0) return new Map()
  // A lateral subquery: as a join, PostgreSQL would read all stems for half a dozen words.
  const { rows } = await sql<{ word: string; expansion: string }>`
    select distinct query.word as word, vocabulary.word as expansion
    from unnest(${words}::text[]) query (word) cross join search_languages
    cross join lateral (select dms_stem(search_languages.language, query.word) as stem offset 0) own
    cross join lateral (
      select word from search_stems where language = search_languages.language and stem = own.stem
      union all
      select word from search_words where word = own.stem and dms_stem(search_languages.language, word) = word
    ) vocabulary where vocabulary.word <> query.word`.execute(db)
  const share = Math.min(maxStems, Math.ceil(maxStemsOfQuery / words.length))
  return new Map(
    [...Map.groupBy(rows, ({ word }) => word)].map(([word, rows]) => [
      word,
      rows
        .map(({ expansion }) => expansion)
        .sort((one, other) => one.length - other.length || (one < other ? -1 : 1))
        .slice(0, share),
    ]),
  )
}

/** Returns for each word of the terms the nearest words within the edit distance of its length. Indexes on beginnings and endings find them; see wordParts(). */
export async function typoExpansions(db: Db, terms: readonly Term[]): Promise<Map<string, string[]>> {
  const words = expandable(terms).flatMap((word) => {
    const typos = maxTypos(word)
    return typos === 0 || word.length > maxLetters ? [] : { word, typos, size: [...word].length, ...wordParts(word, typos) }
  })
  if (words.length === 0) return new Map()
  const sizes = words.flatMap((one) =>
    Array.from({ length: 2 * one.typos + 1 }, (_, more) => ({ ...one, size: one.size - one.typos + more })),
  )
  const middles = words.flatMap((one) => (one.middle === null ? [] : { ...one, middle: `%${one.middle}%` }))
  // levenshtein() counts a swap as two edits; editDistance() checks its results.
  const isNear = sql`levenshtein_less_equal(vocabulary.word, query.word, 2 * typos) <= 2 * typos`
  // Beginnings and endings: one lookup per word size, because the indexes order words by size. Middles: one lookup for all sizes.
  const { rows } = await sql<{ word: string; expansion: string }>`
    with query as (
      select * from unnest(${sizes.map(({ word }) => word)}::text[], ${sizes.map(({ typos }) => typos)}::int[], ${sizes.map(({ size }) => size)}::int[],
        ${sizes.map(({ beginning }) => beginning)}::text[], ${sizes.map(({ ending }) => [...ending].reverse().join(''))}::text[])
        as query (word, typos, size, beginning, reversed)
    )
    select query.word as word, vocabulary.word as expansion
    from query cross join lateral (
      select word from search_words where char_length(word) = size and word >= beginning and word < beginning || chr(${lastCharacter}::int) offset 0
    ) vocabulary where ${isNear}
    union select query.word, vocabulary.word
    from query cross join lateral (
      select word from search_words where char_length(word) = size and reverse(word) >= reversed and reverse(word) < reversed || chr(${lastCharacter}::int) offset 0
    ) vocabulary where ${isNear}
    union select query.word, vocabulary.word
    from unnest(${middles.map(({ word }) => word)}::text[], ${middles.map(({ typos }) => typos)}::int[], ${middles.map(({ size }) => size)}::int[],
      ${middles.map(({ middle }) => middle)}::text[]) as query (word, typos, size, pattern),
    lateral (select word from search_words where word like pattern offset 0) vocabulary
    where char_length(vocabulary.word) between size - typos and size + typos and ${isNear}`.execute(db)
  const byWord = Map.groupBy(rows, ({ word }) => word)
  const share = Math.min(maxTypoWords, Math.ceil(maxTypoWordsOfQuery / byWord.size))
  return new Map(
    [...byWord].map(([word, rows]) => [
      word,
      nearest(
        word,
        rows.map(({ expansion }) => expansion),
      ).slice(0, share),
    ]),
  )
}

/** Joins two sets of expansions. */
export function mergeExpansions(one: Expansions, other: Expansions): Map<string, string[]> {
  const words = new Set([...one.keys(), ...other.keys()])
  return new Map([...words].map((word) => [word, [...new Set([...(one.get(word) ?? []), ...(other.get(word) ?? [])])]]))
}

function nearest(word: string, words: readonly string[]): string[] {
  const limit = maxTypos(word)
  return words
    .map((other) => ({ other, far: editDistance(word, other, limit) }))
    .filter(({ far }) => far > 0 && far <= limit)
    .sort((one, two) => one.far - two.far || (one.other < two.other ? -1 : 1))
    .map(({ other }) => other)
}
