/**
 * Detects steps of the database clock. Data deleted by age is lost for good, even if the clock was ahead for only a minute. The monotonic clock of
 * this process cannot be set.
 */
import type { App } from '../app.ts'
import { databaseNow } from '../db/clock.ts'

/** Smaller steps need no detection: what maintenance then deletes would be due within the hour anyway. */
const maxStepMs = 3_600_000

export interface SteadyClock {
  /** Compares both clocks with the last call. */
  update(): Promise<void>
  /** Milliseconds since the last detected step, or since the start. */
  steadyMs(): number
  /** Whether a step was detected. */
  hasStepped(): boolean
}

/** Starts to compare the clock of the database with the monotonic clock of this process. */
export function watchClock(app: App): SteadyClock {
  let last: { timeMs: number; atMs: number } | null = null
  let steadySinceMs = app.monotonicMs()
  let hasStepped = false
  return {
    async update() {
      const timeMs = (await databaseNow(app.db)).getTime()
      const atMs = app.monotonicMs()
      if (last && Math.abs(timeMs - last.timeMs - (atMs - last.atMs)) > maxStepMs) {
        steadySinceMs = atMs
        hasStepped = true
      }
      last = { timeMs, atMs }
    },
    steadyMs: () => app.monotonicMs() - steadySinceMs,
    hasStepped: () => hasStepped,
  }
}
