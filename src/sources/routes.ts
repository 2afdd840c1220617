import { z } from 'zod'
import type { App } from '../app.ts'
import { splitModes } from '../documents/store-document.ts'
import { listOf, moment } from '../http/input.ts'
import { CursorPagination, wholeQuery } from '../http/pages.ts'
import { type Route, user } from '../http/route.ts'
import { visibleName } from '../http/visible-text.ts'
import { openListingLimit } from './listing-limit.ts'
import { rollback } from './rollback.ts'
import * as sources from './sources.ts'
import * as syncs from './sync/start-sync.ts'
import { listPlan } from './sync/sync-plan.ts'
import * as testing from './test-connection.ts'
import { PlanAnswer, RollbackAnswer, SourceAnswer, StatusAnswer, statusView, Type, view } from './view.ts'

const Interval = z.union(
  [
    z.literal(0),
    z
      .int()
      .min(60)
      .max(365 * 24 * 3600),
  ],
  'seconds: 60 to 31,536,000, or 0 for only by hand',
)
const patterns = listOf(z.string().trim().min(1).max(256), 100)

const address = {
  url: z.string().trim().min(1).max(2000),
  /** the access key's id for s3 */
  username: z.string().max(500).nullish(),
  password: z.string().max(4000).nullish(),
}
export const Fields = z.object({
  name: visibleName(200),
  type: Type,
  ...address,
  sync_interval: Interval.optional(),
  recursive: z.boolean().default(true),
  file_patterns: patterns.default([]),
  split: z.enum(splitModes).nullish(),
  owner: z.string().max(200).optional(),
})
export const Changes = z.object({
  name: visibleName(200).optional(),
  type: Type.optional(),
  ...address,
  url: address.url.optional(),
  sync_interval: Interval.optional(),
  recursive: z.boolean().optional(),
  file_patterns: patterns.optional(),
  split: z.enum(splitModes).nullish(),
  status: SourceAnswer.shape.status
    .transform((status) => (status === 'active' || status === 'disabled' ? status : undefined))
    .optional()
    .describe('`active` or `disabled`. `syncing` and `error`, as read, change nothing.'),
})
export const AddressFields = z.object({ type: Type, ...address, recursive: z.boolean().default(true) })
export const SyncOptions = z.object({
  full: z.boolean().default(false),
  /** change and remove any share of the files */
  accept_changes: z.boolean().default(false),
})
export const PlanOptions = z.object({ full: z.boolean().default(false), max_files: z.int().min(1).max(10_000).default(1000) })
export const RollbackOptions = z.object({ before: moment, dry_run: z.boolean().default(false) })
const RemoveQuery = z.object({ documents: z.enum(['keep', 'delete']).default('keep') })

export const ListAnswer = z.object({ sources: z.array(SourceAnswer), pagination: CursorPagination })
export const TestAnswer = z.object({
  ok: z.boolean(),
  checks: z.array(z.object({ name: z.string(), ok: z.boolean(), message: z.string() })),
  sample: z.array(z.string()),
})
export const SyncAnswer = z.object({ message: z.string(), job_id: z.string() })
const ids = { id: 'SOURCE_NOT_FOUND' } as const
/** The server lists the source itself: a folder of 500,000 files takes seconds of processor time. */
const listingCost = 10

