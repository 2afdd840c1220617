/** Highlighting of the matches of a page. */
import { setImmediate as yieldToEventLoop } from 'node:timers/promises'
import { sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import type { Highlighting, MarkedField } from '../../hits.ts'
import type { Term } from '../../query/parser.ts'
import { tokenize } from '../../query/tokenizer.ts'
import { editDistance, maxTypos } from '../../query/typos.ts'
import { type Expansions, expandable } from '../../vocabulary/expansions.ts'
import { isMistypable } from '../../vocabulary/vocabulary.ts'
import { textFields } from './mapping.ts'

export const noHighlighting: Highlighting = { markers: {}, passage: null }

/** What to highlight in a field. */
export interface Marked {
  readonly terms: readonly Term[]
  readonly substrings?: readonly string[]
}

/** Maximum number of characters of a text whose words are compared with those of the query. */
const maxCharacters = 200_000
/** Words with a common stem begin with the same letters. */
const stemPrefix = 2

/** Returns the markers of each field. The words of the page decide which of them match by stem, or with typos. */
export function highlightingOf(db: Db, fuzzy: boolean, markedIn: (field: MarkedField) => Marked): Highlighting {
  const marked = textFields.map((field) => [field, markedIn(field)] as const)
  const words = expandable([...new Set(marked.flatMap(([, { terms }]) => terms))]).filter(isMistypable)
  return {
    markers: Object.fromEntries(
      marked.flatMap(([field, { terms, substrings = [] }]) =>
        terms.length + substrings.length === 0 ? [] : [[field, { terms, substrings, expansions: new Map() }]],
      ),
    ),
    passage: null,
    ...(words.length === 0 ? {} : { expand: (texts: readonly string[]) => expansionsIn(db, texts, words, fuzzy) }),
  }
}

async function expansionsIn(db: Db, texts: readonly string[], words: readonly string[], fuzzy: boolean): Promise<Expansions> {
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
    if (typos > 0) expansions.get(word)!.push(...[...vocabulary].filter((other) => editDistance(word, other, typos) <= typos))
  }
  return expansions
}
