/** Expansions without a vocabulary: from the words of the texts that are shown. */
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Db } from '../../db/pool.ts'
import { tokenize } from '../query/tokenizer.ts'
import { editDistance, maxTypos } from '../query/typos.ts'
import type { Expansions } from './expansions.ts'
import { isMistypable } from './vocabulary.ts'

/** Maximum number of characters of a text whose words are compared with those of the query. */
const maxCharacters = 200_000
/** Number of letters with which all words of one stem begin. */
const stemPrefix = 2

/** Returns for each word of a query the words of these texts with the same stem and, if `fuzzy`, within the edit distance of a typo. */
export async function expansionsIn(db: Db, texts: readonly string[], words: readonly string[], fuzzy: boolean): Promise<Expansions> {
  if (texts.length === 0 || words.length === 0) return new Map()
  const vocabulary = new Set<string>()
  for (const text of texts) {
    for (const { text: word } of tokenize(text.slice(0, maxCharacters))) if (isMistypable(word)) vocabulary.add(word)
    await yieldToEventLoop()
  }
  const beginnings = new Set(words.map((word) => word.slice(0, stemPrefix)))
  const related = [...vocabulary].filter((word) => beginnings.has(word.slice(0, stemPrefix)))
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
    await yieldToEventLoop()
    if (typos > 0) expansions.get(word)!.push(...[...vocabulary].filter((other) => editDistance(word, other, typos) <= typos))
  }
  return expansions
}
