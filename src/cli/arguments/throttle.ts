/** Limit of the rate at which a command transfers bytes. */
import { setTimeout as sleep } from 'node:timers/promises'
import { parseSize } from '../../config/values.ts'
import { usage } from '../runtime/exit.ts'

/** Delays until `bytes` may be sent. Concurrent transfers share it. */
export type Throttle = (bytes: number, signal?: AbortSignal) => Promise<void>

/** Creates a throttle from "5MiB/s" or "5MiB"; undefined means no limit. Throws Failure USAGE. */
export function createThrottle(rate: string | undefined): Throttle {
  if (rate === undefined) return async () => {}
  const bytesPerSecond = parseRate(rate)
  let nextStart = performance.now()
  return async (bytes, signal) => {
    const start = Math.max(nextStart, performance.now())
    nextStart = start + (bytes / bytesPerSecond) * 1000
    const delayMs = start - performance.now()
    if (delayMs > 0) await sleep(delayMs, undefined, { signal })
  }
}

function parseRate(rate: string): number {
  try {
    const bytes = parseSize(rate.replace(/\/s$/, ''))
    if (bytes > 0) return bytes
  } catch {
    // Reported below with the name of the flag.
  }
  throw usage(`--limit-rate ${rate}: not a rate such as 500kB/s or 5MiB/s`)
}
