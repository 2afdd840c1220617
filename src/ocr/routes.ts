import { z } from 'zod'
import type { App } from '../app.ts'
import { recover } from '../documents/extraction/stranded-documents.ts'
import { commaList, idText, listOf } from '../http/input.ts'
import { pageQuery, pageSchema, pagination } from '../http/pages.ts'
import { admin, type Route, user } from '../http/route.ts'
import * as jobs from '../jobs/queue.ts'
import { OcrLanguage, resolvePage } from '../settings/settings.ts'
import { languageName } from './languages.ts'
import * as ocr from './ocr.ts'

const Priority = z.enum(Object.keys(jobs.priorities) as [jobs.Priority])
const JobStatus = z.enum(['pending', 'processing', 'completed', 'failed', 'cancelled'])

export const ItemAnswer = z.object({
  id: z.uuid(),
  document_id: z.uuid(),
  filename: z.string(),
  title: z.string(),
  status: JobStatus,
  priority: Priority,
  attempts: z.int(),
  max_attempts: z.int(),
  language: z.string(),
  progress: z.int().min(0).max(100),
  pages_done: z.int(),
  pages_total: z.int().nullable(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  created_at: z.iso.datetime(),
  started_at: z.iso.datetime().nullable(),
  completed_at: z.iso.datetime().nullable(),
  processing_time: z.number().nullable(),
  worker: z.string().nullable(),
})

export const StatusAnswer = z.object({
  pending: z.int(),
  processing: z.int(),
  completed_today: z.int(),
  failed: z.int().describe('Documents that could not be read, and have not been read since.'),
  average_processing_time: z.number(),
  estimated_completion: z.iso.datetime().nullable(),
  paused: z.boolean(),
})
export const RecoverAnswer = z.object({ recovered: z.array(z.object({ document_id: z.uuid(), job_id: z.uuid() })) })

export const listQuery = (app: App) =>
  z.object({
    ...pageQuery(app.config),
    status: commaList(JobStatus)
      .optional()
      .describe('`failed`: the last failure of each document that has not been read since. Without `status`, all failures are listed.'),
    priority: Priority.optional(),
    sort: z
      .enum(ocr.sortable)
      .default('next')
      .describe('`next` is the order of execution, which changes during pagination. `created_at` is stable.'),
  })
export const Retry = z.object({ language: OcrLanguage.optional(), priority: Priority.default('normal') })
export const RetryMany = z.union(
  [z.object({ ids: listOf(idText, 10_000, 1) }), z.object({ status: z.literal('failed') })],
  'either {"status":"failed"} or {"ids":[…]}',
)
export const RetryAnswer = z.object({ message: z.string(), job_id: z.uuid() })
export const RetryManyAnswer = z.object({ queued: z.int() })
export const LanguagesAnswer = z.object({
  languages: z.array(z.object({ code: z.string(), name: z.string() })),
  default: z.string(),
})

const ids = { id: 'OCR_JOB_NOT_FOUND' } as const
const ofDocument = { id: 'DOCUMENT_NOT_FOUND' } as const

export const routes = (app: App): Route[] => {
  const retry = {
    summary: 'Repeat OCR of a document; only admins may set priority urgent',
    ids: ofDocument,
    body: Retry,
    answer: RetryAnswer,
    errors: ['CONFLICT', 'FORBIDDEN'],
  } as const
  const queueAgain = async (actor: Parameters<typeof ocr.retry>[1], id: string, { language, priority }: z.infer<typeof Retry>) => ({
    message: 'OCR queued.',
    job_id: await ocr.retry(app, actor, id, language, priority),
  })

  return [
    user('POST /api/documents/:id/retry-ocr', retry, ({ actor, param, body }) => queueAgain(actor, param('id'), body)),
    user('POST /api/documents/:id/ocr/retry', retry, ({ actor, param, body }) => queueAgain(actor, param('id'), body)),
    user('GET /api/ocr/queue/status', { summary: 'Get counts and rates of the OCR queue', answer: StatusAnswer }, async ({ actor }) =>
      statusView(await ocr.status(app, actor)),
    ),
    admin('POST /api/ocr/queue/pause', { summary: 'Pause the OCR queue; running jobs finish', answer: StatusAnswer }, async ({ actor }) =>
      statusView(await ocr.pause(app, actor)),
    ),
    admin('POST /api/ocr/queue/resume', { summary: 'Resume the OCR queue', answer: StatusAnswer }, async ({ actor }) =>
      statusView(await ocr.resume(app, actor)),
    ),
    admin(
      'POST /api/ocr/queue/recover',
      {
        summary: 'Queue up to 1000 pending documents without a job; repeat until none is left',
        answer: RecoverAnswer,
      },
      async () => ({ recovered: await recover(app) }),
    ),
    user(
      'GET /api/ocr/queue',
      {
        summary: 'List OCR jobs in the order in which they will run',
        query: listQuery(app),
        answer: pageSchema(ItemAnswer),
        isLarge: true,
      },
      async ({ actor, query }) => {
        const page = await resolvePage(app, actor, query)
        const fetched = await ocr.list(app, actor, { ...query, ...page })
        return { data: fetched.rows.map(view), pagination: pagination(page, fetched) }
      },
    ),
    user(
      'POST /api/ocr/queue/retry',
      { summary: 'Retry failed OCR jobs', body: RetryMany, answer: RetryManyAnswer, errors: ['CONFLICT'] },
      async ({ actor, body, event }) => {
        const documentIds = await ocr.retryMany(app, actor, body)
        event.context.documentIds = documentIds
        return { queued: documentIds.length }
      },
    ),
    user('GET /api/ocr/queue/:id', { summary: 'Get an OCR job', ids, answer: ItemAnswer }, async ({ actor, param }) =>
      view(await ocr.get(app, actor, param('id'))),
    ),
    user(
      'PUT /api/ocr/queue/:id/priority',
      {
        summary: 'Change the priority of a pending OCR job; only admins may set urgent',
        ids,
        body: z.object({ priority: Priority }),
        answer: ItemAnswer,
        errors: ['CONFLICT', 'FORBIDDEN'],
      },
      async ({ actor, param, body, event }) => {
        const item = view(await ocr.setPriority(app, actor, param('id'), body.priority))
        event.context.documentIds = [item.document_id]
        return item
      },
    ),
    user('DELETE /api/ocr/queue/:id', { summary: 'Cancel an OCR job', ids, errors: ['CONFLICT'] }, async ({ actor, event, param }) => {
      event.context.documentIds = [await ocr.cancel(app, actor, param('id'))]
    }),
    user('GET /api/ocr/languages', { summary: 'List the installed OCR languages', answer: LanguagesAnswer }, async () => {
      await app.ocr?.refresh()
      return {
        languages: [...(app.ocr?.languages.keys() ?? [])].sort().map((code) => ({ code, name: languageName(code) })),
        default: app.config.ocr.default_language,
      }
    }),
  ]
}

const statusView = ({ estimated_completion, ...counts }: ocr.Status): z.infer<typeof StatusAnswer> => ({
  ...counts,
  estimated_completion: estimated_completion?.toISOString() ?? null,
})

const seconds = (from: Date | null, to: Date | null): number | null => (from && to ? (to.getTime() - from.getTime()) / 1000 : null)

const view = (item: ocr.Item): z.infer<typeof ItemAnswer> => ({
  id: item.id,
  document_id: item.document_id ?? '',
  filename: item.filename,
  title: item.title,
  status: item.status,
  priority: jobs.priorityName(item.priority),
  attempts: item.attempts,
  max_attempts: item.max_attempts,
  language: item.payload.language,
  progress: item.status === 'completed' ? 100 : Math.floor((100 * item.pages_done) / (item.pages_total || 1)),
  pages_done: item.pages_done,
  pages_total: item.pages_total,
  error: item.error_code === null ? null : { code: item.error_code, message: item.error_message ?? '' },
  created_at: item.created_at.toISOString(),
  started_at: item.started_at?.toISOString() ?? null,
  completed_at: item.finished_at?.toISOString() ?? null,
  processing_time: seconds(item.started_at, item.finished_at),
  worker: item.worker,
})
