/** The words that occur in documents, so that a typo can be led back to what was meant. */
import { sql } from 'kysely'
import type { Db } from '../../db/db.ts'
import type { Term } from '../query.ts'
import { distance, patterns, tolerated } from '../typos.ts'
import type { Word } from '../words.ts'
import { longestWord } from './postgres-pieces.ts'

const shortest = 4
/** Longer ones are not words that anybody mistypes, but text without spaces. */
const longest = 40
/** Spellings of one word, the nearest first, and of all words of a query together. */
const maxSpellings = 200
const maxTogether = 2_000
const batch = 5_000
/** Of one batch of documents; a list of codes costs memory up to here. */
const maxCodes = 100_000

/** Whether a word is one that somebody could mean with a typo. */
const isMistypable = (word: string): boolean => word.length >= shortest && word.length <= longest && /^\p{L}+$/u.test(word)

/** Distinct words in the making: those that somebody could mean with a typo, and all others of which somebody could ask for a piece. */
export class Vocabulary {
  readonly words = new Set<string>()
  readonly codes = new Set<string>()

  add({ text, form }: Word): void {
    if (this.words.has(text) || this.codes.has(text)) return
    if (isMistypable(text)) this.words.add(text)
    else if ((form === 'word' || form === 'joined') && text.length <= longestWord && this.codes.size < maxCodes) this.codes.add(text)
  }
}

/** Adds words. Those that no document holds any more stay: they cost a little time, never a wrong answer. */
export async function remember(db: Db, { words, codes }: Vocabulary): Promise<void> {
  await insert(db, 'search_words', words)
  await insert(db, 'search_codes', codes)
}

async function insert(db: Db, table: 'search_words' | 'search_codes', seen: Iterable<string>): Promise<void> {
  // Sorted, so that two that add the same words wait for each other instead of dying in a deadlock.
  const words = [...seen].sort()
  for (let start = 0; start < words.length; start += batch) {
    await sql`insert into ${sql.table(table)} (word) select unnest(${words.slice(start, start + batch)}::text[]) on conflict do nothing`.execute(
      db,
    )
  }
}

/** For each word of the terms that may hold typos: the known words that it could have been meant to be. */
export async function spellings(db: Db, terms: readonly Term[]): Promise<Map<string, string[]>> {
  const open = terms.filter(({ parts, quoted, negated }) => parts.length === 1 && !quoted && !negated).map(({ parts }) => parts[0]!.text)
  const asked = [...new Set(open)].flatMap((word) => {
    const typos = tolerated(word)
    return typos === 0 || word.length > longest ? [] : patterns(word, typos).map((pattern) => ({ word, typos, pattern }))
  })
  if (asked.length === 0) return new Map()
  // levenshtein() counts a swap as two; what it lets through is measured again here.
  const { rows } = await sql<{ asked: string; known: string }>`
    select distinct asked.word as asked, search_words.word as known
    from unnest(${asked.map(({ word }) => word)}::text[], ${asked.map(({ pattern }) => pattern)}::text[], ${asked.map(({ typos }) => typos)}::int[])
      as asked (word, pattern, typos)
    join search_words on search_words.word like asked.pattern
      and char_length(search_words.word) between char_length(asked.word) - typos and char_length(asked.word) + typos
      and levenshtein_less_equal(search_words.word, asked.word, 2 * typos) <= 2 * typos`.execute(db)
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

function nearest(word: string, known: readonly string[]): string[] {
  const limit = tolerated(word)
  return known
    .map((other) => ({ other, far: distance(word, other, limit) }))
    .filter(({ far }) => far > 0 && far <= limit)
    .sort((one, two) => one.far - two.far || (one.other < two.other ? -1 : 1))
    .map(({ other }) => other)
}
