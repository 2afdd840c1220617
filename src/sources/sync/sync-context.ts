/** Context of a running sync, and the state of its walk. */
import type { App } from '../../app.ts'
import type { Role } from '../../db/schema.ts'
import type { NewDocumentOptions } from '../../documents/source-documents.ts'
import type { Job } from '../../jobs/queue.ts'
import type { StagedFile } from '../../ports/file-store.ts'
import type { SourceConnection, SourceFile } from '../../ports/source-type.ts'
import type { GlobMatcher } from '../globs.ts'
import type { HeldFiles } from './held-files.ts'
import type { ComparedFile } from './ledger.ts'
import * as runs from './run-records.ts'

export interface SyncContext {
  app: App
  sourceId: string
  /** of the source */
  name: string
  ownerId: string
  /** when the source was opened */
  ownerRole: Role
  run: runs.Run
  connection: SourceConnection
  globs: GlobMatcher
  /** owner and OCR settings of new documents */
  newDocuments: NewDocumentOptions
  options: SyncOptions
  /** null: run by a command, not by a worker */
  job: Job<'sync'> | null
  signal: AbortSignal
}

export interface SyncOptions {
  /** ignore tags and fetch every file again */
  full: boolean
  /** change and remove any share of the files */
  acceptChanges: boolean
  /** concurrent downloads */
  concurrency: number
  /** maximum number of files to fetch; null: no limit */
  maxFiles: number | null
}

/** A file to fetch, with its ledger row. */
export interface FetchRequest {
  file: SourceFile
  previous: Pick<ComparedFile, 'outcome' | 'sha256' | 'document_id' | 'removed_at' | 'current_sha256'> | null
}

/** Identifies the version of a file. All null: unknown, so the next run fetches the file again. */
export type Version = Pick<SourceFile, 'etag' | 'size' | 'modifiedAt'>
export const unknownVersion: Version = { etag: null, size: null, modifiedAt: null }

export type FetchResult = { request: FetchRequest } & (
  | { outcome: 'staged'; staged: StagedFile; version: Version }
  /** fetched to compare its bytes; nothing is staged */
  | { outcome: 'hashed'; sha256: string; size: number; version: Version }
  /** `isSourceWide`: the failure may concern the whole source. `needsPause`: see needsPause() */
  | { outcome: 'skipped' | 'failed'; code: string; message: string; isSourceWide: boolean; needsPause: boolean }
)

export interface WalkState {
  /** listed files, including those below unchanged folders */
  fileCount: number
  hasFiles: boolean
  /** listed files that are in the ledger, in their listed version */
  seenCount: number
  /** paths that could not be listed; files at or below them are not marked as removed */
  uncertainPaths: readonly string[]
  /** false: the walk was ended early on purpose */
  isComplete: boolean
  /** changes that wait for their approval; null: approved */
  held: HeldFiles | null
  /** bytes are being compared: an interruption would lose results */
  isComparing: boolean
  /** unchanged files not yet marked in the ledger: a run without other changes never writes them */
  marks: ReturnType<typeof createMarks>
}

/** Number and age of marks at which they are flushed. A resumed run then need not start over. */
const maxMarks = 20_000
const maxMarkAgeMs = 1000
/** Maximum number of uncertain paths. More of them count as "the whole source". */
const maxUncertainPaths = 1000

export const createWalkState = (held: HeldFiles | null): WalkState => ({
  fileCount: 0,
  hasFiles: false,
  seenCount: 0,
  uncertainPaths: [],
  isComplete: true,
  held,
  isComparing: false,
  marks: createMarks(),
})

/** `counts` are already part of the run in memory; `since` is the time of the first mark (performance.now()). */
export const createMarks = () => ({ paths: new Set<string>(), counts: runs.emptyCounts(), since: performance.now() })

export const isFlushDue = ({ marks: { paths, since } }: WalkState): boolean =>
  paths.size >= maxMarks || performance.now() - since > maxMarkAgeMs

/** Records that nothing is known about the files at or below a path. */
export function markUncertain(state: WalkState, path: string): void {
  state.uncertainPaths = state.uncertainPaths.length < maxUncertainPaths ? [...state.uncertainPaths, path] : ['']
}
