import { z } from 'zod'
import type { App } from '../app.ts'
import { anyone, type Route } from '../http/route.ts'
import { versionOfDms } from '../version.ts'
import { docsPage, docsPolicy } from './docs.ts'
import { describe } from './openapi.ts'

/** The routes that describe the others; made when first asked for, since few servers ever are. */
export function documentation(app: App, all: () => readonly Route[]): Route[] {
  let made: ReturnType<typeof describe> | undefined
  const description = () => {
    made ??= describe(all(), app.config.server.public_url, versionOfDms())
    return made
  }
  return [
    anyone('GET /api/openapi.json', { summary: 'This API as OpenAPI 3.1', answer: z.record(z.string(), z.unknown()) }, () => description()),
    anyone(
      'GET /api/docs',
      { summary: 'This API as a page', produces: ['text/html'] },
      () =>
        new Response(docsPage(description()), {
          headers: { 'content-type': 'text/html; charset=utf-8', 'content-security-policy': docsPolicy },
        }),
    ),
  ]
}
