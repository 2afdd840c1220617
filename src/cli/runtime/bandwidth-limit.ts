import { setTimeout as sleep } from 'node:timers/promises'
import { parseSize } from '../../config/values.ts'
import { usage } from './exit.ts'

/** Delays until `bytes` may be sent. Concurrent transfers share it. SIGINT does not end the delay, because the current file is sent completely. */
export type Throttle = (bytes: number) => Promise<void>

/** Creates a throttle from "5MiB/s" or "5MiB"; undefined means no limit. Throws Failure USAGE. */
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
    // Reported below with the name of the flag.
  }
  throw usage(`--limit-rate ${given}: not a rate such as 500kB/s or 5MiB/s`)
}
