/** State of a walk. */
import * as runs from './run-records.ts'

export interface WalkState {
  /** listed files, including those below unchanged folders */
  fileCount: number
  hasFiles: boolean
  /** paths that could not be listed; files at or below them are not marked as removed */
  uncertainPaths: readonly string[]
  /** false: the walk was ended early on purpose */
  isComplete: boolean
  /** unchanged files not yet marked in the ledger: a run without other changes never writes them */
  marks: PendingMarks
}

export interface PendingMarks {
  paths: Set<string>
  /** already counted by the run in memory */
  counts: runs.Counts
  /** time of the first mark (performance.now()) */
  since: number
}

/** Marks are flushed at this number or age, so that a resumed run does not start over. */
const maxMarks = 20_000
const maxMarkAgeMs = 1000
/** More uncertain paths count as "the whole source". */
const maxUncertainPaths = 1000

export const createWalkState = (): WalkState => ({
  fileCount: 0,
  hasFiles: false,
  uncertainPaths: [],
  isComplete: true,
  marks: createMarks(),
})

export const createMarks = (): PendingMarks => ({ paths: new Set(), counts: runs.emptyCounts(), since: performance.now() })

export const isFlushDue = ({ paths, since }: PendingMarks): boolean => paths.size >= maxMarks || performance.now() - since > maxMarkAgeMs

/** Records that nothing is known about the files at or below a path. */
export function markUncertain(state: WalkState, path: string): void {
  state.uncertainPaths = state.uncertainPaths.length < maxUncertainPaths ? [...state.uncertainPaths, path] : ['']
}
