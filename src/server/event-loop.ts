/** Measures delays of the event loop, and names the routes whose requests were in progress. */
import type { H3Event } from 'h3'
import type { Log } from '../log/log.ts'
import { type Family, family, openHistogram } from '../metrics/exposition.ts'

export interface EventLoopWatch {
  onRequest(event: H3Event): void
  onAnswer(event: H3Event): void
  families(): Family[]
  close(): void
}

export interface EventLoopWatchOptions {
  /** Shortest delay that is logged; 0 logs none. */
  warnMs: number
  /** Minimum time between two log lines. */
  logIntervalMs?: number
}

/** Upper bounds in seconds. */
const bounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
/** Maximum number of requests in a log line. */
const maxLoggedRequests = 10
const maxAnswered = 1000

/** Starts the measurement with a timer. Its error is half of the timer's interval. */
export function watchEventLoop(log: Log, { warnMs, logIntervalMs = 10_000 }: EventLoopWatchOptions): EventLoopWatch {
  const intervalMs = warnMs === 0 ? 100 : Math.min(100, Math.max(10, Math.floor(warnMs / 4)))
  const inFlight = new Set<H3Event>()
  /** Requests answered since the last tick. They may have caused its delay. */
  let answered: H3Event[] = []
  const delays = openHistogram(bounds)
  const blockedBy = new Map<string, number>()
  let lastTickAt = performance.now()
  let lastLoggedAt = Number.NEGATIVE_INFINITY
  let unlogged = 0

  const warn = (delayMs: number): void => {
    const now = performance.now()
    const events = [...answered, ...inFlight]
    const routes = new Set(events.map(routeLabel))
    for (const route of routes.size > 0 ? routes : ['none']) blockedBy.set(route, (blockedBy.get(route) ?? 0) + 1)
    if (now - lastLoggedAt < logIntervalMs) return void unlogged++
    const requests = events
      .slice(0, maxLoggedRequests)
      .map((event) => ({ route: routeLabel(event), request_id: event.context.requestId, user_id: event.context.actor?.id ?? undefined }))
    log.warn(
      {
        delay_ms: Math.round(delayMs),
        routes: [...routes].slice(0, maxLoggedRequests),
        requests,
        requests_in_progress: events.length,
        unlogged,
      },
      'event loop blocked',
    )
    lastLoggedAt = now
    unlogged = 0
  }
  const timer = setInterval(() => {
    const now = performance.now()
    const delayMs = Math.max(0, now - lastTickAt - intervalMs)
    lastTickAt = now
    delays.observe(delayMs / 1000)
    if (warnMs > 0 && delayMs >= warnMs) warn(delayMs)
    answered = []
  }, intervalMs).unref()

  return {
    onRequest: (event) => void inFlight.add(event),
    onAnswer(event) {
      if (inFlight.delete(event) && answered.length < maxAnswered) answered.push(event)
    },
    families: () => [
      family('dms_event_loop_delay_seconds', 'histogram', 'Delay of a timer of this process.', delays.samples()),
      family(
        'dms_event_loop_blocked_total',
        'counter',
        'Delays of at least server.event_loop_warn, by each route in progress.',
        [...blockedBy].map(([route, value]) => ({ labels: { route }, value })),
      ),
    ],
    close: () => clearInterval(timer),
  }
}

const routeLabel = ({ req, context }: H3Event): string => `${req.method} ${context.route ?? 'none'}`
