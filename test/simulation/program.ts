/** The steps of an actor. */
import type { World } from './world.ts'

export interface Step {
  label: string
  /** the function that does this in the real code: file below src/, then its name */
  mirrors: readonly [file: string, name: string]
  /** a statement on the connection of the open transaction: fails after a lost connection */
  isQuery: boolean
  isCommit: boolean
  /** next step after a lost connection */
  onLost: string
  /** false while it waits for a lock */
  isReady?: (world: World, self: string) => boolean
  /** Executes the step. Returns the label of the next one, '' at the end. */
  run(world: World, self: string): string
}

export type Program = readonly Step[]

type StepOptions = Pick<Step, 'label' | 'mirrors' | 'run'> & Partial<Pick<Step, 'onLost' | 'isReady'>>

/** A statement inside the open transaction. */
export const query = (given: StepOptions): Step => ({ isQuery: true, isCommit: false, onLost: 'failed', ...given })

/** COMMIT. */
export const commit = (given: StepOptions): Step => ({ isQuery: true, isCommit: true, onLost: 'failed', ...given })

/** BEGIN with the first statement, on a new connection; or a change in memory or on the disk, which a lost connection does not affect. */
export const local = (given: StepOptions): Step => ({ isQuery: false, isCommit: false, onLost: 'failed', ...given })

export function stepAt(program: Program, label: string): Step {
  const step = program.find((one) => one.label === label)
  if (!step) throw new Error(`no step ${label}`)
  return step
}
