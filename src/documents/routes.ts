import { z } from 'zod'
import type { App } from '../app.ts'
import { sendFile } from '../http/files.ts'
import { once } from '../http/idempotency.ts'
import { commaSeparated, moment, wholeNumber } from '../http/input.ts'
import { readMultipart } from '../http/multipart.ts'
import { pageOf, pageQuery, pagination } from '../http/pages.ts'
import { type Call, type Route, user } from '../http/route.ts'
import { visible } from './access.ts'
import * as documents from './documents.ts'
import * as reading from './reading.ts'
import { preferredType, thumbnail } from './thumbnail.ts'
import { BulkAnswer, receive, storeAll, storeOne, UploadAnswer } from './uploads.ts'
import { DocumentAnswer, type DocumentView, etag, view } from './view.ts'

const Status = z.enum(['pending', 'processing', 'completed', 'failed'])

const listQuery = (app: App) =>
  z.object({
    ...pageQuery(app.config),
    sort: z.enum(documents.sortable).default('created_at'),
    order: z.enum(['asc', 'desc']).default('desc'),
    status: commaSeparated.pipe(z.array(Status)).optional(),
    source_id: z.uuid().optional(),
    label_ids: commaSeparated.pipe(z.array(z.uuid())).optional(),
    date_from: moment.optional(),
    date_to: moment.optional(),
    owner: z.string().max(200).optional(),
    fields: commaSeparated.pipe(z.array(z.enum(Object.keys(DocumentAnswer.shape) as [keyof DocumentView]))).optional(),
  })

const Changes = z.object({
  title: z.string().trim().min(1).max(1000).optional(),
  labels: z.array(z.string().min(1).max(200)).max(1000).optional(),
  metadata: z.record(z.string(), z.unknown()).optional(),
})

const UploadQuery = z.object({ on_duplicate: z.enum(['allow', 'reject', 'return']).optional(), owner: z.string().max(200).optional() })
const ThumbnailQuery = z.object({ width: wholeNumber(1, 1000).default(200), height: wholeNumber(1, 1000).default(200) })
const PagesAnswer = z.object({
  pages: z.array(
    z.object({
      page: z.int(),
      text: z.string(),
      source: z.enum(['text_layer', 'ocr', 'empty']).nullable(),
      confidence: z.number().nullable(),
      width: z.number().nullable(),
      height: z.number().nullable(),
      duration: z.number().nullable(),
    }),
  ),
})

const ids = { id: 'DOCUMENT_NOT_FOUND' } as const

