import { setTimeout as sleep } from 'node:timers/promises'
import { parseSize } from '../../config/values.ts'
import { usage } from './exit.ts'

/** Waits until so many bytes may go on; shared by all that moves at the same time. Not ended by a first Ctrl-C: what is being sent is sent to its end. */
export type Throttle = (bytes: number) => Promise<void>

/** "5MiB/s" or "5MiB"; undefined is as fast as it can. Throws Failure USAGE. */
export function createThrottle(given: string | undefined): Throttle {
  if (given === undefined) return async () => {}
  const bytesPerSecond = parseRate(given)
  let free = performance.now()
  return async (bytes) => {
    const start = Math.max(free, performance.now())
    free = start + (bytes / bytesPerSecond) * 1000
    const pause = start - performance.now()
    if (pause > 0) await sleep(pause)
  }
}

function parseRate(given: string): number {
  try {
    const bytes = parseSize(given.replace(/\/s$/, ''))
    if (bytes > 0) return bytes
  } catch {
    // Said below, with the flag.
  }
  throw usage(`--limit-rate ${given}: not a rate such as 500kB/s or 5MiB/s`)
}
