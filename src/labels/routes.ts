import { z } from 'zod'
import type { App } from '../app.ts'
import { maxLabels } from '../documents/document-labels.ts'
import { maxRetentionDays } from '../documents/retention.ts'
import { ifMatchHeader } from '../http/files.ts'
import { listOf } from '../http/input.ts'
import { CursorPagination, wholeQuery } from '../http/pages.ts'
import { type Route, user } from '../http/route.ts'
import { viewOf } from '../http/view.ts'
import { visibleName } from '../http/visible-text.ts'
import { isId } from '../id.ts'
import * as labels from './labels.ts'

// Labels are looked up by id or name, so a name must not have the form of an id.
const Name = visibleName(100).refine((name) => !isId(name), 'must not have the form of an id')

const RetentionDays = z
  .int()
  .min(1)
  .max(maxRetentionDays)
  .nullable()
  .describe('Days after its creation for which a document with the label cannot be destroyed. Set by users: only their own documents.')

const RetentionScope = z.enum(['creator', 'all']).nullable()

export const Fields = z.object({
  name: Name.regex(labels.namePattern, labels.nameRule),
  color: z.string().regex(/^#[0-9a-f]{6}$/i, 'a colour of the form #RRGGBB'),
  description: z.string().max(500).default(''),
  retention_days: RetentionDays.default(null),
})
export const Changes = Fields.partial().extend({
  name: Name.optional(),
  description: z.string().max(500).optional(),
  retention_days: RetentionDays.optional(),
  retention_scope: RetentionScope.optional().describe('`creator`, as read: the retention stays one of the creator.'),
})
const LabelIds = z.object({ label_ids: listOf(z.string().min(1).max(200), maxLabels) })
const DocumentIds = z.object({ document_ids: listOf(z.string().max(200), 10_000, 1) })

export const LabelAnswer = z.object({
  id: z.uuid(),
  name: z.string(),
  color: z.string(),
  description: z.string(),
  document_count: z.int(),
  retention_days: z.int().nullable(),
  retention_scope: RetentionScope.describe('creator: only documents that the creator of the label owns.'),
  created_by: z.string().nullable(),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
})
const DocumentLabelsAnswer = z.object({ labels: z.array(LabelAnswer) })
export const ListAnswer = DocumentLabelsAnswer.extend({ pagination: CursorPagination })
export const Assigned = z.object({ message: z.string(), assigned: z.int() })

const ids = { id: 'LABEL_NOT_FOUND' } as const
const document = { id: 'DOCUMENT_NOT_FOUND' } as const

export const routes = (app: App): Route[] => [
  user(
    'GET /api/labels',
    { summary: 'List labels by name', query: z.object(wholeQuery(app.config)), answer: ListAnswer, isLarge: true },
    async ({ actor, query }) => {
      const { rows, next } = await labels.list(app, actor, query)
      return { labels: rows.map(view), pagination: { next_cursor: next } }
    },
  ),
  user(
    'POST /api/labels',
    { summary: 'Create a label', body: Fields, status: 201, answer: LabelAnswer, errors: ['DUPLICATE_RESOURCE', 'CONFLICT'] },
    async ({ actor, body }) => view(await labels.create(app, actor, body)),
  ),
  user(
    'PUT /api/labels/:id',
    { summary: 'Change a label', ids, body: Changes, answer: LabelAnswer, errors: ['FORBIDDEN', 'DUPLICATE_RESOURCE'] },
    async ({ actor, param, body }) => view(await labels.update(app, actor, param('id'), body)),
  ),
  user('DELETE /api/labels/:id', { summary: 'Delete a label', ids, errors: ['FORBIDDEN'] }, ({ actor, param }) =>
    labels.remove(app, actor, param('id')),
  ),
  user(
    'POST /api/labels/:id/assign',
    { summary: 'Assign a label to documents', ids, body: DocumentIds, answer: Assigned, errors: ['DOCUMENT_NOT_FOUND', 'CONFLICT'] },
    async ({ actor, param, body }) => ({
      message: 'Label assigned.',
      assigned: await labels.assign(app, actor, param('id'), body.document_ids),
    }),
  ),
  user(
    'POST /api/labels/:id/unassign',
    { summary: 'Remove a label from documents', ids, body: DocumentIds, answer: Assigned, errors: ['DOCUMENT_NOT_FOUND'] },
    async ({ actor, param, body }) => ({
      message: 'Label removed.',
      assigned: await labels.unassign(app, actor, param('id'), body.document_ids),
    }),
  ),
  user(
    'GET /api/labels/documents/:id',
    { summary: 'List the labels of a document', ids: document, answer: DocumentLabelsAnswer },
    async ({ actor, param }) => ({ labels: (await labels.listOfDocument(app, actor, param('id'))).map(view) }),
  ),
  user(
    'PUT /api/labels/documents/:id',
    {
      summary: 'Replace the labels of a document',
      headers: ifMatchHeader,
      ids: document,
      body: LabelIds,
      answer: DocumentLabelsAnswer,
      errors: ['PRECONDITION_FAILED'],
    },
    async ({ actor, event, param, body }) => {
      const replaced = await labels.replaceOfDocument(app, actor, param('id'), body.label_ids, event.req.headers.get('if-match'))
      return { labels: replaced.map(view) }
    },
  ),
]

const view = (label: labels.Label) => viewOf(LabelAnswer, label)
