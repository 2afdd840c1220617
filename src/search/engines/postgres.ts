/** The embedded engine: search in the PostgreSQL that holds the documents. */
import { type RawBuilder, sql } from 'kysely'
import type { Db } from '../../db/db.ts'
import type { SearchAnswer, SearchEngine, SearchFilter, SearchHit, SearchQuery } from '../../ports.ts'
import { type Marker, snippets } from '../highlight.ts'
import { parse } from '../query.ts'
import { build, type Queries } from './postgres-query.ts'
import { indexVersion, refresh } from './postgres-refresh.ts'
import { spellings } from './postgres-words.ts'

/** Opens the engine; what it keeps is in the tables search_…, made by the migrations. */
export function openPostgres(db: Db): SearchEngine {
  return {
    name: 'postgres',
    refresh: (ids) => refresh(db, ids),
    search: (query) => search(db, query),
    async count() {
      const { count } = await db
        .selectFrom('search_entries')
        .select((eb) => eb.fn.countAll<number>().as('count'))
        .where('version', '=', indexVersion)
        .executeTakeFirstOrThrow()
      return count
    },
    async check() {
      await db.selectFrom('search_entries').select('document_id').limit(1).execute()
    },
  }
}

const nothing: SearchAnswer = { hits: [], total: 0, isCapped: false, facets: { mime_types: {}, labels: {} } }

async function search(db: Db, query: SearchQuery): Promise<SearchAnswer> {
  const terms = parse(query.text)
  const others = query.fuzzy ? await spellings(db, terms) : new Map<string, string[]>()
  const queries = build(terms, others, query.filter)
  if (!queries) return nothing
  const { page, count, ...facets } = await match(db, queries, query)
  return {
    hits: await hits(db, page, queries, query.highlight ? { terms, spellings: others } : null),
    total: Math.min(count, query.maxResults),
    isCapped: count > query.maxResults,
    facets,
  }
}

interface Matches {
  count: number
  page: Scored[]
  mime_types: Record<string, number>
  labels: Record<string, number>
}

interface Scored {
  document_id: string
  score: number
}

/** Newest first up to one past the cap; those are ranked, counted and cut into pages, all in one snapshot. */
async function match(db: Db, queries: Queries, { filter, offset, limit, maxResults }: SearchQuery): Promise<Matches> {
  const { rows } = await sql<Matches>`
    with matches as materialized (
      select entry.document_id, entry.words from search_entries entry
      where ${conditions(queries, filter)}
      order by entry.document_id desc limit ${maxResults + 1}
    ), counted as materialized (
      select document_id, ${score(queries)} as score from (select * from matches order by document_id desc limit ${maxResults}) newest
    ), page as (
      select document_id, score from counted order by score desc, document_id desc limit ${limit} offset ${offset}
    )
    select
      (select count(*) from matches) as count,
      (select coalesce(json_agg(page order by score desc, document_id desc), '[]') from page) as page,
      (select coalesce(json_object_agg(mime_type, count), '{}') from (
        select mime_type, count(*) from counted join documents on documents.id = document_id group by mime_type order by count(*) desc, mime_type
      ) types) as mime_types,
      (select coalesce(json_object_agg(name, count), '{}') from (
        select labels.name, count(*) from counted join document_labels using (document_id) join labels on labels.id = label_id
        group by labels.name order by count(*) desc, labels.name
      ) names) as labels`.execute(db)
  return rows[0]!
}

function conditions({ match, checks }: Queries, { from, to, minConfidence }: SearchFilter): RawBuilder<unknown> {
  const all = [sql`entry.words @@ ${match}::tsquery`]
  if (from) all.push(sql`entry.created_at >= ${from}`)
  if (to) all.push(sql`entry.created_at <= ${to}`)
  if (minConfidence !== null) all.push(sql`entry.confidence >= ${minConfidence}`)
  // A term fails a long document when it is found where it must not be, or not where it must.
  all.push(sql`(entry.parts = 0 or not exists (
    select from unnest(${checks.map(({ query }) => query)}::tsquery[], ${checks.map(({ phrase }) => phrase)}::boolean[], ${checks.map(({ negated }) => negated)}::boolean[])
      as term (query, is_phrase, is_negated)
    where (entry.parts = 2 or is_phrase) and is_negated = exists (
      select from search_passages passage where passage.document_id = entry.document_id and passage.words @@ term.query)))`)
  return sql.join(all, sql` and `)
}

/** Words OR-ed, so that time does not grow with the square of their number; a word as it was typed counts twice as much as one with a typo. */
function score({ typed, meant }: Queries): RawBuilder<number> {
  if (typed === '') return sql`0::real`
  const rank = (query: string) => sql`ts_rank('{0.1, 0.3, 0.6, 1}', words, ${query}::tsquery)`
  return typed === meant ? sql`least(1, ${rank(typed)})` : sql`least(1, (${rank(typed)} + ${rank(meant)}) / 2)`
}

interface Found extends Omit<SearchHit, 'score' | 'highlights'> {
  labels: string[]
  content: string
}

async function hits(db: Db, page: readonly Scored[], queries: Queries, marker: Marker | null): Promise<SearchHit[]> {
  const found = page.length === 0 ? [] : await documents(db, page, queries, marker !== null)
  const byId = new Map(found.map((document) => [document.document_id, document]))
  return page.flatMap(({ document_id, score }) => {
    const document = byId.get(document_id)
    if (!document) return []
    const { title, filename, mime_type, created_at } = document
    return { document_id, title, filename, mime_type, score, created_at, highlights: marker ? highlights(document, marker) : [] }
  })
}

/** Of a long document the passage that says most about the query, instead of all its text. */
async function documents(db: Db, page: readonly Scored[], { all, meant }: Queries, withText: boolean): Promise<Found[]> {
  const text = withText && all !== null
  const { rows } = await sql<Found>`
    select documents.id as document_id, title, filename, mime_type, documents.created_at,
      ${text ? sql`array(select name from document_labels join labels on labels.id = label_id where document_labels.document_id = documents.id order by name_key)` : sql`'{}'::text[]`} as labels,
      ${text ? sql`case when passage.length is null then content else substr(content, passage.start_at + 1, passage.length) end` : sql`''`} as content
    from documents ${
      text
        ? sql`left join lateral (
            select start_at, length from search_passages where search_passages.document_id = documents.id
            order by words @@ ${all}::tsquery desc, ts_rank(words, ${meant}::tsquery) desc, passage limit 1
          ) passage on true`
        : sql``
    }
    where documents.id = any(${page.map(({ document_id }) => document_id)}::uuid[])`.execute(db)
  return rows
}

const line = { size: 300, max: 1 }
const excerpt = { size: 200, max: 3 }

function highlights({ title, filename, labels, content }: Found, marker: Marker): SearchHit['highlights'] {
  const shown = (field: string, text: string, options: typeof line) =>
    snippets(text, marker, options).map((snippet) => ({ field, snippet }))
  return [
    ...shown('title', title, line),
    ...shown('content', content, excerpt),
    ...shown('filename', filename, line),
    ...labels.flatMap((label) => shown('labels', label, line)),
  ]
}
