/** Expansions without a vocabulary: from the words of the texts that are shown. */
import { sql } from 'kysely'
import type { Db } from '../../db/pool.ts'
import { openYielder } from '../../http/time-slices.ts'
import { tokenize } from '../query/tokenizer.ts'
import { editDistance, maxTypos } from '../query/typos.ts'
import type { Expansions } from './expansions.ts'
import { isMistypable } from './vocabulary.ts'

/** Maximum number of characters of a text whose words are compared with those of the query. */
const maxCharacters = 200_000
/** Number of letters with which all words of one stem begin. */
const stemPrefix = 2
/** Words that are compared in one step. */
const stepWords = 1_000

/** Returns for each word of a query the words of these texts with the same stem and, if `fuzzy`, within the edit distance of a typo. */
export async function expansionsIn(
  db: Db,
  texts: readonly string[],
  words: readonly string[],
  { fuzzy }: { fuzzy: boolean },
): Promise<Expansions> {
  if (texts.length === 0 || words.length === 0) return new Map()
  const pause = openYielder()
  const vocabulary = new Set<string>()
  const beginnings = new Set(words.map((word) => word.slice(0, stemPrefix)))
  const related: string[] = []
  let count = 0
  for (const text of texts) {
    for (const { text: word } of tokenize(text.slice(0, maxCharacters))) {
      if (++count % stepWords === 0) await pause()
      if (vocabulary.has(word) || !isMistypable(word)) continue
      vocabulary.add(word)
      if (beginnings.has(word.slice(0, stemPrefix))) related.push(word)
    }
  }
  const { rows } = await sql<{ word: string; expansion: string }>`
    with stems as (
      select word, language, dms_stem(language, word) as stem from unnest(${[...new Set([...related, ...words])]}::text[]) word cross join search_languages
    )
    select distinct query.word, other.word as expansion from stems query join stems other using (language, stem)
    where query.word = any(${words}::text[]) and other.word <> query.word`.execute(db)
  const expansions = new Map(words.map((word) => [word, [] as string[]]))
  for (const { word, expansion } of rows) expansions.get(word)!.push(expansion)
  if (!fuzzy) return expansions
  for (const word of words) {
    const typos = maxTypos(word)
    if (typos === 0) continue
    for (const other of vocabulary) {
      if (++count % stepWords === 0) await pause()
      if (editDistance(word, other, typos) <= typos) expansions.get(word)!.push(other)
    }
  }
  return expansions
}
