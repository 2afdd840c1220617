import { z } from 'zod'
import type { App } from '../../app.ts'
import { AppError } from '../../errors.ts'
import { sendFile } from '../../http/files.ts'
import { type Route, type UserCall, user } from '../../http/route.ts'
import { viewOf } from '../../http/view.ts'
import { requireDocument } from '../access.ts'
import { renditionName } from '../file-names.ts'
import { fileOptions, readCost } from '../routes.ts'
import { openStoredFile } from '../stored-files.ts'
import * as renditions from './renditions.ts'

const Kind = z.enum(['pdfa'])
const RenditionBody = z.object({ kind: Kind })
export const DownloadQuery = z.object({
  rendition: Kind.optional().describe('A rendition of the current version instead of its file. 202 while it is being made.'),
})

const RenditionAnswer = z.object({
  document_id: z.uuid(),
  number: z.int().describe('Version.'),
  kind: Kind,
  state: z.enum(['pending', 'completed', 'failed', 'refused']).describe('refused: the file cannot be converted.'),
  size: z.int().nullable(),
  sha256: z.string().nullable(),
  error_code: z.string().nullable(),
  error_message: z.string().nullable(),
  created_at: z.iso.datetime(),
  finished_at: z.iso.datetime().nullable(),
  current: z.boolean(),
})
export type RenditionView = z.infer<typeof RenditionAnswer>
export const ListAnswer = z.object({ renditions: z.array(RenditionAnswer) })
export const QueuedAnswer = z.object({ queued: z.int() })
const StateCounts = z.object({
  kind: Kind,
  pending: z.int(),
  completed: z.int(),
  failed: z.int(),
  refused: z.int(),
  missing: z.int().describe('Documents with pages for which none was requested.'),
})
export const StatusAnswer = z.object({ renditions: z.array(StateCounts) })

const ids = { id: 'DOCUMENT_NOT_FOUND' } as const
const retryAfterSecs = 5

export const routes = (app: App): Route[] => [
  user('GET /api/documents/:id/download', downloadOptions(app), download(app)),
  user(
    'GET /api/documents/:id/renditions',
    { summary: 'List the renditions of a document, newest version first', cost: readCost, ids, answer: ListAnswer, isLarge: true },
    async ({ actor, param }) => ({ renditions: (await renditions.list(app, actor, param('id'))).map(view) }),
  ),
  user(
    'POST /api/documents/:id/renditions',
    {
      summary: 'Make a rendition of the current version',
      description: 'A searchable PDF/A-2u. 200 if it exists already. One that failed or was refused is tried again.',
      ids,
      body: RenditionBody,
      status: 202,
      answer: RenditionAnswer,
      otherAnswers: { 200: RenditionAnswer },
    },
    async ({ actor, event, param, body }) => {
      const rendition = await renditions.request(app, actor, param('id'), body.kind)
      event.res.status = rendition.state === 'completed' ? 200 : 202
      return view(rendition)
    },
  ),
  user('GET /api/renditions/status', { summary: 'Count renditions by state', answer: StatusAnswer }, async ({ actor }) => ({
    renditions: await renditions.countByState(app, actor),
  })),
  user(
    'POST /api/renditions',
    {
      summary: 'Make all missing renditions',
      description: 'Of your documents; for an admin, of all users. Refused ones are not tried again.',
      body: RenditionBody,
      status: 202,
      answer: QueuedAnswer,
    },
    async ({ actor, body }) => ({ queued: await renditions.requestMissing(app, actor, body.kind) }),
  ),
]

const downloadOptions = (app: App) => {
  const { errors, otherAnswers, ...options } = fileOptions(app)
  return {
    summary: 'Download the file',
    ...options,
    query: DownloadQuery,
    otherAnswers: { 202: RenditionAnswer, ...otherAnswers },
    errors: ['RENDITION_NOT_FOUND', 'RENDITION_UNAVAILABLE', ...errors] as const,
  }
}

const download =
  (app: App) =>
  async ({ actor, event, param, query }: UserCall<typeof DownloadQuery>) => {
    const document = await requireDocument(app.db, actor, param('id'), { inTrash: true })
    if (query.rendition === undefined) return sendFile(event, await openStoredFile(app, document), 'attachment')
    const rendition = await renditions.get(app, actor, document.id, query.rendition)
    if (rendition.state === 'pending') {
      event.res.status = 202
      event.context.headers = { 'retry-after': String(retryAfterSecs) }
      return view(rendition)
    }
    const { sha256, size, finished_at, error_code, error_message } = rendition
    if (sha256 === null || size === null)
      throw new AppError('RENDITION_UNAVAILABLE', { state: rendition.state, code: error_code }, error_message ?? undefined)
    const times = { created_at: finished_at ?? document.created_at, file_replaced_at: null }
    const file = { ...times, sha256, size, filename: renditionName(document.filename), mime_type: 'application/pdf' }
    return sendFile(event, await openStoredFile(app, file), 'attachment')
  }

const view = (rendition: renditions.Rendition): RenditionView => viewOf(RenditionAnswer, { ...rendition })
