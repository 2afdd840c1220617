/** Shows where a query was found: pieces of the text, escaped for HTML, in which <mark> is the only markup. */
import { piecesIn } from './pieces.ts'
import type { Term } from './query.ts'
import { type Word, words } from './words.ts'

/** The terms to mark; `spellings` are the words that count as one of the query, by that word; `pieces` are marked wherever they stand, also inside of words. */
export interface Marker {
  readonly terms: readonly Term[]
  readonly spellings: ReadonlyMap<string, readonly string[]>
  readonly pieces?: readonly string[]
}

interface Span {
  readonly start: number
  readonly end: number
  readonly term: number
}

export interface SnippetOptions {
  /** characters of one snippet, about */
  readonly size: number
  readonly max: number
}

/** The best snippets of a text, most different terms first; none where nothing is found. Without its marks and entities a snippet is a piece of the text as it is. */
export function snippets(text: string, marker: Marker, { size, max }: SnippetOptions): string[] {
  const inside = piecesIn(text, marker.pieces ?? []).map(({ start, end, piece }) => ({ start, end, term: marker.terms.length + piece }))
  const spans = [...(marker.terms.length > 0 ? find(text, marker) : []), ...inside].sort(
    (one, other) => one.start - other.start || one.end - other.end,
  )
  return windows(spans, size)
    .sort((one, other) => other.terms - one.terms || one.start - other.start)
    .slice(0, max)
    .map((window) => show(text, window, spans, size))
}

/** Where the terms stand. Each word of the text is looked up once. */
function find(text: string, marker: Marker): Span[] {
  const wanted = lookUp(marker)
  const read = [...words(text)]
  const row = read.filter(({ form }) => form !== 'joined')
  return read.flatMap((word) => {
    const at = word.position - 1
    // Where the first part of a joined word begins like that already, it is marked alone.
    const begins = ({ prefix }: { prefix: string }) =>
      word.text.startsWith(prefix) && !(word.form === 'joined' && row[at]!.text.startsWith(prefix))
    const terms = [...(wanted.whole.get(word.text) ?? []), ...wanted.prefixes.filter(begins).map(({ term }) => term)]
    const single = terms.map((term) => ({ start: word.start, end: endOf(word, marker.terms[term]!, text), term }))
    if (word.form === 'joined') return single
    return [...single, ...(wanted.starts.get(word.text) ?? []).flatMap((term) => inRow(row, at, marker.terms[term]!, term))]
  })
}

interface Wanted {
  /** word -> terms that it answers alone */
  readonly whole: ReadonlyMap<string, number[]>
  readonly prefixes: readonly { prefix: string; term: number }[]
  /** first word -> terms of several words */
  readonly starts: ReadonlyMap<string, number[]>
}

function lookUp({ terms, spellings }: Marker): Wanted {
  const whole = new Map<string, number[]>()
  const starts = new Map<string, number[]>()
  const prefixes: { prefix: string; term: number }[] = []
  const put = (map: Map<string, number[]>, word: string, term: number) => map.set(word, [...(map.get(word) ?? []), term])
  for (const [term, { parts, joined, negated }] of terms.entries()) {
    if (negated) continue
    if (joined) put(whole, joined, term)
    const [first] = parts
    if (!first) continue
    if (parts.length > 1) put(starts, first.text, term)
    else for (const word of new Set([first.text, ...(spellings.get(first.text) ?? [])])) put(whole, word, term)
    if (joined && parts.at(-1)!.prefix) prefixes.push({ prefix: joined, term })
    if (parts.length === 1 && first.prefix) prefixes.push({ prefix: first.text, term })
  }
  return { whole, prefixes, starts }
}

/** Of a pair of characters only the first was asked for where the term is but one. */
function endOf(word: Word, term: Term, text: string): number {
  if (word.form !== 'pair' || [...term.parts[0]!.text].length > 1) return word.end
  return word.start + String.fromCodePoint(text.codePointAt(word.start)!).length
}

function inRow(row: readonly Word[], at: number, { parts }: Term, term: number): Span[] {
  const start = row[at]!
  let end = start.end
  for (const part of parts) {
    const word = row[at + part.offset]
    if (!word || !(part.prefix ? word.text.startsWith(part.text) : word.text === part.text)) return []
    end = word.end
  }
  return [{ start: start.start, end, term }]
}

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
