/** Highlighting of the matches of a page. */
import type { Db } from '../../../db/pool.ts'
import { type Highlighting, type MarkedField, markersOf } from '../../hits.ts'
import type { Term } from '../../query/parser.ts'
import { expandable } from '../../vocabulary/expansions.ts'
import { expansionsIn } from '../../vocabulary/expansions-in-texts.ts'
import { isMistypable } from '../../vocabulary/vocabulary.ts'

/** What to highlight in a field. */
export interface Marked {
  readonly terms: readonly Term[]
  readonly substrings?: readonly string[]
}

/** Returns the markers of each field. The words of the page decide which of them match by stem, or with typos. */
export function highlightingOf(db: Db, { fuzzy }: { fuzzy: boolean }, markedIn: (field: MarkedField) => Marked): Highlighting {
  const markers = markersOf((field) => ({ ...markedIn(field), expansions: new Map() }))
  const words = expandable([...new Set(Object.values(markers).flatMap(({ terms }) => terms))]).filter(isMistypable)
  return {
    markers,
    passage: null,
    ...(words.length === 0 ? {} : { expand: (texts: readonly string[]) => expansionsIn(db, texts, words, { fuzzy }) }),
  }
}
