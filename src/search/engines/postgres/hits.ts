/** One page of what was found, as it is shown: with the places that match. */
import { setImmediate } from 'node:timers/promises'
import { sql } from 'kysely'
import { kept } from '../../../db/cached-plans.ts'
import type { Db } from '../../../db/pool.ts'
import type { SearchHit } from '../../../ports/search-engine.ts'
import { type Highlighter, highlighter, type Marker, type SnippetOptions } from '../../highlight/highlighter.ts'
import type { Scored } from './candidates.ts'

/** Milliseconds of marking after which other work gets its turn. */
const maxTurnMs = 10

export type MarkedField = 'title' | 'content' | 'filename' | 'labels'

export interface Shown {
  /** by field; a field without one has no highlights */
  readonly markers: Readonly<Partial<Record<MarkedField, Marker>>>
  /** tsqueries that choose the passage of a long document: has `all`, says most about `meant`; null: its first */
  readonly passage: { readonly all: string; readonly meant: string } | null
}

interface Found extends Omit<SearchHit, 'score' | 'highlights'> {
  labels: string[]
  content: string
}

/** The documents of a page, in its order; one that is gone by now is left out. */
export async function hits(db: Db, page: readonly Scored[], shown: Shown): Promise<SearchHit[]> {
  const found = page.length === 0 ? [] : await documents(db, page, shown)
  const byId = new Map(found.map((document) => [document.document_id, document]))
  const highlighters = highlightersOf(shown.markers)
  const shownHits: SearchHit[] = []
  let since = performance.now()
  for (const { document_id, score } of page) {
    const document = byId.get(document_id)
    if (!document) continue
    const { title, filename, mime_type, created_at } = document
    shownHits.push({ document_id, title, filename, mime_type, score, created_at, highlights: highlights(document, highlighters) })
    // A hundred long texts with a hundred pieces to be marked in each take seconds.
    if (performance.now() - since < maxTurnMs) continue
    await setImmediate()
    since = performance.now()
  }
  return shownHits
}

/** Of a long document the passage that says most about the query, instead of all its text. Each is looked up alone: joined, a plan of the days when there were few would read them all for as long as it is kept. */
async function documents(db: Db, page: readonly Scored[], { markers, passage }: Shown): Promise<Found[]> {
  // By its text alone: the first holds the title, labels and filename too.
  const said = passage ? sql`ts_rank('{1, 0, 0, 0}', words, ${passage.meant}::tsquery)` : sql`0`
  const hasAll = passage ? sql`words @@ ${passage.all}::tsquery` : sql`true`
  // A word of which but a letter or two was typed counts nothing: it is in `all` only.
  const best = passage ? sql`said > 0 and ${hasAll} desc, said desc, ${hasAll} desc,` : sql``
  const { rows } = await sql<Found>`${kept}
    select documents.id as document_id, title, filename, mime_type, documents.created_at,
      ${markers.labels ? sql`array(select name from document_labels join labels on labels.id = label_id where document_labels.document_id = documents.id order by name_key)` : sql`'{}'::text[]`} as labels,
      ${markers.content ? sql`case when passage.length is null then content else substr(content, passage.start_at + 1, passage.length) end` : sql`''`} as content
    from unnest(${page.map(({ document_id }) => document_id)}::uuid[]) asked (id) cross join lateral (
      select id, title, filename, mime_type, created_at, content from documents where id = asked.id offset 0
    ) documents ${
      markers.content
        ? sql`left join lateral (
            select start_at, length from search_passages cross join lateral (select ${said} as said offset 0) of_text where search_passages.document_id = documents.id
            order by ${best} passage limit 1
          ) passage on true`
        : sql``
    }`.execute(db)
  return rows
}

const line = { size: 300, max: 1 }
const excerpt = { size: 200, max: 3 }

type Highlighters = Readonly<Partial<Record<MarkedField, Highlighter>>>

function highlightersOf({ title, content, filename, labels }: Shown['markers']): Highlighters {
  return {
    ...(title && { title: highlighter(title) }),
    ...(content && { content: highlighter(content) }),
    ...(filename && { filename: highlighter(filename) }),
    ...(labels && { labels: highlighter(labels) }),
  }
}

function highlights({ title, filename, labels, content }: Found, highlighters: Highlighters): SearchHit['highlights'] {
  const shown = (field: MarkedField, text: string, options: SnippetOptions) =>
    (highlighters[field]?.(text, options) ?? []).map((snippet) => ({ field, snippet }))
  return [
    ...shown('title', title, line),
    ...shown('content', content, excerpt),
    ...shown('filename', filename, line),
    ...labels.flatMap((label) => shown('labels', label, line)),
  ]
}
