/** Hits: documents of a page with highlights. */
import { type RawBuilder, sql } from 'kysely'
import { openSemaphore } from '../concurrency.ts'
import type { Db } from '../db/pool.ts'
import { openYielder, runSteps } from '../http/time-slices.ts'
import type { SearchAnswer, SearchHit } from '../ports/search-engine.ts'
import { type Highlighter, highlighter, type Marker, type SnippetOptions } from './highlight/highlighter.ts'
import type { Expansions } from './vocabulary/expansions.ts'

/** Maximum number of characters of the contents of a page. Contents without passages are cut to their share of it. */
const maxPageCharacters = 20_000_000

/** Bounds the memory of all searches for parts of texts, each of which takes 20 MB for a text. */
const limitFolded = openSemaphore(4)

/** A document with its score, 0 to 1. */
export interface Scored {
  readonly document_id: string
  readonly score: number
}

/** The page of matches to return. */
export interface Window {
  readonly offset: number
  readonly limit: number
  /** maximum number of matches that are counted and can be paged through */
  readonly maxResults: number
}

/** One page of the matches, with the number and the facets of all matches. */
export interface Matches extends Omit<SearchAnswer, 'hits'> {
  readonly page: readonly Scored[]
}

const markedFields = ['title', 'content', 'filename', 'labels'] as const
export type MarkedField = (typeof markedFields)[number]

/** Options for highlighting a page. */
export interface Highlighting {
  /** Markers by field. Fields without a marker are not highlighted. */
  readonly markers: Readonly<Partial<Record<MarkedField, Marker>>>
  /** Tsqueries that choose the passage of a long document: it meets `all` and ranks best by `any`. Null: the whole text. */
  readonly passage: { readonly all: string; readonly any: string } | null
  /** Returns the words of these texts that also match a word of the query, by the word of the query. Default: only words of the markers. */
  readonly expand?: (texts: readonly string[]) => Promise<Expansions>
}

export const noHighlighting: Highlighting = { markers: {}, passage: null }

/** Returns the markers of the fields that have something to highlight. */
export const markersOf = (markerOf: (field: MarkedField) => Marker): Highlighting['markers'] =>
  Object.fromEntries(
    markedFields
      .map((field) => [field, markerOf(field)] as const)
      .filter(([, { terms, substrings = [] }]) => terms.length + substrings.length > 0),
  )

interface Found extends Omit<SearchHit, 'score' | 'highlights'> {
  content: string
}

/** Returns the hits of a page, in order. Omits documents that were deleted meanwhile. */
export async function hits(db: Db, page: readonly Scored[], highlighting: Highlighting): Promise<SearchHit[]> {
  const rows = page.length === 0 ? [] : await documents(db, page, highlighting)
  const byId = new Map(rows.map((document) => [document.document_id, document]))
  const expansions = await highlighting.expand?.(
    rows.flatMap(({ title, filename, labels, content }) => [title, filename, ...labels, content]),
  )
  const highlighters = highlightersOf(highlighting.markers, expansions)
  const answer: SearchHit[] = []
  const pause = openYielder()
  const isFolded = (highlighting.markers.content?.substrings ?? []).length > 0
  const run = (steps: Generator<undefined, string[]>) => (isFolded ? limitFolded(() => runSteps(steps, pause)) : runSteps(steps, pause))
  for (const { document_id, score } of page) {
    const document = byId.get(document_id)
    if (!document) continue
    const { title, filename, mime_type, status, labels, created_at, document_date } = document
    answer.push({
      document_id,
      title,
      filename,
      mime_type,
      status,
      labels,
      score,
      created_at,
      document_date,
      highlights: await highlights(document, highlighters, run),
    })
  }
  return answer
}

/** Reads the documents of a page, and their contents if these are highlighted. */
async function documents(db: Db, page: readonly Scored[], { markers, passage }: Highlighting): Promise<Found[]> {
  const start = sql`left(content, ${Math.floor(maxPageCharacters / page.length)})`
  const content = passage
    ? sql`case when passage.length is null then ${start} else substr(content, passage.start_at + 1, passage.length) end`
    : start
  const { rows } = await sql<Found>`
    select documents.id as document_id, title, filename, mime_type, status, documents.created_at, documents.document_date,
      array(select name from document_labels join labels on labels.id = label_id where document_labels.document_id = documents.id order by name_key) as labels,
      ${markers.content ? content : sql`''`} as content
    from unnest(${page.map(({ document_id }) => document_id)}::uuid[]) page (id) cross join lateral (
      select id, title, filename, mime_type, status, created_at, document_date, content from live_documents where id = page.id offset 0
    ) documents ${markers.content && passage ? sql`left join lateral (${bestPassage(passage)}) passage on true` : sql``}`.execute(db)
  return rows
}

/** Returns SQL that selects the best passage of a long document: where it begins, and its length. */
function bestPassage({ all, any }: NonNullable<Highlighting['passage']>): RawBuilder<unknown> {
  // By its content only: the first passage also has the words of the headings.
  const relevance = sql`ts_rank('{1, 0, 0, 0}', words, ${any}::tsquery)`
  const hasAll = sql`words @@ ${all}::tsquery`
  // A prefix of one or two letters is in `all` only.
  return sql`
    select start_at, length from search_passages cross join lateral (select ${relevance} as relevance offset 0) of_text
    where search_passages.document_id = documents.id
    order by relevance > 0 and ${hasAll} desc, relevance desc, ${hasAll} desc, passage limit 1`
}

const line = { size: 300, max: 1 }
const excerpt = { size: 200, max: 3 }

type Highlighters = Readonly<Partial<Record<MarkedField, Highlighter>>>

function highlightersOf(markers: Highlighting['markers'], expansions?: Expansions): Highlighters {
  return Object.fromEntries(
    Object.entries(markers).map(([field, marker]) => [field, highlighter(expansions ? { ...marker, expansions } : marker)]),
  )
}

async function highlights(
  { title, filename, labels, content }: Found,
  highlighters: Highlighters,
  run: (steps: Generator<undefined, string[]>) => Promise<string[]>,
): Promise<SearchHit['highlights']> {
  const marked: { field: MarkedField; snippet: string }[] = []
  const mark = async (field: MarkedField, text: string, options: SnippetOptions): Promise<void> => {
    const highlighter = highlighters[field]
    if (highlighter) for (const snippet of await run(highlighter(text, options))) marked.push({ field, snippet })
  }
  await mark('title', title, line)
  await mark('content', content, excerpt)
  await mark('filename', filename, line)
  for (const label of labels) await mark('labels', label, line)
  return marked
}
