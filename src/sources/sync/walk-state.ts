/** What a walk came by. */
import * as runs from './run-records.ts'

export interface Seen {
  /** files, those below folders that were not entered included */
  files: number
  /** the listing was not empty */
  isAny: boolean
  /** nothing is known of what is at or below these paths */
  unsure: readonly string[]
  /** the walk was not ended early on purpose */
  isWhole: boolean
  /** files that are as they were, which is written down late: a run that finds nothing else has no need of it */
  marks: Marks
}

export interface Marks {
  paths: Set<string>
  /** what they came to; the run in memory has counted it already */
  counts: runs.Counts
  /** since when they gather (performance.now()) */
  since: number
}

/** So many, or after so many milliseconds, they are written down all the same: a run that is taken up again goes on from there. */
const maxMarks = 20_000
const patience = 1000
/** More places than these are not told apart: then nothing at all is known to be gone. */
const maxUnsure = 1000

export const nothingSeen = (): Seen => ({ files: 0, isAny: false, unsure: [], isWhole: true, marks: noMarks() })

export const noMarks = (): Marks => ({ paths: new Set(), counts: runs.none(), since: performance.now() })

export const areDue = ({ paths, since }: Marks): boolean => paths.size >= maxMarks || performance.now() - since > patience

/** Of what is at or below the path nothing is known. */
export function doubt(seen: Seen, path: string): void {
  seen.unsure = seen.unsure.length < maxUnsure ? [...seen.unsure, path] : ['']
}
