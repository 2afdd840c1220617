/** What a route returned becomes an HTTP answer, with the headers that every answer carries. */
import type { H3Event } from 'h3'
import { FastResponse } from 'srvx'
import type { Config } from '../config.ts'
import { requestId } from './request-id.ts'
import { securityHeaders } from './security.ts'

export interface Answers {
  /** An answer of JSON, complete. Its headers never become a `Headers`, which would be copied, checked and sorted: 2.7 µs instead of 0.5. */
  json(event: H3Event, value: object): Response
  /** Adds what every answer carries, unless it is there; what a route said, which may be stricter, stays. */
  complete(event: H3Event, answer: Response): void
}

/** Makes them for one configuration. */
export function openAnswers(config: Config): Answers {
  const secure = securityHeaders(config)
  return {
    json(event, value) {
      const headers = {
        ...secure(event),
        'content-type': 'application/json;charset=UTF-8',
        ...event.context.headers,
        'x-request-id': requestId(event),
      }
      event.context.isComplete = true
      return new FastResponse(JSON.stringify(value), { status: event.res.status ?? 200, headers })
    },
    complete(event, { headers }) {
      headers.set('x-request-id', requestId(event))
      for (const [name, value] of Object.entries(secure(event))) if (!headers.has(name)) headers.set(name, value)
    },
  }
}
