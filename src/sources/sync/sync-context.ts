/** Context of a running sync. */
import type { App } from '../../app.ts'
import type { Role } from '../../db/schema.ts'
import type { BatchOptions } from '../../documents/store-batch.ts'
import type { Job } from '../../jobs/queue.ts'
import type { SourceConnection, SourceFile } from '../../ports/source-type.ts'
import type { GlobMatcher } from '../globs.ts'
import type { KnownFile } from './ledger.ts'
import type { Run } from './run-records.ts'

export interface SyncContext {
  app: App
  sourceId: string
  ownerId: string
  /** when the source was opened */
  ownerRole: Role
  run: Run
  connection: SourceConnection
  globs: GlobMatcher
  /** owner and OCR settings of new documents */
  from: BatchOptions
  options: SyncOptions
  /** null: run by a command, not by a worker */
  job: Job<'sync'> | null
  signal: AbortSignal
}

export interface SyncOptions {
  /** ignore tags and fetch every file again */
  full: boolean
  /** concurrent downloads */
  concurrency: number
  /** maximum number of files to fetch; null: no limit */
  maxFiles: number | null
}

/** A file to fetch, with its ledger row. */
export interface FetchRequest {
  file: SourceFile
  known: Pick<KnownFile, 'outcome' | 'sha256' | 'document_id' | 'removed_at'> | null
}
