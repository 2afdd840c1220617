import type { z } from 'zod'
import type { PublicAnswer, VerifyAnswer } from '../shared-links/public-routes.ts'
import type { Fields, LinkAnswer, ListAnswer } from '../shared-links/routes.ts'
import { type EntryStream, type OpenConnection, pathOf, type QueryOf, withQuery } from './http/connection.ts'

export type SharedLink = z.infer<typeof LinkAnswer>
type LinkPage = z.infer<typeof ListAnswer>
type PageQuery = QueryOf<z.ZodObject<{ page: z.ZodType; per_page: z.ZodType }>>

/** Shared links, as their creators manage them. */
export const sharedLinks = ({ call, list }: OpenConnection) => ({
  create: (link: z.input<typeof Fields>): Promise<SharedLink> => call('POST', pathOf('shared-links'), link),
  list: (query: PageQuery = {}): EntryStream<SharedLink> => list(pathOf('shared-links'), query, 'shared_links'),
  page: (query: PageQuery = {}): Promise<LinkPage> => call('GET', withQuery(pathOf('shared-links'), query)),
  listOf: (documentId: string, query: PageQuery = {}): EntryStream<SharedLink> =>
    list(pathOf('shared-links', 'document', documentId), query, 'shared_links'),
  revoke: (id: string): Promise<void> => call('DELETE', pathOf('shared-links', id)),
})

/** Shared links, as their visitors use them. No token is needed. */
export const publicLinks = ({ call, fetch }: OpenConnection) => ({
  /** Describes the document; counts no view. */
  get: (token: string): Promise<z.infer<typeof PublicAnswer>> => call('GET', pathOf('public', 'shared', token)),
  /** Returns whether the password is right; counts no view. */
  verify: async (token: string, password: string): Promise<boolean> =>
    (await call<z.infer<typeof VerifyAnswer>>('POST', pathOf('public', 'shared', token, 'verify'), { password })).valid,
  download: (token: string, password?: string): Promise<Response> =>
    fetch('POST', pathOf('public', 'shared', token, 'download'), { password }),
  /** Gets the file for inline display. */
  view: (token: string, password?: string): Promise<Response> => fetch('POST', pathOf('public', 'shared', token, 'view'), { password }),
})
