/** API views of sources, syncs and rollbacks. */
import { z } from 'zod'
import { splitModes } from '../documents/store-document.ts'
import { viewOf } from '../http/view.ts'
import type { Source } from './sources.ts'
import type { SyncStatus } from './sync/start-sync.ts'

export const Type = z.enum(['webdav', 'local_folder', 's3'])
export const SourceAnswer = z.object({
  id: z.uuid(),
  owner_id: z.uuid(),
  name: z.string(),
  type: Type,
  url: z.string(),
  /** whether there is a username or a password; neither is ever shown */
  has_credentials: z.boolean(),
  status: z.enum(['active', 'syncing', 'error', 'disabled']),
  last_sync: z.iso.datetime().nullable(),
  next_sync: z.iso.datetime().nullable(),
  last_error: z.string().nullable(),
  document_count: z.int(),
  sync_interval: z.int(),
  recursive: z.boolean(),
  split: z.enum(splitModes).nullable().describe('How PDFs and TIFFs become several documents. null: as `ocr.split` of the server.'),
  file_patterns: z.array(z.string()),
  created_at: z.iso.datetime(),
  updated_at: z.iso.datetime(),
})

export const StatusAnswer = z.object({
  source_id: z.uuid(),
  job_id: z.uuid().nullable(),
  state: z.enum(['idle', 'queued', 'running', 'completed', 'failed', 'cancelled']),
  processed: z.int(),
  total: z.int(),
  current_file: z.string().nullable(),
  created: z.int(),
  updated: z.int(),
  unchanged: z.int(),
  skipped: z.int(),
  failed: z.int(),
  removed: z.int(),
  bytes: z.int(),
  /** the first hundred */
  errors: z.array(z.object({ path: z.string(), code: z.string(), message: z.string() })),
  /** why the sync as a whole failed */
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  started_at: z.iso.datetime().nullable(),
  finished_at: z.iso.datetime().nullable(),
})

export const RollbackAnswer = z.object({
  restored: z.int(),
  trashed: z.int(),
  unchanged: z.int(),
  failed: z.int(),
  /** at most 10,000 documents with changes or failures, failed ones first */
  items: z.array(
    z.object({
      document_id: z.uuid(),
      title: z.string(),
      filename: z.string(),
      path: z.string().nullable(),
      action: z.enum(['restored', 'trashed', 'failed']),
      error: z.object({ code: z.string(), message: z.string() }).nullable(),
    }),
  ),
  has_more: z.boolean(),
})

export const PlanAnswer = z.object({
  files: z.array(z.object({ action: z.enum(['created', 'updated']), path: z.string(), size: z.int().nullable() })),
  problems: z
    .array(z.object({ path: z.string(), code: z.string(), message: z.string() }))
    .describe('Entries that the sync would count as failed, at most 1,000.'),
  /** the listing ended early, by `max_files` or after 45 seconds */
  has_more: z.boolean(),
  error: z.object({ code: z.string(), message: z.string() }).nullable(),
  /** the sync would stop with this error, judged by the listing; with SOURCE_EMPTY it would continue, and mark no file as removed */
  stop: z.object({ code: z.string(), message: z.string() }).nullable(),
})

export const view = (source: Source): z.infer<typeof SourceAnswer> =>
  viewOf(SourceAnswer, {
    ...source,
    has_credentials: source.credentials !== null,
    status: source.is_syncing && source.status !== 'disabled' ? 'syncing' : source.status,
  })

export const statusView = ({ error_code, error_message, ...status }: SyncStatus): z.infer<typeof StatusAnswer> =>
  viewOf(StatusAnswer, { ...status, error: error_code === null ? null : { code: error_code, message: error_message ?? '' } })
