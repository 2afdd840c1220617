import type { z } from 'zod'
import type { ImportAnswer, ImportBody } from '../users/import.ts'
import type { GroupsAnswer, listQuery, newUser, Removal, update } from '../users/routes.ts'
import type { UserAnswer } from '../users/view.ts'
import { type EntryStream, type OpenConnection, type Page, pathOf, type QueryOf, withQuery } from './http/connection.ts'

type User = z.infer<typeof UserAnswer>
type UserQuery = QueryOf<ReturnType<typeof listQuery>>

/** Accounts of all users; for admins. */
export const users = ({ call, list }: OpenConnection) => ({
  list: (query: UserQuery = {}): EntryStream<User> => list(pathOf('users'), query),
  page: (query: UserQuery = {}): Promise<Page<User>> => call('GET', withQuery(pathOf('users'), query)),
  get: (id: string): Promise<User> => call('GET', pathOf('users', id)),
  create: (user: z.input<ReturnType<typeof newUser>>): Promise<User> => call('POST', pathOf('users'), user),
  update: (id: string, changes: z.input<ReturnType<typeof update>>): Promise<User> => call('PUT', pathOf('users', id), changes),
  /** Deletes a user. `documents` is 'delete', or 'transfer' with `to`. */
  delete: (id: string, removal: z.input<typeof Removal> = {}): Promise<void> => call('DELETE', withQuery(pathOf('users', id), removal)),
  /** Creates or updates users; each row has its own result. `atomic` changes nothing if one row is invalid. */
  import: (body: z.input<typeof ImportBody>, query: { dry_run?: boolean; atomic?: boolean } = {}): Promise<z.infer<typeof ImportAnswer>> =>
    call('POST', withQuery(pathOf('users', 'import'), query), body),
  /** Gets the groups from single sign-on; `identifier` is a user name or e-mail address. */
  groups: (identifier: string): Promise<z.infer<typeof GroupsAnswer>> => call('GET', pathOf('users', identifier, 'groups')),
})
