/** Users as they are named on a command line: by user name, e-mail address or id. */
import type { Client } from '../../client/client.ts'
import { pathOf, withQuery } from '../../client/connection.ts'
import type { UserView } from '../../users/view.ts'
import { jqIdByName, lookupPrinterOf } from '../remote/curl-lookup.ts'
import { Failure } from '../runtime/exit.ts'
import { isId } from './ids.ts'

/** The user that is meant. Of a client that only prints, nothing but the id. Throws Failure NOT_FOUND. */
export async function findUser(client: Client, given: string): Promise<UserView> {
  const asks = lookupPrinterOf(client)
  if (asks) {
    const name = given.trim()
    const path = withQuery('/api/users', { per_page: 100, q: name.normalize('NFKC') })
    return { id: isId(name) ? name : asks({ path, filter: jqIdByName('data', ['username', 'email']), name, variable: 'user' }) } as UserView
  }
  if (isId(given)) return client.users.get(given.toLowerCase())
  // Loaded here: what checks fields is large, and most runs name no user.
  const { emailKey, usernameKey } = await import('../../http/user-identifier.ts')
  const wanted = given.trim()
  const isMeant = ({ username, email }: UserView): boolean =>
    wanted.includes('@') ? emailKey(email) === emailKey(wanted) : usernameKey(username) === usernameKey(wanted)
  for await (const user of client.users.list({ q: wanted.normalize('NFKC') })) if (isMeant(user)) return user
  throw new Failure('NOT_FOUND', `no user "${given}"`)
}

/** The id of whose things are meant. Throws Failure NOT_FOUND; FORBIDDEN where somebody who is no admin names another. */
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

/** Without a look-up where a name or an address is given. Throws Failure NOT_FOUND. */
export async function findUsername(client: Client, given: string): Promise<string> {
  if (!isId(given)) return given
  const asks = lookupPrinterOf(client)
  return asks ? asks({ path: pathOf('users', given), filter: '.username', variable: 'user' }) : (await findUser(client, given)).username
}
