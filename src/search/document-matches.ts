/** Finds the words of a query in one document: the pages, the positions in their texts, and the boxes on their pictures. */
import { sql } from 'kysely'
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { openSemaphore } from '../concurrency.ts'
import { requireDocument } from '../documents/access.ts'
import { pagesWithDocuments, pageText } from '../documents/extraction/page-text.ts'
import { toWord } from '../documents/extraction/page-words.ts'
import { withAddress } from '../documents/stored-files.ts'
import type { Document } from '../documents/view.ts'
import { runSteps } from '../http/time-slices.ts'
import { ReadFailure, type WordRow } from '../ports/document-reader.ts'
import { type Span, searchMatches } from './highlight/match-positions.ts'
import { compileMatcher, type Matcher } from './highlight/matcher.ts'
import { parse, type Term } from './query/parser.ts'
import { parseQualifiers } from './query/qualifiers.ts'
import { isSpacelessCharacter } from './query/spaceless.ts'
import { type Expansions, expandable, mergeExpansions, stemExpansions, typoExpansions } from './vocabulary/expansions.ts'
import { expansionsIn } from './vocabulary/expansions-in-texts.ts'
import { isMistypable } from './vocabulary/vocabulary.ts'

/** Pages read by one query, and characters of each. */
const batchSize = 10
const maxCharacters = 2_000_000
/** Bounds the memory of all requests: two batches are read and searched at a time, 40 MB each. */
const limitBatches = openSemaphore(2)
/** Characters that one request searches, over all pages, before it ends early. Bounds its processor time. */
const maxTotalCharacters = 4_000_000
/** Maximum number in an answer: of pages with matches, of such pages with boxes, and of matches on one page. */
const maxPages = 100
const maxPagesWithBoxes = 10
const maxMatches = 1_000

export interface MatchesQuery {
  readonly q: string
  /** tolerates typos */
  readonly fuzzy: boolean
  /** first page */
  readonly from: number
  /** number of pages */
  readonly limit?: number | undefined
  readonly boxes: boolean
}

type Box = ReturnType<typeof toWord>['box']

export interface PageMatches {
  readonly page: number
  /** number of distinct terms of the query on the page */
  readonly terms: number
  /** offsets in the text of the page, in order */
  readonly matches: readonly { readonly start: number; readonly end: number }[]
  readonly boxes?: readonly Box[]
}

/**
 * Returns the pages that contain words of the query, in order. `next`: the page from which another call continues; null after the last page.
 * Throws DOCUMENT_NOT_FOUND.
 */
export async function documentMatches(
  app: App,
  actor: Actor,
  id: string,
  { q, fuzzy, from, limit = Number.MAX_SAFE_INTEGER, boxes }: MatchesQuery,
): Promise<{ pages: PageMatches[]; next: number | null }> {
  const document = await requireDocument(app.reads, actor, id, { inTrash: true })
  const terms = parse(parseQualifiers(q).text).filter(({ field }) => field === null || field === 'content')
  const pages: PageMatches[] = []
  if (compileMatcher({ terms, expansions: new Map() }).isEmpty) return { pages, next: null }
  const expand = await openExpansions(app, terms, fuzzy)
  const matcherOf = async (texts: readonly string[]) => compileMatcher({ terms, expansions: await expand(texts) })
  const last = from + limit - 1
  const left = { pages: boxes ? maxPagesWithBoxes : maxPages, characters: maxTotalCharacters }
  for (let after = from - 1; ; ) {
    const batch = await limitBatches(() => searchBatch(app, document.id, { after, last }, matcherOf, left))
    for (const { page, source, spans } of batch.found) {
      const terms = new Set(spans.map(({ term }) => term)).size
      const matches = spans.slice(0, maxMatches).map(({ start, end }) => ({ start, end }))
      pages.push({ page, terms, matches, ...(boxes && { boxes: await boxesOn(app, document, page, source, batch.matcher) }) })
    }
    if (batch.next !== null || batch.isLast) return { pages, next: batch.next }
    after = batch.last
  }
}

interface Batch {
  readonly matcher: Matcher
  /** pages with a match */
  readonly found: readonly { readonly page: number; readonly source: string | null; readonly spans: readonly Span[] }[]
  /** first page that was read but not searched, because a limit was reached */
  readonly next: number | null
  /** last page that was read */
  readonly last: number
  /** whether the document, or the range, ends here */
  readonly isLast: boolean
}

