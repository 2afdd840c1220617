import { z } from 'zod'
import type { App } from '../app.ts'
import { WordAnswer } from '../documents/extraction/page-words.ts'
import { booleanText, calendarDate, endTimestampText, idText, integerText, jsonText, listOf, moment } from '../http/input.ts'
import { numberedPageQuery, PageNumbers } from '../http/pages.ts'
import { type Route, user } from '../http/route.ts'
import { resolvePage } from '../settings/settings.ts'
import { documentMatches } from './document-matches.ts'
import { findPending } from './pending.ts'
import { Clauses, Sort } from './query/clauses.ts'
import * as search from './search.ts'

/** Rejects text that PostgreSQL cannot store. The JSON of a query parameter is not checked before. */
const name = z
  .string()
  .min(1)
  .max(255)
  .refine((text) => !text.includes('\0') && text.isWellFormed(), 'contains U+0000 or half of a surrogate pair')
const names = listOf(name, 100)

export const Filters = z
  .strictObject({
    mime_types: names,
    labels: names,
    label_ids: listOf(idText, 100),
    status: listOf(z.enum(['pending', 'processing', 'completed', 'failed']), 100),
    source_id: idText,
    date_range: z.strictObject({ from: moment, to: endTimestampText }).partial(),
    document_date: z.strictObject({ from: calendarDate, to: calendarDate }).partial(),
    min_confidence: z.number().min(0).max(1),
    owner: name,
  })
  .partial()

const FiltersText = jsonText(20_000).pipe(Filters)

const q = z
  .string()
  .max(4000)
  .refine((text) => [...text].length <= 1000, 'at most 1,000 characters')
  .refine((text) => text.trim() !== '', 'contains no word')
  .meta({ maxLength: 1000, pattern: '\\S' })

const Result = z.object({
  document_id: z.uuid(),
  title: z.string(),
  filename: z.string(),
  mime_type: z.string(),
  status: z.enum(['pending', 'processing', 'completed', 'failed']),
  labels: z.array(z.string()),
  score: z.number().min(0).max(1),
  created_at: z.iso.datetime(),
  document_date: z.iso.date().nullable(),
  highlights: z.array(z.object({ field: z.enum(['title', 'content', 'filename', 'labels']), snippet: z.string() })),
})

const counts = z.record(z.string(), z.int())

export const Answer = z.object({
  results: z.array(Result),
  total: z.int(),
  total_capped: z.boolean(),
  facets: z.object({ mime_types: counts, labels: counts, years: counts.describe('By the year of `document_date`.') }),
  warnings: z.array(z.string()),
  relaxed: z.enum(search.relaxations).optional().describe('Present if no document has all words: what the results may have instead.'),
  pagination: PageNumbers,
  took_ms: z.number(),
})

/** Similar documents, without highlights. */
export const SimilarAnswer = z.object({ results: z.array(Result) })

export const Suggestions = z.object({ suggestions: z.array(z.object({ text: z.string(), documents: z.int() })) })

export const MatchesQuery = z.object({
  q,
  fuzzy: booleanText.default(false),
  from: integerText(1, 1_000_000).default(1).describe('Number of the first page.'),
  limit: integerText(1, 1_000_000).optional().describe('Number of pages. Default: all.'),
  boxes: booleanText.default(false).describe('Adds the places of the words on the picture of the page.'),
})

export const MatchesAnswer = z.object({
  pages: z.array(
    z.object({
      page: z.int(),
      terms: z.int().describe('Number of distinct terms of the query on the page.'),
      matches: z.array(z.object({ start: z.int(), end: z.int() })).describe('Offsets in the text of the page, in UTF-16 units.'),
      boxes: z.array(WordAnswer.shape.box).optional(),
    }),
  ),
  next: z.int().nullable().describe('Page from which another call continues; null after the last page.'),
})

export const PendingAnswer = z.object({ pending: z.array(z.uuid()) })

/** Page parameters in a JSON body. */
const pageBody = ({ limits }: App['config']) => ({
  page: z.int().min(1).max(1_000_000_000).default(1),
  per_page: z.int().min(1).max(limits.per_page_max).optional(),
})

