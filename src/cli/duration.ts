import { parseDuration } from '../config-values.ts'
import { usage } from './exit.ts'

/** Milliseconds of a duration such as 90s, 24h or 7d that `flag` was given. Throws Failure USAGE. */
export function durationOf(flag: string, given: string): number {
  try {
    return parseDuration(given)
  } catch (error) {
    throw usage(`${flag}: "${given}" ${(error as Error).message}`)
  }
}
