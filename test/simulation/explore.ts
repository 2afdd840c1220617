/** Explores every order of steps and every placement of a limited number of faults: depth first, each state once. */
import { hash } from 'node:crypto'
import { type Program, type Step, stepAt } from './program.ts'
import { type Actor, actorOf, end, loseConnectionInCommit, resolveLostCommit, type World } from './world.ts'

export interface Explored {
  /** distinct states */
  states: number
  /** complete orders of steps and faults */
  interleavings: bigint
  /** of these: orders that end with a violated invariant */
  violating: bigint
  /** one order for each violated invariant */
  violations: Map<string, readonly string[]>
}

/** Returns the invariant that a state violates; null: none. */
export type Invariant = (world: World) => string | null

interface Move {
  description: string
  apply(world: World): void
}

/** Never throws: a violated invariant ends its order and is reported. States are distinguished by a hash of 160 bits. */
export function explore(start: World, programs: ReadonlyMap<string, Program>, invariant: Invariant, maxFaults: number): Explored {
  const counted = new Map<string, readonly [all: bigint, violating: bigint]>()
  const violations = new Map<string, readonly string[]>()
  const trace: string[] = []

  const visit = (text: string): readonly [bigint, bigint] => {
    const key = hash('sha1', text, 'base64')
    const cached = counted.get(key)
    if (cached) return cached
    const world = JSON.parse(text) as World
    const violated = invariant(world)
    let result: readonly [bigint, bigint]
    if (violated !== null) {
      if (!violations.has(violated)) violations.set(violated, [...trace])
      result = [1n, 1n]
    } else {
      let [all, violating] = [0n, 0n]
      for (const { description: says, apply } of movesOf(world, programs, maxFaults)) {
        const next = JSON.parse(text) as World
        apply(next)
        trace.push(says)
        const [more, wrong] = visit(JSON.stringify(next))
        trace.pop()
        all += more
        violating += wrong
      }
      result = all === 0n ? [1n, 0n] : [all, violating]
    }
    counted.set(key, result)
    return result
  }

  const [interleavings, violating] = visit(JSON.stringify(start))
  return { states: counted.size, interleavings, violating, violations }
}

/** Returns the possible next moves. A paused process makes none for a while. */
function movesOf(world: World, programs: ReadonlyMap<string, Program>, maxFaults: number): Move[] {
  const moves: Move[] = []
  for (const transaction of Object.keys(world.inFlight)) {
    moves.push({ description: `server: ${transaction} is applied`, apply: (next) => resolveLostCommit(next, transaction, true) })
    moves.push({ description: `server: ${transaction} is rolled back`, apply: (next) => resolveLostCommit(next, transaction, false) })
  }
  for (const [name, program] of programs) {
    const actor = actorOf(world, name)
    if (actor.nextStep === '') continue
    const step = stepAt(program, actor.nextStep)
    const isRefused = actor.isLost && step.isQuery
    if (isRefused || (step.isReady?.(world, name) ?? true))
      moves.push({
        description: `${name}: ${isRefused ? 'query fails at' : ''} ${actor.nextStep}`,
        apply: (next) => runStep(next, name, step),
      })
    if (world.faults < maxFaults) moves.push(...faultsOf(world, name, step))
  }
  return moves
}

function runStep(world: World, name: string, step: Step): void {
  const actor = actorOf(world, name)
  actor.nextStep = actor.isLost && step.isQuery ? step.onLost : step.run(world, name)
  if (actor.nextStep === '' && actor.outcome === '') actor.outcome = 'done'
}

function faultsOf(world: World, name: string, step: Step): Move[] {
  const actor = actorOf(world, name)
  const holdsLock = world.exclusiveLock === name || world.sharedLocks.includes(name)
  const isConnected = (actor.writes !== null || holdsLock) && !actor.isLost
  const crash = (next: World) => {
    for (const [address, owner] of Object.entries(next.commitMarkers)) if (owner === name) next.commitMarkers[address] = ''
    Object.assign(actorOf(next, name), { nextStep: '', outcome: 'crashed', isLost: true } satisfies Partial<Actor>)
  }
  const fault = (says: string, apply: (next: World) => void): Move => ({
    description: `${name}: ${says}`,
    apply(next) {
      next.faults++
      apply(next)
    },
  })
  const faults = [
    fault('CRASH', (next) => {
      end(next, name, false)
      crash(next)
    }),
  ]
  if (isConnected)
    faults.push(
      fault('CONNECTION LOST, server rolls back', (next) => {
        end(next, name, false)
        actorOf(next, name).isLost = true
      }),
    )
  if (!isConnected || !step.isCommit) return faults
  faults.push(
    fault('ANSWER OF COMMIT LOST', (next) => {
      end(next, name, true)
      Object.assign(actorOf(next, name), { isLost: true, nextStep: step.onLost } satisfies Partial<Actor>)
    }),
    fault('CONNECTION LOST, COMMIT under way', (next) => {
      loseConnectionInCommit(next, name)
      actorOf(next, name).nextStep = step.onLost
    }),
    fault('CRASH, COMMIT under way', (next) => {
      loseConnectionInCommit(next, name)
      crash(next)
    }),
  )
  return faults
}