/** Reads the next pages of a document, and searches them until nothing is left of the limits. Subtracts from `left` what it has searched and found. */
async function searchBatch(
  app: App,
  id: string,
  range: { after: number; last: number },
  matcherOf: (texts: readonly string[]) => Promise<Matcher>,
  left: { pages: number; characters: number },
): Promise<Batch> {
  const { rows } = await sql<{ page: number; text: string; source: string | null }>`
    select page.page, left(${pageText}, ${sql.lit(maxCharacters)}) as text, source from ${pagesWithDocuments}
    where document_id = ${id} and page.page > ${range.after} and page.page <= ${range.last}::bigint order by page.page limit ${sql.lit(batchSize)}`.execute(
    app.database.texts,
  )
  const matcher = await matcherOf(rows.map(({ text }) => text))
  const batch = { matcher, found: [] as Batch['found'][number][], last: rows.at(-1)?.page ?? range.last, isLast: rows.length < batchSize }
  for (const { page, text, source } of rows) {
    if (left.pages <= 0 || left.characters < 0) return { ...batch, next: page }
    left.characters -= text.length
    const spans = await spansOf(text, matcher)
    if (spans.length === 0) continue
    left.pages--
    batch.found.push({ page, source, spans })
  }
  return { ...batch, next: null }
}

/** Returns the function that expands the words of a query for some texts. Without the embedded index, only words of these texts are known. */
async function openExpansions(
  { config, reads }: App,
  terms: readonly Term[],
  fuzzy: boolean,
): Promise<(texts: readonly string[]) => Promise<Expansions>> {
  if (!config.search.keep_embedded) {
    const words = expandable(terms).filter(isMistypable)
    return (texts) => expansionsIn(reads, texts, words, { fuzzy })
  }
  const [stems, typos] = await Promise.all([stemExpansions(reads, terms), fuzzy ? typoExpansions(reads, terms) : new Map()])
  const expansions = mergeExpansions(stems, typos)
  return async () => expansions
}

/** Returns the matches in a text in order, without matches inside other matches. Lets other requests run meanwhile. */
async function spansOf(text: string, matcher: Matcher): Promise<Span[]> {
  const spans = await runSteps(searchMatches(text, matcher, (found) => found.length > maxMatches))
  spans.sort((one, other) => one.start - other.start || other.end - one.end)
  const outer: Span[] = []
  for (const span of spans) if (span.end > (outer.at(-1)?.end ?? -1)) outer.push(span)
  return outer
}

/** Returns the boxes of the matching words of a page. Without words of OCR, uses the words of the text layer if it is readable. */
async function boxesOn(app: App, document: Document, page: number, source: string | null, matcher: Matcher): Promise<Box[]> {
  const { rows } = await sql<{ words: WordRow[] }>`
    select words from page_words where document_id = ${document.id} and number = ${document.current_version} and page = ${page}`.execute(
    app.database.texts,
  )
  const words = rows[0]?.words ?? (source === 'text_layer' ? await readTextLayer(app, document, page) : [])
  return (await matchingWords(words, matcher)).map((word) => toWord(word).box)
}

async function readTextLayer(app: App, { sha256, filename, mime_type, owner_id }: Document, page: number): Promise<readonly WordRow[]> {
  const { path, release } = await withAddress(app.reads, sha256, (address) => app.files.openLocal(address))
  try {
    return await app.previewer.words({ path, filename, mimeType: mime_type }, page, { turn: owner_id })
  } catch (error) {
    if (error instanceof ReadFailure) return []
    throw error
  } finally {
    await release()
  }
}

/** Returns the words in which a match of their text lies. */
async function matchingWords(words: readonly WordRow[], matcher: Matcher): Promise<WordRow[]> {
  let text = ''
  const starts: number[] = []
  for (const [word] of words) {
    text += separator(text, word)
    starts.push(text.length)
    text += word
  }
  const matching: WordRow[] = []
  const spans = await spansOf(text, matcher)
  let nth = 0
  for (const [index, word] of words.entries()) {
    const start = starts[index]!
    while (nth < spans.length && spans[nth]!.end <= start) nth++
    if (nth < spans.length && spans[nth]!.start < start + word[0].length) matching.push(word)
  }
  return matching
}

/** Returns the separator between two words: nothing in scripts without spaces, a line break after a hyphen, which may divide a word. */
function separator(before: string, word: string): string {
  if (before === '') return ''
  const last = before.at(-1)!
  if (isSpacelessCharacter(last) && isSpacelessCharacter(word)) return ''
  return /[-\u2010\u00ad]/.test(last) ? '\n' : ' '
}
