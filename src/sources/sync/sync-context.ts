/** What the parts of a sync share while it runs. */
import type { App } from '../../app.ts'
import type { Role } from '../../db/schema.ts'
import type { BatchOptions } from '../../documents/store-batch.ts'
import type { Job } from '../../jobs/queue.ts'
import type { SourceConnection, SourceFile } from '../../ports/source-type.ts'
import type { GlobMatcher } from '../globs.ts'
import type { Known } from './ledger.ts'
import type { Run } from './run-records.ts'

export interface Pulling {
  app: App
  sourceId: string
  ownerId: string
  /** as it was when the source was opened */
  ownerRole: Role
  run: Run
  connection: SourceConnection
  /** which files are taken */
  globs: GlobMatcher
  /** whose the documents become, and how they are read */
  from: BatchOptions
  options: PullOptions
  /** null: the sync of somebody who waits for it, and not of a worker */
  job: Job<'sync'> | null
  signal: AbortSignal
}

export interface PullOptions {
  /** look at every file again, whatever its tag says */
  full: boolean
  /** downloads at once */
  concurrency: number
  /** files that are fetched at most; null: all */
  maxFiles: number | null
}

/** A file to be fetched, and what is known of it. */
export interface Want {
  file: SourceFile
  known: Pick<Known, 'outcome' | 'sha256' | 'document_id' | 'removed_at'> | null
}
