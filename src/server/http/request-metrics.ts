/** Counts what this server answers: how much, how fast, by route and status. */
import type { Code } from '../../errors.ts'
import { type Family, gauge, type Labels, type Sample } from '../../metrics/exposition.ts'

export interface Answered {
  method: string
  /** as it is written in the code, with `:name`; undefined where there is none for the path */
  route: string | undefined
  status: number
  /** seconds until the answer's headers */
  duration: number
  /** of the answer, if it is a failure */
  code: Code | undefined
}

export interface Recorder {
  onRequest(): void
  onAnswer(answer: Answered): void
  /** Adds to the bytes of answers that wait for their clients. */
  answerBytes(change: number): void
  families(): Family[]
}

/** Upper bounds in seconds: from a cached GET to an upload that takes its time. */
const bounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]

interface Series {
  labels: Labels
  /** one for each bound, not cumulated, and one for what took longer */
  buckets: number[]
  sum: number
  count: number
}

/** Makes a recorder; it starts from zero with each process, as counters may. `others`: numbers that are told with its own. */
export function openRecorder(others: () => Family[] = () => []): Recorder {
  const series = new Map<string, Series>()
  const failures = new Map<Code, number>()
  let inFlight = 0
  let bytesInFlight = 0
  return {
    answerBytes(change) {
      bytesInFlight += change
    },
    onRequest() {
      inFlight++
    },
    onAnswer({ method, route = 'none', status, duration, code }) {
      inFlight--
      const key = `${method} ${route} ${status}`
      let one = series.get(key)
      if (!one) {
        one = { labels: { method, route, status }, buckets: Array(bounds.length + 1).fill(0), sum: 0, count: 0 }
        series.set(key, one)
      }
      const bucket = bounds.findIndex((bound) => duration <= bound)
      const place = bucket === -1 ? bounds.length : bucket
      one.buckets[place] = (one.buckets[place] ?? 0) + 1
      one.sum += duration
      one.count++
      if (code) failures.set(code, (failures.get(code) ?? 0) + 1)
    },
    families() {
      const all = [...series.values()]
      const failed = [...failures]
      return [
        gauge('dms_http_requests_in_flight', 'Requests that are not answered yet.', inFlight),
        gauge('dms_http_answer_bytes_in_flight', 'Memory set aside for answers that their clients have not taken yet.', bytesInFlight),
        {
          name: 'dms_http_requests_total',
          type: 'counter',
          help: 'Requests by route and status.',
          samples: all.map(({ labels, count }) => ({ labels, value: count })),
        },
        {
          name: 'dms_http_request_duration_seconds',
          type: 'histogram',
          help: 'Time until the headers of the answer, by route and status.',
          samples: all.flatMap(histogram),
        },
        {
          name: 'dms_http_failures_total',
          type: 'counter',
          help: 'Answers with an error body, by its code.',
          samples: failed.map(([code, value]) => ({ labels: { code }, value })),
        },
        {
          name: 'dms_rate_limited_total',
          type: 'counter',
          help: 'Requests refused because there were too many.',
          samples: failed
            .filter(([code]) => code.endsWith('RATE_LIMITED'))
            .map(([code, value]) => ({ labels: { scope: scopeOf(code) }, value })),
        },
        ...others(),
      ]
    },
  }
}

function histogram({ labels, buckets, sum, count }: Series): Sample[] {
  let below = 0
  const steps = [...bounds, Number.POSITIVE_INFINITY].map((bound, place) => {
    below += buckets[place] ?? 0
    return { suffix: '_bucket', labels: { ...labels, le: bound === Number.POSITIVE_INFINITY ? '+Inf' : bound }, value: below }
  })
  return [...steps, { suffix: '_sum', labels, value: sum }, { suffix: '_count', labels, value: count }]
}

/** COMMENT_RATE_LIMITED -> comment; the one without a name is that of all calls and of signing in. */
const scopeOf = (code: Code): string => code.replace(/_?RATE_LIMITED$/, '').toLowerCase() || 'api'
