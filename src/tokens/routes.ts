import { z } from 'zod'
import { scopes } from '../actor.ts'
import type { App } from '../app.ts'
import { endTimestampText, listOf } from '../http/input.ts'
import { CursorPagination, wholeQuery } from '../http/pages.ts'
import { type Route, user } from '../http/route.ts'
import { viewOf } from '../http/view.ts'
import { visibleName } from '../http/visible-text.ts'
import * as tokens from './tokens.ts'

export const NewToken = z.object({
  name: visibleName(100),
  scopes: listOf(z.enum(scopes), 100, 1),
  expires_at: endTimestampText.nullish().describe('A date means its last moment in UTC. null: the token does not expire.'),
  user: z.string().min(1).max(320).optional(),
})
export const listQuery = ({ config }: App) => z.object({ user: z.string().min(1).max(320).optional(), ...wholeQuery(config) })

export const TokenAnswer = z.object({
  id: z.uuid(),
  name: z.string(),
  user_id: z.uuid(),
  username: z.string(),
  scopes: z.array(z.enum(scopes)),
  created_at: z.iso.datetime(),
  expires_at: z.iso.datetime().nullable(),
  last_used_at: z.iso.datetime().nullable(),
})
export const ListAnswer = z.object({ tokens: z.array(TokenAnswer), pagination: CursorPagination })
export const CreatedAnswer = TokenAnswer.extend({ token: z.string().describe('Returned only once; the server stores a hash.') })

const ids = { id: 'API_TOKEN_NOT_FOUND' } as const

export const routes = (app: App): Route[] => [
  user(
    'GET /api/tokens',
    {
      summary: 'List your API tokens; admins see those of all users',
      query: listQuery(app),
      answer: ListAnswer,
      isLarge: true,
      errors: ['USER_NOT_FOUND'],
    },
    async ({ actor, query: { user: owner, ...page } }) => {
      const { rows, next } = await tokens.list(app, actor, owner, page)
      return { tokens: rows.map(view), pagination: { next_cursor: next } }
    },
  ),
  user(
    'POST /api/tokens',
    {
      summary: 'Create an API token; admins may create one for any user',
      body: NewToken,
      status: 201,
      answer: CreatedAnswer,
      scope: 'session',
      errors: ['FORBIDDEN', 'USER_NOT_FOUND', 'DUPLICATE_RESOURCE', 'CONFLICT'],
    },
    async ({ actor, body }) => {
      const created = await tokens.create(app, actor, body)
      return { ...view(created), token: created.token }
    },
  ),
  user('GET /api/tokens/:id', { summary: 'Get an API token', ids, answer: TokenAnswer }, async ({ actor, param }) =>
    view(await tokens.get(app, actor, param('id'))),
  ),
  user('DELETE /api/tokens/:id', { summary: 'Revoke an API token', ids, scope: 'session' }, ({ actor, param }) =>
    tokens.remove(app, actor, param('id')),
  ),
]

const view = (token: tokens.ApiToken) => viewOf(TokenAnswer, { ...token, scopes: [...token.scopes] })
