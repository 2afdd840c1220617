/** The words that occur in documents, so that a typo can be led back to what was meant, and a word to others of its stem. */
import { sql } from 'kysely'
import { kept } from '../../../db/cached-plans.ts'
import type { Db } from '../../../db/pool.ts'
import type { Term } from '../../query/parser.ts'
import type { Token } from '../../query/tokenizer.ts'
import { editDistance, maxTypos, wordParts } from '../../query/typos.ts'
import { longestWord } from './substring-terms.ts'

const shortest = 4
/** Longer ones are not words that anybody mistypes, but text without spaces. */
const longest = 40
/** Spellings of one word, the nearest first, and of all words of a query together. */
const maxSpellings = 200
const maxTogether = 2_000
/** Other words of the same stem, of one word and of all words of a query together. */
const maxStemmed = 30
const maxStemmedTogether = 300
/** Words that begin like one that is but begun: of these each is looked up alone. */
const maxBegun = 250
/** No word has it: what begins with a piece comes before the piece with this behind it. */
const lastCharacter = 0x10ffff
const batch = 5_000
/** Of one batch of documents; a list of codes costs memory up to here. */
const maxCodes = 100_000
/** Words that a process need not tell the database again. */
const maxKnown = 400_000

/** Whether a word is one that somebody could mean with a typo. */
const isMistypable = (word: string): boolean => word.length >= shortest && word.length <= longest && /^\p{L}+$/u.test(word)

/** Whether it begins like a word of letters that is long enough for `begun`, but is none that is remembered as such. */
export const isCode = (word: string): boolean => /^\p{L}{4}./u.test(word) && !isMistypable(word)

/** Distinct words in the making: those that somebody could mean with a typo, and all others of which somebody could ask for a piece. */
export class Vocabulary {
  readonly words = new Set<string>()
  readonly codes = new Set<string>()
  /** codes of OCR languages, of all documents together */
  readonly languages = new Set<string>()

  add({ text, form }: Token): void {
    if (this.words.has(text)) return
    if (isMistypable(text)) this.words.add(text)
    else if ((form === 'word' || form === 'joined') && text.length <= longestWord && this.codes.size < maxCodes) this.codes.add(text)
  }

  /** `language` as of a document: codes joined by `+`. */
  speak(language: string): void {
    for (const code of language.split('+')) this.languages.add(code)
  }
}

/** What this process has told the database already. */
export class Memory {
  #known = new Map<string, Set<string>>()
  #count = 0

  /** Those of the words that are not known yet. `about`: what is known of them. */
  unknown(about: string, words: Iterable<string>): string[] {
    const known = this.#known.get(about)
    return known ? [...words].filter((word) => !known.has(word)) : [...words]
  }

  learn(about: string, words: readonly string[]): void {
    this.#count += words.length
    if (this.#count > maxKnown) {
      this.#known = new Map()
      this.#count = words.length
    }
    const known = this.#known.get(about) ?? new Set()
    for (const word of words) known.add(word)
    this.#known.set(about, known)
  }
}

/** Adds words. Those that no document holds any more stay: they cost a little time, never a wrong answer. */
export async function remember(db: Db, known: Memory, { words, codes, languages }: Vocabulary): Promise<void> {
  const add = async (about: string, all: Iterable<string>, insert: (words: readonly string[]) => Promise<unknown>) => {
    // Sorted, so that two that add the same words wait for each other instead of dying in a deadlock.
    const unknown = known.unknown(about, all).sort()
    for (let start = 0; start < unknown.length; start += batch) await insert(unknown.slice(start, start + batch))
    known.learn(about, unknown)
  }
  await add('language', languages, (some) =>
    sql`insert into search_languages (language) select unnest(${some}::text[]) on conflict do nothing`.execute(db),
  )
  await add('word', words, (some) => sql`insert into search_words (word) select unnest(${some}::text[]) on conflict do nothing`.execute(db))
  await add('code', codes, (some) => sql`insert into search_codes (word) select unnest(${some}::text[]) on conflict do nothing`.execute(db))
  for (const language of [...languages].sort()) {
    await add(language, words, (some) =>
      sql`
        insert into search_stems (language, stem, word)
        select ${language}, dms_stem(${language}, word), word from unnest(${some}::text[]) word where dms_stem(${language}, word) is not null
        on conflict do nothing`.execute(db),
    )
  }
}

/** The words of the terms that may stand for others: one alone, or parts written as one, not quoted, not excluded. */
const open = (terms: readonly Term[]): string[] => [
  ...new Set(
    terms
      .filter(({ quoted, negated }) => !quoted && !negated)
      .flatMap(({ parts, joined }) => (parts.length === 1 ? parts[0]!.text : (joined ?? []))),
  ),
]

export interface Stemmed {
  /** for each word of the terms that has any: the known words of the same stem, in the languages of the documents */
  readonly others: ReadonlyMap<string, readonly string[]>
  /** words of the terms that are known to be in documents themselves */
  readonly known: ReadonlySet<string>
  /** for a word that is but begun: all known words of letters that begin so; not there: they are too many, or nobody knows */
  readonly begun: ReadonlyMap<string, readonly string[]>
}

