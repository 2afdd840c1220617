import { z } from 'zod'
import type { App } from '../app.ts'
import { booleanText, listOf } from '../http/input.ts'
import { CursorPagination, Pagination, pageQuery, pagination, wholeQuery } from '../http/pages.ts'
import { admin, type Route, user } from '../http/route.ts'
import { viewOf } from '../http/view.ts'
import { visibleName } from '../http/visible-text.ts'
import { isId } from '../id.ts'
import { resolvePage } from '../settings/settings.ts'
import * as holds from './holds.ts'
import * as report from './report.ts'

// Commands take a hold by id or name, so a name must not have the form of an id.
const Name = visibleName(100).refine((name) => !isId(name), 'must not have the form of an id')
const Reason = z.string().max(2000)
export const Fields = z.object({ name: Name, reason: Reason.default('') })
export const Changes = z.object({ name: Name.optional(), reason: Reason.optional() })
const DocumentIds = z.object({ document_ids: listOf(z.string().max(200), 10_000, 1) })
export const listQuery = ({ config }: App) => z.object({ released: booleanText.optional(), ...wholeQuery(config) })

export const HoldAnswer = z.object({
  id: z.uuid(),
  name: z.string(),
  reason: z.string(),
  document_count: z.int(),
  created_by: z.string().nullable(),
  created_at: z.iso.datetime(),
  released_at: z.iso.datetime().nullable(),
})
export const ListAnswer = z.object({ holds: z.array(HoldAnswer), pagination: CursorPagination })
export const Added = z.object({ message: z.string(), added: z.int() })
export const Removed = z.object({ message: z.string(), removed: z.int() })

const amount = { documents: z.int(), bytes: z.int().describe('Of all versions.') }
const Amount = z.object(amount)
const ReportedDocument = z.object({
  id: z.uuid(),
  title: z.string(),
  owner: z.string(),
  size: z.int(),
  retain_until: z.iso.datetime().nullable(),
  holds: z.array(z.string()),
  deleted_at: z.iso.datetime().nullable(),
})
export const ReportAnswer = z.object({
  summary: z
    .object({
      total: Amount,
      retained: Amount,
      held: Amount,
      months: z.array(z.object({ month: z.string().describe('Month in which the retention ends, as 2030-01.'), ...amount })),
      holds: z.array(z.object({ id: z.uuid(), name: z.string(), ...amount })),
    })
    .nullable()
    .describe('null for a page by cursor.'),
  data: z.array(ReportedDocument).describe('By the end of the retention, then those only under hold.'),
  pagination: Pagination,
})

const ids = { id: 'HOLD_NOT_FOUND' } as const
const onDocuments = { ids, body: DocumentIds, errors: ['DOCUMENT_NOT_FOUND', 'CONFLICT'] as const }

export const routes = (app: App): Route[] => [
  admin(
    'GET /api/holds',
    { summary: 'List holds, newest first', query: listQuery(app), answer: ListAnswer, isLarge: true },
    async ({ query: { released, ...page } }) => {
      const { rows, next } = await holds.list(app, released, page)
      return { holds: rows.map(view), pagination: { next_cursor: next } }
    },
  ),
  admin(
    'POST /api/holds',
    { summary: 'Create a hold', body: Fields, status: 201, answer: HoldAnswer, errors: ['DUPLICATE_RESOURCE'] },
    async ({ actor, body }) => view(await holds.create(app, actor, body)),
  ),
  admin('GET /api/holds/:id', { summary: 'Get a hold', ids, answer: HoldAnswer }, async ({ param }) =>
    view(await holds.get(app.db, param('id'))),
  ),
  admin(
    'PUT /api/holds/:id',
    { summary: 'Change name or reason of a hold', ids, body: Changes, answer: HoldAnswer, errors: ['DUPLICATE_RESOURCE', 'CONFLICT'] },
    async ({ param, body }) => view(await holds.update(app, param('id'), body)),
  ),
  admin('DELETE /api/holds/:id', { summary: 'Delete a hold that is released or empty', ids, errors: ['RETENTION'] }, ({ param }) =>
    holds.remove(app, param('id')),
  ),
  admin('POST /api/holds/:id/release', { summary: 'Release a hold', ids, answer: HoldAnswer }, async ({ param }) =>
    view(await holds.release(app, param('id'))),
  ),
  admin(
    'POST /api/holds/:id/documents',
    { summary: 'Put documents under a hold', ...onDocuments, answer: Added },
    async ({ actor, param, body }) => ({
      message: 'Documents added.',
      added: await holds.addDocuments(app, actor, param('id'), body.document_ids),
    }),
  ),
  admin(
    'POST /api/holds/:id/documents/remove',
    { summary: 'Remove documents from a hold', ...onDocuments, answer: Removed },
    async ({ param, body }) => ({
      message: 'Documents removed.',
      removed: await holds.removeDocuments(app, param('id'), body.document_ids),
    }),
  ),
  admin(
    'DELETE /api/holds/:id/documents/:document_id',
    { summary: 'Remove one document from a hold', ids: { ...ids, document_id: 'DOCUMENT_NOT_FOUND' }, errors: ['CONFLICT'] },
    async ({ param }) => void (await holds.removeDocuments(app, param('id'), [param('document_id')])),
  ),
  user(
    'GET /api/retention/report',
    {
      summary: 'Report what is under retention or hold: of your documents; for admins of all',
      query: z.object(pageQuery(app.config)),
      answer: ReportAnswer,
      isLarge: true,
    },
    async ({ actor, query }) => {
      const page = await resolvePage(app, actor, query)
      const summary = page.cursor === undefined ? await report.summarize(app, actor) : null
      const fetched = await report.listRetained(app, actor, page, async () => summary?.total.documents ?? 0)
      return { summary, data: fetched.rows.map((row) => viewOf(ReportedDocument, row)), pagination: pagination(page, fetched) }
    },
  ),
]

const view = (hold: holds.Hold) => viewOf(HoldAnswer, hold)
