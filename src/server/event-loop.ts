/** Notices when the event loop is blocked, and says which routes were being handled meanwhile: one of them is the cause, or a job of this process. */
import type { H3Event } from 'h3'
import type { Log } from '../log/log.ts'
import type { Family, Sample } from '../metrics/exposition.ts'

export interface EventLoopWatch {
  began(event: H3Event): void
  ended(event: H3Event): void
  families(): Family[]
  close(): void
}

export interface EventLoopWatchOptions {
  /** delay from which on it is logged; 0: never */
  warnMs: number
  /** between two lines of the log */
  logIntervalMs?: number
}

/** Upper bounds in seconds. */
const bounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
/** Requests that one line names. */
const maxNamed = 10

/** Starts the watch. Delays are measured by a timer; half of its interval is how far they are off. */
export function watchEventLoop(log: Log, { warnMs, logIntervalMs = 10_000 }: EventLoopWatchOptions): EventLoopWatch {
  const intervalMs = warnMs === 0 ? 100 : Math.min(100, Math.max(10, Math.floor(warnMs / 4)))
  const inFlight = new Set<H3Event>()
  /** answered since the timer last ran, which may be within one long turn of the loop */
  let justEnded: H3Event[] = []
  const buckets: number[] = Array(bounds.length + 1).fill(0)
  const blockedBy = new Map<string, number>()
  let sum = 0
  let count = 0
  let lastTickAt = performance.now()
  let lastLoggedAt = Number.NEGATIVE_INFINITY
  let unlogged = 0

  const warn = (delayMs: number): void => {
    const now = performance.now()
    const events = [...justEnded, ...inFlight]
    const routes = new Set(events.map(routeLabel))
    for (const route of routes.size > 0 ? routes : ['none']) blockedBy.set(route, (blockedBy.get(route) ?? 0) + 1)
    if (now - lastLoggedAt < logIntervalMs) return void unlogged++
    const requests = events
      .slice(0, maxNamed)
      .map((event) => ({ route: routeLabel(event), request_id: event.context.requestId, user_id: event.context.actor?.id ?? undefined }))
    log.warn(
      { delay_ms: Math.round(delayMs), routes: [...routes].slice(0, maxNamed), requests, requests_in_progress: events.length, unlogged },
      'event loop blocked',
    )
    lastLoggedAt = now
    unlogged = 0
  }
  const timer = setInterval(() => {
    const now = performance.now()
    const delayMs = Math.max(0, now - lastTickAt - intervalMs)
    lastTickAt = now
    const bucket = bounds.findIndex((bound) => delayMs / 1000 <= bound)
    const index = bucket === -1 ? bounds.length : bucket
    buckets[index] = (buckets[index] ?? 0) + 1
    sum += delayMs / 1000
    count++
    if (warnMs > 0 && delayMs >= warnMs) warn(delayMs)
    justEnded = []
  }, intervalMs).unref()

  return {
    began: (event) => void inFlight.add(event),
    ended(event) {
      if (inFlight.delete(event) && justEnded.length < 1000) justEnded.push(event)
    },
    families: () => [
      {
        name: 'dms_event_loop_delay_seconds',
        type: 'histogram',
        help: 'How late a timer of this process ran.',
        samples: histogram(buckets, sum, count),
      },
      {
        name: 'dms_event_loop_blocked_total',
        type: 'counter',
        help: 'Delays of server.event_loop_warn or more, by each route that was being handled.',
        samples: [...blockedBy].map(([route, value]) => ({ labels: { route }, value })),
      },
    ],
    close: () => clearInterval(timer),
  }
}

const routeLabel = ({ req, context }: H3Event): string => `${req.method} ${context.route ?? 'none'}`

function histogram(buckets: readonly number[], sum: number, count: number): Sample[] {
  let below = 0
  const steps = [...bounds, Number.POSITIVE_INFINITY].map((bound, index) => {
    below += buckets[index] ?? 0
    return { suffix: '_bucket', labels: { le: bound === Number.POSITIVE_INFINITY ? '+Inf' : bound }, value: below }
  })
  return [...steps, { suffix: '_sum', value: sum }, { suffix: '_count', value: count }]
}
