/** Counts requests and answers by route and status, for `/metrics` and the rules in `alerts.example.yml`. */
import type { Code } from '../../errors.ts'
import { type Family, family, gauge, type Histogram, type Labels, openHistogram } from '../../metrics/exposition.ts'

export interface AnsweredRequest {
  method: string
  /** Route pattern with `:name`; undefined for an unknown path. */
  route: string | undefined
  status: number
  /** Seconds until the headers of the answer. */
  duration: number
  /** Code of an error answer. */
  code: Code | undefined
}

export interface Recorder {
  onRequest(): void
  onAnswer(answer: AnsweredRequest): void
  /** Adds to the bytes of answers that clients have not read. */
  addAnswerBytes(change: number): void
  families(): Family[]
}

/** Upper bounds in seconds: from a cached GET to a slow upload. */
const bounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

/** Opens a recorder with all counters at zero. `others` returns further families for the report. */
export function openRecorder(others: () => Family[] = () => []): Recorder {
  const series = new Map<string, { labels: Labels; durations: Histogram }>()
  const failures = new Map<Code, number>()
  let inFlight = 0
  let bytesInFlight = 0
  return {
    addAnswerBytes(change) {
      bytesInFlight += change
    },
    onRequest() {
      inFlight++
    },
    onAnswer({ method, route = 'none', status, duration, code }) {
      inFlight--
      const key = `${method} ${route} ${status}`
      const one = series.get(key) ?? { labels: { method, route, status }, durations: openHistogram(bounds) }
      series.set(key, one)
      one.durations.observe(duration)
      if (code) failures.set(code, (failures.get(code) ?? 0) + 1)
    },
    families() {
      const all = [...series.values()]
      const counts = all.map(({ labels, durations }) => ({ labels, value: durations.count }))
      const durations = all.flatMap(({ labels, durations }) => durations.samples(labels))
      const failed = [...failures].map(([code, value]) => ({ labels: { code }, value }))
      const limited = [...failures]
        .filter(([code]) => code.endsWith('RATE_LIMITED'))
        .map(([code, value]) => ({ labels: { scope: limitScopeOf(code) }, value }))
      return [
        gauge('dms_http_requests_in_flight', 'Requests that are not answered yet.', inFlight),
        gauge('dms_http_answer_bytes_in_flight', 'Bytes reserved for answers that clients have not read yet.', bytesInFlight),
        family('dms_http_requests_total', 'counter', 'Requests by route and status.', counts),
        family('dms_http_request_duration_seconds', 'histogram', 'Time until the headers of the answer, by route and status.', durations),
        family('dms_http_failures_total', 'counter', 'Error answers by code.', failed),
        family('dms_rate_limited_total', 'counter', 'Requests refused by a rate limit.', limited),
        ...others(),
      ]
    },
  }
}

/** Returns `comment` for COMMENT_RATE_LIMITED and `api` for RATE_LIMITED. */
const limitScopeOf = (code: Code): string => code.replace(/_?RATE_LIMITED$/, '').toLowerCase() || 'api'
