/** Users as they are named on a command line: by user name, e-mail address or id. */
import type { Client } from '../client/client.ts'
import type { UserView } from '../users/view.ts'
import { Failure } from './exit.ts'
import { isId } from './ids.ts'

/** The user that is meant. Throws Failure NOT_FOUND. */
export async function userNamed(client: Client, given: string): Promise<UserView> {
  if (isId(given)) return client.users.get(given.toLowerCase())
  // Loaded here: what checks fields is large, and most runs name no user.
  const { emailKey, usernameKey } = await import('../users/fields.ts')
  const wanted = given.trim()
  const isMeant = ({ username, email }: UserView): boolean =>
    wanted.includes('@') ? emailKey(email) === emailKey(wanted) : usernameKey(username) === usernameKey(wanted)
  for await (const user of client.users.list({ q: wanted.normalize('NFKC') })) if (isMeant(user)) return user
  throw new Failure('NOT_FOUND', `no user "${given}"`)
}
