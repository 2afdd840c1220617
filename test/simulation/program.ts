/** What an actor does, step by step. */
import type { World } from './world.ts'

export interface Step {
  label: string
  /** the function that does this in the real code: file below src/, then its name */
  mirrors: readonly [file: string, name: string]
  /** a statement on the connection of the open transaction: fails once that is lost */
  isQuery: boolean
  isCommit: boolean
  /** where it goes on when the connection is lost */
  onLost: string
  /** false while it waits for a lock */
  isReady?: (world: World, self: string) => boolean
  /** Does it; the label of the next step, '' at the end. */
  run(world: World, self: string): string
}

export type Program = readonly Step[]

type Given = Pick<Step, 'label' | 'mirrors' | 'run'> & Partial<Pick<Step, 'onLost' | 'isReady'>>

/** A statement inside the transaction that is open. */
export const query = (given: Given): Step => ({ isQuery: true, isCommit: false, onLost: 'failed', ...given })

/** COMMIT. */
export const commit = (given: Given): Step => ({ isQuery: true, isCommit: true, onLost: 'failed', ...given })

/** BEGIN with the first statement, on a fresh connection; or what happens in memory or on the disk: it does not notice a lost connection. */
export const local = (given: Given): Step => ({ isQuery: false, isCommit: false, onLost: 'failed', ...given })

export function stepAt(program: Program, label: string): Step {
  const step = program.find((one) => one.label === label)
  if (!step) throw new Error(`no step ${label}`)
  return step
}
