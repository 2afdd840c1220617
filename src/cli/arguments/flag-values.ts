import { parseDuration } from '../../config/values.ts'
import { usage } from '../runtime/exit.ts'

/** Milliseconds of a duration such as 90s, 24h or 7d that `flag` was given. Throws Failure USAGE. */
export function parseDurationFlag(flag: string, given: string): number {
  try {
    return parseDuration(given)
  } catch (error) {
    throw usage(`${flag}: "${given}" ${(error as Error).message}`)
  }
}

/** How long ago it was, in the unit that says it in few digits: 45s, 12m, 30h, 9d. Such words are durations that flags take. */
export function formatAge(time: string, now: Date): string {
  const seconds = Math.max(0, Math.floor((now.getTime() - Date.parse(time)) / 1000))
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`
  return seconds < 172_800 ? `${Math.floor(seconds / 3600)}h` : `${Math.floor(seconds / 86_400)}d`
}