export const routes = (app: App): Route[] => [
  user(
    'GET /api/documents',
    { summary: 'List documents', query: listQuery(app), answer: pageOf(DocumentAnswer.partial()) },
    async ({ actor, query }) => {
      const { fields } = query
      const { documents: page, total } = await documents.list(app, actor, { ...query, withContent: fields?.includes('content') ?? true })
      const data = page
        .map(view)
        .map((document) => (fields ? Object.fromEntries(fields.map((field) => [field, document[field]])) : document))
      return { data, pagination: pagination(query, total) }
    },
  ),

  user(
    'POST /api/documents/upload',
    {
      summary: 'Upload one file',
      query: UploadQuery,
      status: 201,
      answer: UploadAnswer,
      errors: ['DUPLICATE_RESOURCE', 'PAYLOAD_TOO_LARGE'],
    },
    upload(app),
  ),
  user(
    'POST /api/documents',
    {
      summary: 'Upload one file (alias)',
      query: UploadQuery,
      status: 201,
      answer: UploadAnswer,
      errors: ['DUPLICATE_RESOURCE', 'PAYLOAD_TOO_LARGE'],
    },
    upload(app),
  ),

  user(
    'POST /api/documents/bulk-upload',
    { summary: 'Upload up to ten files', query: UploadQuery, status: 201, answer: BulkAnswer, errors: ['PAYLOAD_TOO_LARGE'] },
    async ({ actor, event, query }) => {
      const { bulk_max_files, max_upload_size } = app.config.limits
      const limits = { fileSize: max_upload_size, files: bulk_max_files, total: bulk_max_files * (max_upload_size + (1 << 20)) }
      return receive(
        app,
        'files',
        (take) => readMultipart(event, limits, take),
        (staged, fields) => storeAll(app, actor, staged, { ...query, ...fields }),
      )
    },
  ),

  user('GET /api/documents/:id', { summary: 'Get a document', ids, answer: DocumentAnswer }, async ({ actor, event, param }) => {
    const document = await visible(app.db, actor, param('id'))
    event.res.headers.set('etag', etag(document))
    return view(document)
  }),

  user(
    'PUT /api/documents/:id',
    { summary: 'Change title, labels or metadata', ids, body: Changes, answer: DocumentAnswer, errors: ['PRECONDITION_FAILED'] },
    async ({ actor, event, param, body }) => {
      const document = await documents.update(app, actor, param('id'), body, event.req.headers.get('if-match'))
      event.res.headers.set('etag', etag(document))
      return view(document)
    },
  ),

  user('DELETE /api/documents/:id', { summary: 'Delete a document', ids }, ({ actor, param }) => documents.remove(app, actor, param('id'))),

  user(
    'GET /api/documents/:id/download',
    { summary: 'The file, as attachment', ids, errors: ['RANGE_NOT_SATISFIABLE'] },
    bytes(app, 'attachment'),
  ),
  user(
    'GET /api/documents/:id/view',
    { summary: 'The file, inline where its type is safe to show', ids, errors: ['RANGE_NOT_SATISFIABLE'] },
    bytes(app, 'inline'),
  ),

  user(
    'GET /api/documents/:id/thumbnail',
    { summary: 'A picture of the first page', ids, query: ThumbnailQuery },
    async ({ actor, event, param, query }) =>
      thumbnail(
        app,
        await visible(app.db, actor, param('id')),
        query,
        preferredType(event.req.headers.get('accept')),
        event.req.headers.get('if-none-match'),
      ),
  ),

  user('GET /api/documents/:id/pages', { summary: 'The text page by page', ids, answer: PagesAnswer }, async ({ actor, param }) => {
    const { id } = await visible(app.db, actor, param('id'))
    const rows = await reading.pages(app.db, id)
    return {
      pages: rows.map(({ page, text, source, confidence, width, height, duration }) => ({
        page,
        text,
        source,
        confidence,
        width,
        height,
        duration,
      })),
    }
  }),

  user('GET /api/documents/:id/text', { summary: 'The text alone', ids }, async ({ actor, param }) => {
    const { content } = await visible(app.db, actor, param('id'))
    return new Response(content, { headers: { 'content-type': 'text/plain; charset=utf-8', 'x-content-type-options': 'nosniff' } })
  }),
]

type Signed<Query extends z.ZodType> = Call<Query> & { actor: import('../actor.ts').Actor }

function upload(app: App) {
  return async ({ actor, event, query }: Signed<typeof UploadQuery>) => {
    const { max_upload_size } = app.config.limits
    const key = event.req.headers.get('idempotency-key')
    const done = await receive(
      app,
      'file',
      (take) => readMultipart(event, { fileSize: max_upload_size, files: 1, total: max_upload_size + (1 << 20) }, take),
      ([staged], fields) =>
        app.db.transaction().execute((trx) => once(app, trx, actor, key, () => storeOne(app, trx, actor, staged, { ...query, ...fields }))),
    )
    event.res.status = done.status
    return done.answer
  }
}

function bytes(app: App, how: 'attachment' | 'inline') {
  return async ({ actor, event, param }: Signed<z.ZodType>) => {
    const { sha256, size, filename, mime_type } = await visible(app.db, actor, param('id'))
    return sendFile(event, { size, filename, mime_type, etag: `"${sha256}"`, open: (range) => app.files.read(sha256, range) }, how)
  }
}
