import type { H3Event } from 'h3'
import { z } from 'zod'
import type { App } from '../app.ts'
import { fileHeaders, ifMatchHeader, matchesEtag, redirectAnswers, sendFile, untrustedContentHeaders } from '../http/files.ts'
import {
  booleanText,
  calendarDate,
  commaList,
  endTimestampText,
  idText,
  integerText,
  jsonRecord,
  listOf,
  moment,
  numberText,
} from '../http/input.ts'
import { streamedJson } from '../http/json/stream.ts'
import { pageQuery, pagination } from '../http/pages.ts'
import { type Route, type UserCall, user } from '../http/route.ts'
import { visibleLine } from '../http/visible-text.ts'
import { resolvePage } from '../settings/settings.ts'
import { requireDocument } from './access.ts'
import { batchGet, batchGetRoute } from './batch-get.ts'
import { documentResponse, textResponse, viewWithContent } from './content.ts'
import { maxLabels } from './document-labels.ts'
import * as documents from './documents.ts'
import { countByYear, list as listDocuments, sortable } from './list.ts'
import { findDuplicates } from './store-document.ts'
import { openStoredFile } from './stored-files.ts'
import { preferredType, thumbnailResponse } from './thumbnails.ts'
import { DuplicatesAnswer, DuplicatesBody } from './uploads/forms.ts'
import { routes as uploadRoutes } from './uploads/routes.ts'
import { type Document, DocumentAnswer, etag, excerptLength, headLength, ListAnswer, TextSource, trashView, view } from './view.ts'

const ListedAnswer = DocumentAnswer.omit({ content_truncated: true, deleted_at: true, purge_at: true })
/** `fields=content` returns the whole text, which is never truncated. */
const fieldNames = Object.keys(ListedAnswer.shape) as [keyof z.infer<typeof ListedAnswer>]

export const listQuery = (app: App) =>
  z.object({
    ...pageQuery(app.config),
    sort: z.enum(sortable).default('created_at'),
    order: z.enum(['asc', 'desc']).default('desc'),
    status: commaList(DocumentAnswer.shape.status).optional(),
    source_id: idText.optional(),
    text_source: commaList(TextSource).optional().describe('`none,empty`: documents without text.'),
    split_from: idText.optional().describe('The parts of this document.'),
    label_ids: commaList(idText).optional(),
    date_from: moment.optional(),
    date_to: endTimestampText.optional(),
    min_confidence: numberText(0, 1).optional(),
    warning: z.string().max(100).optional().describe('Code of a warning.'),
    document_date_from: calendarDate.optional(),
    document_date_to: calendarDate.optional(),
    owner: z.string().max(200).optional(),
    facets: commaList(z.enum(['years'])).optional(),
    fields: commaList(z.enum(fieldNames)).optional(),
  })

export const Changes = z.object({
  title: z.string().max(10_000, { abort: true }).overwrite(visibleLine).trim().min(1).max(1000).optional(),
  labels: listOf(z.string().min(1).max(200), maxLabels).optional(),
  metadata: jsonRecord.optional(),
  document_date: calendarDate.nullable().optional().describe('null: the document has no date, also if its file or text has one.'),
  date_source: DocumentAnswer.shape.date_source
    .optional()
    .describe('As read: a `document_date` that is also as read does not become one of the user.'),
  retain_until: endTimestampText
    .nullable()
    .optional()
    .describe('As before, or later. A date means its last moment in UTC. null: the document has no retention.'),
})

export const ThumbnailQuery = z.object({ width: integerText(1, 1000).default(200), height: integerText(1, 1000).default(200) })
const DocumentQuery = z.object({ content: booleanText.default(true).describe('false leaves out the text.') })

const ids = { id: 'DOCUMENT_NOT_FOUND' } as const
/** Reads of one document are cheap: a list takes ten times as long. */
export const readCost = 0.1
const textRead = { cost: readCost, readsReplica: true } as const
export const ifNoneMatch = { 'If-None-Match': fileHeaders['If-None-Match'] } as const

const changeOptions = {
  headers: ifMatchHeader,
  ids,
  body: Changes,
  answer: DocumentAnswer,
  errors: ['PRECONDITION_FAILED', 'RETENTION'],
} as const
export const fileOptions = ({ config }: App) => ({
  audit: config.audit.downloads,
  cost: readCost,
  headers: fileHeaders,
  ids,
  produces: ['*/*'],
  otherAnswers: redirectAnswers(302, config.storage.redirect_downloads),
  errors: ['PRECONDITION_FAILED', 'RANGE_NOT_SATISFIABLE', 'STORAGE_UNAVAILABLE'] as const,
})

