import type { z } from 'zod'
import type { CreatedAnswer, ListAnswer, listQuery, NewToken, TokenAnswer } from '../tokens/routes.ts'
import { type OpenConnection, pathOf, type QueryOf, withQuery } from './http/connection.ts'

export type ApiToken = z.infer<typeof TokenAnswer>
type TokenQuery = QueryOf<ReturnType<typeof listQuery>>

/** API tokens of programs. */
export const tokens = ({ call }: OpenConnection) => ({
  list: async (query: TokenQuery = {}): Promise<ApiToken[]> =>
    (await call<z.infer<typeof ListAnswer>>('GET', withQuery(pathOf('tokens'), query))).tokens,
  get: (id: string): Promise<ApiToken> => call('GET', pathOf('tokens', id)),
  /** Creates a token. Only this response contains the secret. */
  create: (token: z.input<typeof NewToken>): Promise<z.infer<typeof CreatedAnswer>> => call('POST', pathOf('tokens'), token),
  revoke: (id: string): Promise<void> => call('DELETE', pathOf('tokens', id)),
})