export function routes(app: App): Route[] {
  const limitListings = openListingLimit()
  return [
    user(
      'GET /api/sources',
      { summary: 'List sources by name', query: z.object(wholeQuery(app.config)), answer: ListAnswer, isLarge: true },
      async ({ actor, query }) => {
        const { rows, next } = await sources.list(app, actor, query)
        return { sources: rows.map(view), pagination: { next_cursor: next } }
      },
    ),
    user(
      'POST /api/sources',
      {
        summary: 'Create a source; only admins may create a local_folder',
        body: Fields,
        status: 201,
        answer: SourceAnswer,
        errors: ['FORBIDDEN', 'CONFLICT'],
      },
      async ({ actor, body }) => view(await sources.create(app, actor, body)),
    ),
    user(
      'POST /api/sources/test',
      {
        summary: 'Test an address before creating a source',
        cost: listingCost,
        body: AddressFields,
        answer: TestAnswer,
        errors: ['FORBIDDEN'],
      },
      ({ actor, body }) => limitListings(actor, () => testing.testAddress(app, actor, body)),
    ),
    user('GET /api/sources/:id', { summary: 'Get a source', ids, answer: SourceAnswer }, async ({ actor, param }) =>
      view(await sources.get(app, actor, param('id'))),
    ),
    user(
      'PUT /api/sources/:id',
      {
        summary: 'Change a source; omitted credentials are kept unless the server in `url` changes',
        ids,
        body: Changes,
        answer: SourceAnswer,
        errors: ['FORBIDDEN'],
      },
      async ({ actor, param, body }) => view(await sources.update(app, actor, param('id'), body)),
    ),
    user(
      'DELETE /api/sources/:id',
      { summary: 'Delete a source; documents=delete moves its documents to the trash', ids, query: RemoveQuery, errors: ['RETENTION'] },
      ({ actor, param, query }) => sources.remove(app, actor, param('id'), { withDocuments: query.documents === 'delete' }),
    ),
    user(
      'POST /api/sources/:id/test',
      {
        summary: 'Test name resolution, TLS, credentials and listing of a source, and return sample paths',
        cost: listingCost,
        ids,
        answer: TestAnswer,
      },
      ({ actor, param }) => limitListings(actor, () => testing.testSource(app, actor, param('id'))),
    ),
    user(
      'POST /api/sources/:id/sync',
      {
        summary: 'Start a sync; `full` fetches every file again; `accept_changes` changes any share of the files',
        ids,
        body: SyncOptions,
        status: 202,
        answer: SyncAnswer,
        errors: ['SOURCE_SYNC_IN_PROGRESS', 'CONFLICT'],
      },
      async ({ actor, param, body }) => ({
        message: 'Sync queued.',
        job_id: await syncs.startSync(app, actor, param('id'), body),
      }),
    ),
    user(
      'POST /api/sources/:id/sync/plan',
      {
        summary: 'List the files that a sync would fetch, without fetching them',
        cost: listingCost,
        ids,
        body: PlanOptions,
        answer: PlanAnswer,
        isLarge: true,
      },
      ({ actor, param, body }) => limitListings(actor, () => listPlan(app, actor, param('id'), body)),
    ),
    user(
      'GET /api/sources/:id/sync-status',
      { summary: 'Get the progress of the running sync or the result of the last one', ids, answer: StatusAnswer },
      status(app),
    ),
    user('GET /api/sources/:id/sync/status', { summary: 'Get the progress of the sync (alias)', ids, answer: StatusAnswer }, status(app)),
    user(
      'POST /api/sources/:id/rollback',
      {
        summary: 'Return the documents of a source to their versions of a moment',
        description:
          'Each document gets the bytes of that moment as a new version. Later documents move to the trash, documents trashed since return. Without a trash, later documents stay and count as failed (`NO_TRASH`). Repeatable.',
        ids,
        body: RollbackOptions,
        answer: RollbackAnswer,
        isLong: true,
        errors: ['SOURCE_SYNC_IN_PROGRESS'],
      },
      ({ actor, param, body }) => rollback(app, actor, param('id'), body),
    ),
    user(
      'POST /api/sources/:id/cancel',
      { summary: 'Cancel a pending or running sync; fetched documents are kept', ids, answer: SyncAnswer, errors: ['CONFLICT'] },
      async ({ actor, param }) => ({ message: 'Sync cancelled.', job_id: await syncs.cancelSync(app, actor, param('id')) }),
    ),
  ]
}

function status(app: App) {
  return async ({ actor, param }: { actor: Parameters<typeof sources.get>[1]; param(name: string): string }) =>
    statusView(await syncs.syncStatus(app, actor, param('id')))
}