/** What is known of the words of the terms, of their stems, and of how those go on that are but begun. */
export async function stemmed(db: Db, terms: readonly Term[]): Promise<Stemmed> {
  const words = open(terms).filter(isMistypable)
  const beginnings = terms
    .flatMap(({ parts: [part, ...others] }) => (part!.prefix && others.length === 0 ? [part!.text] : []))
    .filter(isMistypable)
  if (words.length + beginnings.length === 0) return { others: new Map(), known: new Set(), begun: new Map() }
  // Each stem looked up alone: joined, PostgreSQL would read all there are for half a dozen words.
  const { rows } = await sql<{ asked: string; known: string; begins: boolean }>`${kept}
    select asked.word as asked, known.word as known, false as begins
    from unnest(${words}::text[]) asked (word) cross join search_languages
    cross join lateral (
      select word from search_stems where language = search_languages.language and stem = dms_stem(search_languages.language, asked.word) offset 0
    ) known
    union select asked.word, known.word, false
    from unnest(${words}::text[]) asked (word) cross join lateral (select word from search_words where word = asked.word offset 0) known
    union all select asked.word, known.word, true
    from unnest(${beginnings}::text[]) asked (word) cross join lateral (
      select word from search_words where word > asked.word and word < asked.word || chr(${lastCharacter}::int) limit ${maxBegun + 1}
    ) known`.execute(db)
  return {
    ...ofStems(
      rows.filter(({ begins }) => !begins),
      words.length,
    ),
    begun: ofBeginnings(
      beginnings,
      rows.filter(({ begins }) => begins),
    ),
  }
}

function ofBeginnings(beginnings: readonly string[], rows: readonly Known[]): Map<string, readonly string[]> {
  const found = Map.groupBy(rows, ({ asked }) => asked)
  return new Map(
    beginnings.flatMap((word): [string, string[]][] => {
      const known = (found.get(word) ?? []).map(({ known }) => known)
      return known.length > maxBegun ? [] : [[word, known]]
    }),
  )
}

interface Known {
  readonly asked: string
  readonly known: string
}

function ofStems(rows: readonly Known[], words: number): Omit<Stemmed, 'begun'> {
  const share = Math.min(maxStemmed, Math.ceil(maxStemmedTogether / words))
  const byWord = Map.groupBy(
    rows.filter(({ asked, known }) => known !== asked),
    ({ asked }) => asked,
  )
  const others = [...byWord].map(([word, found]): [string, string[]] => [
    word,
    found
      .map(({ known }) => known)
      .sort((one, other) => one.length - other.length || (one < other ? -1 : 1))
      .slice(0, share),
  ])
  return { others: new Map(others), known: new Set(rows.filter(({ asked, known }) => known === asked).map(({ asked }) => asked)) }
}

/** For each word of the terms that may hold typos: the known words that it could have been meant to be. */
export async function spellings(db: Db, terms: readonly Term[]): Promise<Map<string, string[]>> {
  const asked = open(terms).flatMap((word) => {
    const typos = maxTypos(word)
    return typos === 0 || word.length > longest ? [] : { word, typos, size: [...word].length, ...wordParts(word, typos) }
  })
  if (asked.length === 0) return new Map()
  const sizes = asked.flatMap((one) =>
    Array.from({ length: 2 * one.typos + 1 }, (_, more) => ({ ...one, size: one.size - one.typos + more })),
  )
  const middles = asked.flatMap((one) => (one.middle === null ? [] : { ...one, middle: `%${one.middle}%` }))
  // levenshtein() counts a swap as two; what it lets through is measured again here.
  const isNear = sql`levenshtein_less_equal(known.word, asked.word, 2 * typos) <= 2 * typos`
  // Size by size, because the words of one size are together in the indexes; but not of the middles: all of some sizes would be looked up besides.
  const { rows } = await sql<{ asked: string; known: string }>`${kept}
    with asked as (
      select * from unnest(${sizes.map(({ word }) => word)}::text[], ${sizes.map(({ typos }) => typos)}::int[], ${sizes.map(({ size }) => size)}::int[],
        ${sizes.map(({ beginning }) => beginning)}::text[], ${sizes.map(({ ending }) => [...ending].reverse().join(''))}::text[])
        as asked (word, typos, size, beginning, reversed)
    )
    select asked.word as asked, known.word as known
    from asked cross join lateral (
      select word from search_words where char_length(word) = size and word >= beginning and word < beginning || chr(${lastCharacter}::int) offset 0
    ) known where ${isNear}
    union select asked.word, known.word
    from asked cross join lateral (
      select word from search_words where char_length(word) = size and reverse(word) >= reversed and reverse(word) < reversed || chr(${lastCharacter}::int) offset 0
    ) known where ${isNear}
    union select asked.word, known.word
    from unnest(${middles.map(({ word }) => word)}::text[], ${middles.map(({ typos }) => typos)}::int[], ${middles.map(({ size }) => size)}::int[],
      ${middles.map(({ middle }) => middle)}::text[]) as asked (word, typos, size, pattern),
    lateral (select word from search_words where word like pattern offset 0) known
    where char_length(known.word) between size - typos and size + typos and ${isNear}`.execute(db)
  const known = Map.groupBy(rows, (row) => row.asked)
  const share = Math.min(maxSpellings, Math.ceil(maxTogether / known.size))
  return new Map(
    [...known].map(([word, found]) => [
      word,
      nearest(
        word,
        found.map((row) => row.known),
      ).slice(0, share),
    ]),
  )
}

/** Both in one: for each word what counts as it besides. */
export function together(
  one: ReadonlyMap<string, readonly string[]>,
  other: ReadonlyMap<string, readonly string[]>,
): Map<string, string[]> {
  const words = new Set([...one.keys(), ...other.keys()])
  return new Map([...words].map((word) => [word, [...new Set([...(one.get(word) ?? []), ...(other.get(word) ?? [])])]]))
}

function nearest(word: string, known: readonly string[]): string[] {
  const limit = maxTypos(word)
  return known
    .map((other) => ({ other, far: editDistance(word, other, limit) }))
    .filter(({ far }) => far > 0 && far <= limit)
    .sort((one, two) => one.far - two.far || (one.other < two.other ? -1 : 1))
    .map(({ other }) => other)
}
