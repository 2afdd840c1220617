/** Shows where a query was found: substrings of the text, escaped for HTML, in which <mark> is the only markup. */

import { type IsEnough, matchPositions, type Span } from './match-positions.ts'
import { compileMatcher, type MatcherOptions } from './matcher.ts'
import { substringsIn } from './substrings.ts'

/** What to mark; `substrings` wherever they stand, also inside of words. */
export interface Marker extends MatcherOptions {
  readonly substrings?: readonly string[]
}

export interface SnippetOptions {
  /** characters of one snippet, about */
  readonly size: number
  readonly max: number
}

/** The best snippets of a text, most different terms first; none where nothing is found. Without its marks and entities a snippet is a substring of the text as it is. */
export type Highlighter = (text: string, options: SnippetOptions) => string[]

/** Made once for all texts in which the same is marked. */
export function highlighter(marker: Marker): Highlighter {
  const { terms, substrings = [] } = marker
  const wanted = compileMatcher(marker)
  const most = terms.filter(({ negated }) => !negated).length
  return (text, { size, max }) => {
    const inside = substringsIn(text, substrings).map(({ start, end, substring }) => ({ start, end, term: terms.length + substring }))
    const isEnough = substrings.length > 0 ? never : enough(most, size, max)
    const spans = [...matchPositions(text, wanted, isEnough), ...inside].sort(inOrder)
    return windows(spans, size)
      .sort((one, other) => other.terms - one.terms || one.start - other.start)
      .slice(0, max)
      .map((window) => show(text, window, spans, size))
  }
}

const never: IsEnough = () => false

/** Whether there are `max` windows with all of the terms: nothing that comes later is better. It is looked at where that may be so, and then again with a quarter more text each. */
function enough(most: number, size: number, max: number): IsEnough {
  let lookAt = 0
  return (spans, upTo) => {
    const [first] = spans
    if (!first || upTo < Math.max(lookAt, first.start + (max + 1) * size)) return false
    lookAt = upTo + (upTo - first.start) / 4
    const last = windows(spans.toSorted(inOrder), size).filter(({ terms }) => terms === most)[max - 1]
    return last !== undefined && Math.max(last.end, last.start + size) + size < upTo
  }
}

const inOrder = (one: Span, other: Span): number => one.start - other.start || one.end - other.end

interface Window {
  readonly start: number
  readonly end: number
  /** how many different ones */
  readonly terms: number
}

function windows(spans: readonly Span[], size: number): Window[] {
  const found: Window[] = []
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
    found.push({ start, end, terms: terms.size })
    from = to
  }
  return found
}

function show(text: string, window: Window, spans: readonly Span[], size: number): string {
  const spare = Math.max(0, size - (window.end - window.start))
  const from = backToSpace(text, Math.max(0, window.start - Math.floor(spare / 3)), window.start)
  const to = onToSpace(text, Math.min(text.length, window.end + Math.ceil((2 * spare) / 3)), window.end)
  let html = ''
  let at = from
  for (const { start, end } of merged(spans.filter((span) => span.start >= from && span.end <= to))) {
    html += `${escapeHtml(text.slice(at, start))}<mark>${escapeHtml(text.slice(start, end))}</mark>`
    at = end
  }
  return html + escapeHtml(text.slice(at, to))
}

function merged(spans: readonly Span[]): { start: number; end: number }[] {
  const out: { start: number; end: number }[] = []
  for (const { start, end } of spans) {
    const last = out.at(-1)
    if (last && start < last.end) last.end = Math.max(last.end, end)
    else out.push({ start, end })
  }
  return out
}

/** The edges of a snippet are at spaces where there is one on the way to what it shows, and never inside of a character. */
function backToSpace(text: string, edge: number, inner: number): number {
  if (edge === 0) return 0
  const space = text.slice(edge, inner).search(/\s/)
  if (space >= 0) return edge + space + 1
  return isInside(text, edge) ? edge + 1 : edge
}

function onToSpace(text: string, edge: number, inner: number): number {
  if (edge === text.length) return edge
  const space = text.slice(inner, edge).search(/\s\S*$/)
  if (space >= 0) return inner + space
  return isInside(text, edge) ? edge - 1 : edge
}

const isInside = (text: string, at: number): boolean => (text.codePointAt(at - 1) ?? 0) > 0xffff

const entities: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (character) => entities[character]!)