/** Search, in the order of the specification. */
export const routes = (app: App): Route[] => [
  user(
    'GET /api/search',
    {
      summary: 'Search documents by words',
      isSearch: true,
      readsReplica: true,
      description:
        'All words must match, also in other forms of their stem; the last one matches as a prefix. ' +
        'Syntax: "a phrase", -not, one OR another. Fields: title:, filename:, content:. ' +
        'Filters: type: (a media type, image/*, or a short name such as pdf, separated by commas), label:, date:2026-01..2026-03 (on the document), added:2026-03-17 (time of arrival), status:, owner:. ' +
        '-type: and -label: exclude. `warnings` names parts that were probably meant otherwise. ' +
        'If more documents match than can be ranked, the newest ones and new ones with the words in their titles are ranked.',
      query: z.object({
        q,
        ...numberedPageQuery(app.config),
        filters: FiltersText.default({}),
        highlight: booleanText.default(true),
        fuzzy: booleanText.default(false).describe('Tolerates one typo in words of 5 letters, two from 9 letters on.'),
        relax: booleanText
          .default(false)
          .describe(
            'If no document has all of three to eight plain words, finds documents with typos of them, and if there are none either, documents without one of them. `relaxed` tells so.',
          ),
      }),
      answer: Answer,
    },
    async ({ actor, query }) => search.search(app, actor, { ...query, ...(await resolvePage(app, actor, query)) }),
  ),
  user(
    'POST /api/search/advanced',
    {
      scope: 'read',
      maxBodyBytes: 256_000,
      summary: 'Search documents by conditions on fields',
      isSearch: true,
      readsReplica: true,
      description:
        'All conditions of `must` hold and none of `must_not`. Without `must`, at least one of `should` holds; with it, `should` only adds to the score. ' +
        'Without conditions, every document that passes the filters matches. At most 100 conditions of 1,000 characters, 10,000 characters together. ' +
        'Types: `match` is words in any order; `contains` is a part of the text, ignoring case, accents and kinds of spaces; ' +
        '`exact` is the whole field, ignoring case, and on `content` a phrase. The field `any` is title, filename, content and labels. ' +
        '`contains` on `content` finds one word, or a part of a word of up to 64 characters, in every document. ' +
        'For several words or signs, and for parts that more than 2,000 words contain, it reads the newest 10,000 candidate documents ' +
        '(10,000 texts in all with several such conditions), and of long documents without any of the words the first 100,000 characters. ' +
        '`total_capped` tells if more documents may match.',
      body: z.object({
        query: Clauses.default({ must: [], should: [], must_not: [] }),
        filters: Filters.default({}),
        sort: Sort,
        highlight: z.boolean().default(true),
        ...pageBody(app.config),
      }),
      answer: Answer,
    },
    async ({ actor, body: { query, ...options } }) =>
      search.advanced(app, actor, { ...query, ...options, ...(await resolvePage(app, actor, options)) }),
  ),
  user(
    'GET /api/search/suggest',
    {
      summary: 'Complete the last word of a query',
      isSearch: true,
      readsReplica: true,
      description: 'Words come from the newest documents that match the whole query. Typos are corrected if no document matches.',
      query: z.object({ q, limit: integerText(1, 20).default(10) }),
      answer: Suggestions,
    },
    async ({ actor, query: { q, limit } }) => ({ suggestions: await search.suggest(app, actor, q, limit) }),
  ),
  user(
    'POST /api/search/pending',
    {
      scope: 'read',
      summary: 'List documents that search does not find yet',
      description:
        'Returns those of the documents whose last change waits for the search index. A document whose text is still being extracted need not be among them: read its `status` first.',
      body: z.object({ ids: listOf(idText, 1000, 1) }),
      answer: PendingAnswer,
    },
    async ({ actor, body: { ids } }) => ({ pending: await findPending(app, actor, ids) }),
  ),
  user(
    'GET /api/documents/:id/matches',
    {
      summary: 'Find the words of a query in a document',
      isSearch: true,
      description:
        'Returns the pages with a match, at most 100, with `boxes` at most 10, each with at most 1,000 matches. Words match as in the snippets of a search. ' +
        '`boxes` come from OCR, or from the text layer of a PDF; other texts have none.',
      // The page at / asks once for the document and once for each picture.
      cost: 0.2,
      ids: { id: 'DOCUMENT_NOT_FOUND' },
      query: MatchesQuery,
      answer: MatchesAnswer,
    },
    async ({ actor, param, query }) => documentMatches(app, actor, param('id'), query),
  ),
  user(
    'GET /api/documents/:id/similar',
    {
      summary: 'Find similar documents by their distinctive words',
      isSearch: true,
      readsReplica: true,
      ids: { id: 'DOCUMENT_NOT_FOUND' },
      query: z.object({ limit: integerText(1, 50).default(10) }),
      answer: SimilarAnswer,
    },
    async ({ actor, param, query: { limit } }) => ({ results: await search.similar(app, actor, param('id'), limit) }),
  ),
]
