import { z } from 'zod'
import type { App } from '../app.ts'
import { endTimestampText, idText } from '../http/input.ts'
import { type FetchedPage, type PageRequest, Pagination, pageQuery, pagination } from '../http/pages.ts'
import { type Route, user } from '../http/route.ts'
import { viewOf } from '../http/view.ts'
import { resolvePage } from '../settings/settings.ts'
import * as sharedLinks from './shared-links.ts'

export const Fields = z.object({
  document_id: idText,
  password: z.string().min(1).max(128).nullish(),
  expires_at: endTimestampText.nullish(),
  max_views: z.int().min(1).max(2_147_483_647).nullish(),
})

export const LinkAnswer = z.object({
  id: z.uuid(),
  document_id: z.uuid(),
  filename: z.string(),
  token: z.string(),
  url: z.url(),
  has_password: z.boolean(),
  expires_at: z.iso.datetime().nullable(),
  max_views: z.int().nullable(),
  view_count: z.int(),
  status: z.enum(sharedLinks.linkStatuses),
  created_by: z.string(),
  created_at: z.iso.datetime(),
})
export const ListAnswer = z.object({ shared_links: z.array(LinkAnswer), pagination: Pagination })

const ofLink = { id: 'SHARED_LINK_NOT_FOUND' } as const
const ofDocument = { document_id: 'DOCUMENT_NOT_FOUND' } as const

/** Routes under /api/shared-links and under the alias /api/shared/links. */
export const routes = (app: App): Route[] => (['/api/shared-links', '/api/shared/links'] as const).flatMap((path) => routesUnder(app, path))

const routesUnder = (app: App, path: `/${string}`): Route[] => [
  user(
    `POST ${path}`,
    {
      summary: 'Share a document',
      body: Fields,
      status: 201,
      needsRead: true,
      answer: LinkAnswer,
      errors: ['DOCUMENT_NOT_FOUND', 'SHARED_LINK_RATE_LIMITED'],
    },
    async ({ actor, body: { document_id, ...terms } }) => view(app, await sharedLinks.create(app, actor, document_id, terms)),
  ),
  user(
    `GET ${path}`,
    { summary: 'List your shared links, newest first', query: z.object(pageQuery(app.config)), answer: ListAnswer, isLarge: true },
    async ({ actor, query }) => {
      const page = await resolvePage(app, actor, query)
      return pageAnswer(app, page, await sharedLinks.list(app, actor, page))
    },
  ),
  user(
    `GET ${path}/document/:document_id`,
    {
      summary: 'List the shared links of a document',
      ids: ofDocument,
      query: z.object(pageQuery(app.config)),
      answer: ListAnswer,
      isLarge: true,
    },
    async ({ actor, query, param }) => {
      const page = await resolvePage(app, actor, query)
      return pageAnswer(app, page, await sharedLinks.listOfDocument(app, actor, param('document_id'), page))
    },
  ),
  user(`DELETE ${path}/:id`, { summary: 'Revoke a shared link', ids: ofLink }, async ({ actor, event, param }) => {
    event.context.documentIds = [await sharedLinks.revoke(app, actor, param('id'))]
  }),
]

const pageAnswer = (app: App, page: PageRequest, fetched: FetchedPage<sharedLinks.SharedLink>) => ({
  shared_links: fetched.rows.map((link) => view(app, link)),
  pagination: pagination(page, fetched),
})

const view = (app: App, link: sharedLinks.SharedLink) =>
  viewOf(LinkAnswer, {
    ...link,
    url: `${app.config.server.public_url.replace(/\/+$/, '')}/api/public/shared/${link.token}`,
    has_password: link.password_hash !== null,
    status: sharedLinks.statusOf(link),
    created_by: link.creator,
  })