export const routes = (app: App): Route[] => [
  user(
    'GET /api/documents',
    { summary: 'List documents', readsReplica: true, query: listQuery(app), answer: ListAnswer, isLarge: true, isPipelined: true },
    list(app),
  ),
  ...uploadRoutes(app),
  user(
    'POST /api/documents/known',
    {
      summary: 'Check which SHA-256 checksums are already stored',
      scope: 'upload',
      audit: false,
      body: DuplicatesBody,
      answer: DuplicatesAnswer,
      errors: ['FORBIDDEN'],
    },
    async ({ actor, body: { sha256, owner } }) => ({
      documents: await findDuplicates(app, actor, sha256, owner),
      max_upload_size: app.config.limits.max_upload_size,
    }),
  ),
  user('POST /api/documents/batch-get', batchGetRoute(app), async ({ actor, body, event }) => {
    event.context.documentIds = body.ids
    return batchGet(app, actor, body)
  }),
  user(
    'GET /api/documents/:id',
    { summary: 'Get a document', ...textRead, headers: ifNoneMatch, ids, query: DocumentQuery, answer: DocumentAnswer },
    async ({ actor, event, param, query }) => {
      const document = await requireDocument(app.reads, actor, param('id'), { inTrash: true })
      const tag = etag(document)
      if (matchesEtag(event.req.headers.get('if-none-match'), tag)) return new Response(null, { status: 304, headers: { etag: tag } })
      if (!query.content) {
        event.context.headers = { etag: tag }
        const { content: _, content_truncated: __, ...fields } = view(document)
        return { ...fields, ...trashView(app, document) }
      }
      return withEtag(app, event, document)
    },
  ),
  user('PUT /api/documents/:id', { summary: 'Change fields of a document', ...changeOptions }, async ({ actor, event, param, body }) =>
    withEtag(app, event, await documents.update(app, actor, param('id'), body, event.req.headers.get('if-match'))),
  ),

  user(
    'GET /api/documents/:id/view',
    { summary: 'Get the file, inline if browsers can display its type safely', ...fileOptions(app) },
    async ({ actor, event, param }) =>
      sendFile(event, await openStoredFile(app, await requireDocument(app.db, actor, param('id'), { inTrash: true })), 'inline'),
  ),
  user(
    'GET /api/documents/:id/thumbnail',
    {
      summary: 'Get a thumbnail of the first page',
      cost: readCost,
      headers: { Accept: 'Selects JPEG if it has a higher weight than WebP. Default: WebP.', ...ifNoneMatch },
      ids,
      query: ThumbnailQuery,
      produces: ['image/webp', 'image/jpeg'],
      errors: ['STORAGE_UNAVAILABLE'],
    },
    sendThumbnail(app),
  ),
  user('GET /api/documents/:id/text', { summary: 'Get the text', ...textRead, ids, produces: ['text/plain'] }, async ({ actor, param }) => {
    const document = await requireDocument(app.reads, actor, param('id'), { inTrash: true })
    return textResponse(app, document, { ...untrustedContentHeaders, 'content-type': 'text/plain; charset=utf-8' })
  }),
]

const list =
  (app: App) =>
  async ({ actor, query }: UserCall<ReturnType<typeof listQuery>>) => {
    // An empty list is treated like an absent parameter, as in all queries.
    const fields = query.fields?.length ? query.fields : undefined
    const page = await resolvePage(app, actor, query)
    const { fields: _, facets, ...filter } = query
    const isWhole = fields?.includes('content') ?? false
    const characters = isWhole ? headLength : fields ? 0 : excerptLength
    const fetched = await listDocuments(app, actor, { ...filter, ...page, characters })
    const years = facets?.length ? { facets: { years: await countByYear(app, actor, filter) } } : {}
    const numbers = { pagination: pagination(page, fetched), ...years }
    if (fields && isWhole) return streamedJson({ data: fetched.rows.map((row) => pick(viewWithContent(app, row), fields)), ...numbers })
    return { data: fetched.rows.map(view).map((document) => (fields ? pick(document, fields) : document)), ...numbers }
  }

const sendThumbnail =
  (app: App) =>
  async ({ actor, event, param, query }: UserCall<typeof ThumbnailQuery>) => {
    const { headers } = event.req
    const document = await requireDocument(app.db, actor, param('id'), { inTrash: true })
    return thumbnailResponse(app, document, query, preferredType(headers.get('accept')), headers.get('if-none-match'))
  }

function withEtag(app: App, event: H3Event, document: Document): object {
  event.context.headers = { etag: etag(document) }
  return documentResponse(app, document)
}

const pick = <T extends object, K extends keyof T>(whole: T, keys: readonly K[]): Pick<T, K> =>
  Object.fromEntries(keys.map((key) => [key, whole[key]])) as Pick<T, K>
