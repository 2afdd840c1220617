/** Highlights matches: snippets are substrings of a text, escaped for HTML, with <mark> as the only markup. */

import { type IsComplete, type Span, searchMatches } from './match-positions.ts'
import { compileMatcher, type MatcherOptions } from './matcher.ts'
import { searchSubstrings } from './substrings.ts'

/** Terms to highlight, and `substrings` to highlight even inside words. */
export interface Marker extends MatcherOptions {
  readonly substrings?: readonly string[]
}

export interface SnippetOptions {
  /** approximate length of a snippet, in characters */
  readonly size: number
  readonly max: number
}

/** Returns the best snippets of a text, those with most distinct terms first; none if nothing matches. Works in steps, as a long text takes seconds. */
export type Highlighter = (text: string, options: SnippetOptions) => Generator<undefined, string[]>

/** Matches of a text after which the search ends. Three snippets need no more, and a long text can have millions, which take gigabytes. */
const maxMatches = 100_000

/** Compiles a highlighter for many texts. */
export function highlighter(marker: Marker): Highlighter {
  const { terms, substrings = [] } = marker
  const matcher = compileMatcher(marker)
  const termCount = terms.filter(({ negated }) => !negated).length
  const perSubstring = Math.ceil(maxMatches / Math.max(1, substrings.length))
  return function* (text, { size, max }) {
    const inside = yield* searchSubstrings(text, substrings, perSubstring)
    const hasBest = substrings.length > 0 ? () => false : hasBestPassages(termCount, size, max)
    const isComplete: IsComplete = (spans, upTo) => spans.length >= maxMatches || hasBest(spans, upTo)
    const spans = yield* searchMatches(text, matcher, isComplete)
    for (const { start, end, substring } of inside) spans.push({ start, end, term: terms.length + substring })
    spans.sort(byOffset)
    yield
    return passages(spans, size)
      .sort((one, other) => other.termCount - one.termCount || one.start - other.start)
      .slice(0, max)
      .map((passage) => toSnippet(text, passage, spans, size))
  }
}

/** Returns whether `max` passages contain all terms, so that no later one is better. Checks again only after a quarter more text, since each check is linear. */
function hasBestPassages(termCount: number, size: number, max: number): IsComplete {
  let checkAt = 0
  return (spans, upTo) => {
    const [first] = spans
    if (!first || upTo < Math.max(checkAt, first.start + (max + 1) * size)) return false
    checkAt = upTo + (upTo - first.start) / 4
    const last = passages(spans.toSorted(byOffset), size).filter((passage) => passage.termCount === termCount)[max - 1]
    return last !== undefined && Math.max(last.end, last.start + size) + size < upTo
  }
}

const byOffset = (one: Span, other: Span): number => one.start - other.start || one.end - other.end

/** A part of the text with adjacent matches. */
interface Passage {
  readonly start: number
  readonly end: number
  /** number of distinct terms */
  readonly termCount: number
}

/** Groups spans, sorted by offset, into passages of at most `size` characters. */
function passages(spans: readonly Span[], size: number): Passage[] {
  const result: Passage[] = []
  for (let from = 0; from < spans.length; ) {
    const start = spans[from]!.start
    let to = from
    const terms = new Set<number>()
    let end = start
    while (to < spans.length && (to === from || spans[to]!.end - start <= size)) {
      terms.add(spans[to]!.term)
      end = Math.max(end, spans[to]!.end)
      to++
    }
    result.push({ start, end, termCount: terms.size })
    from = to
  }
  return result
}

function toSnippet(text: string, passage: Passage, spans: readonly Span[], size: number): string {
  const spare = Math.max(0, size - (passage.end - passage.start))
  const from = snippetStart(text, Math.max(0, passage.start - Math.floor(spare / 3)), passage.start)
  const to = snippetEnd(text, Math.min(text.length, passage.end + Math.ceil((2 * spare) / 3)), passage.end)
  let html = ''
  let offset = from
  for (const { start, end } of mergeOverlaps(spans.filter((span) => span.start >= from && span.end <= to))) {
    html += `${escapeHtml(text.slice(offset, start))}<mark>${escapeHtml(text.slice(start, end))}</mark>`
    offset = end
  }
  return html + escapeHtml(text.slice(offset, to))
}

function mergeOverlaps(spans: readonly Span[]): { start: number; end: number }[] {
  const merged: { start: number; end: number }[] = []
  for (const { start, end } of spans) {
    const last = merged.at(-1)
    if (last && start < last.end) last.end = Math.max(last.end, end)
    else merged.push({ start, end })
  }
  return merged
}

/** Moves the start of a snippet behind a space if there is one before the match, and never into a surrogate pair. */
function snippetStart(text: string, offset: number, matchStart: number): number {
  if (offset === 0) return 0
  const space = text.slice(offset, matchStart).search(/\s/)
  if (space >= 0) return offset + space + 1
  return isInSurrogatePair(text, offset) ? offset + 1 : offset
}

/** Moves the end of a snippet before a space if there is one after the match, and never into a surrogate pair. */
function snippetEnd(text: string, offset: number, matchEnd: number): number {
  if (offset === text.length) return offset
  const space = text.slice(matchEnd, offset).search(/\s\S*$/)
  if (space >= 0) return matchEnd + space
  return isInSurrogatePair(text, offset) ? offset - 1 : offset
}

const isInSurrogatePair = (text: string, offset: number): boolean => (text.codePointAt(offset - 1) ?? 0) > 0xffff

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (character) => entities[character]!)
