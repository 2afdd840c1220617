/** Users in arguments: user name, e-mail address or id. */
import type { Client } from '../../client/client.ts'
import { pathOf, withQuery } from '../../client/connection.ts'
import type { UserView } from '../../users/view.ts'
import { jqIdByName, lookupPrinterOf } from '../remote/curl-lookup.ts'
import { Failure } from '../runtime/exit.ts'
import { isId } from './ids.ts'

/** Finds a user. A client that prints requests returns the id only. Throws Failure NOT_FOUND. */
export async function findUser(client: Client, given: string): Promise<UserView> {
  const asks = lookupPrinterOf(client)
  if (asks) {
    const name = given.trim()
    const path = withQuery('/api/users', { per_page: 100, q: name.normalize('NFKC') })
    return { id: isId(name) ? name : asks({ path, filter: jqIdByName('data', ['username', 'email']), name, variable: 'user' }) } as UserView
  }
  if (isId(given)) return client.users.get(given.toLowerCase())
  // Imported lazily, because the module is large and most runs name no user.
  const { emailKey, usernameKey } = await import('../../http/user-identifier.ts')
  const wanted = given.trim()
  const isMeant = ({ username, email }: UserView): boolean =>
    wanted.includes('@') ? emailKey(email) === emailKey(wanted) : usernameKey(username) === usernameKey(wanted)
  for await (const user of client.users.list({ q: wanted.normalize('NFKC') })) if (isMeant(user)) return user
  throw new Failure('NOT_FOUND', `no user "${given}"`)
}

/** Returns the id of the owner. Throws Failure NOT_FOUND; FORBIDDEN if a user who is not an admin names another user. */
export async function findOwnerId(client: Client, given: string): Promise<string> {
  try {
    return (await findUser(client, given)).id
  } catch (error) {
    if ((error as { status?: unknown }).status !== 403) throw error
    const { id, username, email } = await client.auth.profile()
    if ([id, username, email].some((own) => own.toLowerCase() === given.trim().toLowerCase())) return id
    throw error
  }
}

/** Returns the user name; only an id needs a request. Throws Failure NOT_FOUND. */
export async function findUsername(client: Client, given: string): Promise<string> {
  if (!isId(given)) return given
  const asks = lookupPrinterOf(client)
  return asks ? asks({ path: pathOf('users', given), filter: '.username', variable: 'user' }) : (await findUser(client, given)).username
}
