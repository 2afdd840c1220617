import { z } from 'zod'
import type { App } from '../../app.ts'
import { anyone, type Route } from '../../http/route.ts'
import { readVersion } from '../../version.ts'
import { describe } from './openapi.ts'
import { docsPage, docsPolicy } from './page.ts'
import { precompressed } from './precompressed.ts'

const headers = {
  'If-None-Match': 'ETag of the copy that the client has.',
  'Accept-Encoding': 'Supports br and gzip.',
} as const

/** Returns the routes of the API documentation, which is rendered at the first request. */
export function documentation(app: App, all: () => readonly Route[]): Route[] {
  let cached: ReturnType<typeof describe> | undefined
  const description = () => {
    cached ??= describe(all(), app.config.server.public_url, readVersion())
    return cached
  }
  const json = precompressed(() => JSON.stringify(description()), { 'content-type': 'application/json;charset=UTF-8' })
  const page = precompressed(() => docsPage(description()), {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': docsPolicy,
  })
  return [
    anyone(
      'GET /api/openapi.json',
      { summary: 'Get the OpenAPI 3.1 document of this API', headers, answer: z.record(z.string(), z.unknown()) },
      ({ event }) => json(event),
    ),
    anyone('GET /api/docs', { summary: 'Get the API documentation as a web page', headers, produces: ['text/html'] }, ({ event }) =>
      page(event),
    ),
  ]
}
