/** Users in arguments: user name, e-mail address or id. */
import type { Client } from '../../client/client.ts'
import { pathOf, withQuery } from '../../client/http/connection.ts'
import { isId } from '../../id.ts'
import type { UserView } from '../../users/view.ts'
import { validationIssues } from '../output/error-lines.ts'
import { lookupPrinterOf, printIdLookup } from '../remote/curl-lookup.ts'
import { Failure, usage } from '../runtime/exit.ts'

/** Finds a user. A client that prints requests returns the id only. Throws Failure NOT_FOUND. */
export async function findUser(client: Client, nameOrId: string): Promise<UserView> {
  const name = nameOrId.trim()
  const q = name.normalize('NFKC')
  const path = withQuery('/api/users', { per_page: 100, q })
  const printedId = printIdLookup(client, name, { path, list: 'data', fields: ['username', 'email'], variable: 'user' })
  if (printedId !== null) return { id: printedId } as UserView
  if (isId(name)) return client.users.get(name.toLowerCase())
  // Imported lazily, because the module is large and most runs name no user.
  const { emailKey, usernameKey } = await import('../../http/user-identifier.ts')
  const isMatch = ({ username, email }: UserView): boolean =>
    name.includes('@') ? emailKey(email) === emailKey(name) : usernameKey(username) === usernameKey(name)
  for await (const user of client.users.list({ q })) if (isMatch(user)) return user
  throw new Failure('NOT_FOUND', `no user "${nameOrId}"`)
}

/** Returns the id of the owner. Throws Failure NOT_FOUND; FORBIDDEN if a user who is not an admin names another user. */
export async function findOwnerId(client: Client, nameOrId: string): Promise<string> {
  try {
    return (await findUser(client, nameOrId)).id
  } catch (error) {
    if ((error as { status?: unknown }).status !== 403) throw error
    const { id, username, email } = await client.auth.profile()
    if ([id, username, email].some((own) => own.toLowerCase() === nameOrId.trim().toLowerCase())) return id
    throw error
  }
}

/** Returns the user name; only an id needs a request. Throws Failure NOT_FOUND. */
export async function findUsername(client: Client, nameOrId: string): Promise<string> {
  if (!isId(nameOrId)) return nameOrId
  const printLookup = lookupPrinterOf(client)
  return printLookup
    ? printLookup({ path: pathOf('users', nameOrId), filter: '.username', variable: 'user' })
    : (await findUser(client, nameOrId)).username
}

/** Converts the error of a request that names an unknown owner to a Failure NOT_FOUND. Returns other errors unchanged. */
export function describeMissingOwner(error: unknown): unknown {
  const message = missingOwnerMessage(error)
  return message === null ? error : new Failure('NOT_FOUND', message)
}

/**
 * Converts the error of a request of the operator without `owner` to a Failure USAGE: the first admin, who owns such documents, does not exist.
 * Returns other errors unchanged.
 */
export function describeMissingAdmin(error: unknown, owner: string | undefined): unknown {
  const message = owner === undefined ? missingOwnerMessage(error) : null
  return message === null ? error : usage(`the documents have no owner: ${message}`, 'pass --owner USER, or set auth.admin_username')
}

function missingOwnerMessage(error: unknown): string | null {
  const [issue] = validationIssues(error)
  return issue?.path === 'owner' && issue.message.startsWith('no user ') ? issue.message : null
}
