/** Users who sign in elsewhere: which account is whose. */
import { createHash } from 'node:crypto'
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { emailKey, usernameKey } from '../http/user-identifier.ts'
import type { Identity } from '../ports/identity-provider.ts'
import { confusableKeys } from './confusables.ts'
import { DisplayName, Email, Username } from './fields.ts'
import * as users from './users.ts'

/** Counts of what was revoked when an account was linked. */
export interface RevokedCredentials {
  api_tokens: number
  shared_links: number
  sources: number
}

/** Revokes what could still open an account, inside the transaction that links it. */
export type RevokeCredentials = (app: App, trx: Trx, user: users.User) => Promise<RevokedCredentials>

export interface ExternalSignIn {
  user: users.User
  /** null: the account was known, or made just now */
  linked: RevokedCredentials | null
}

/**
 * The account of whoever the provider vouches for, with groups and role as they are told now. An account is known by issuer and subject; by
 * e-mail address only where that is verified and configured. Throws FORBIDDEN, DUPLICATE_RESOURCE, UNAUTHORIZED for a disabled account.
 */
export async function signInByIdentity(app: App, identity: Identity, revokeCredentials: RevokeCredentials): Promise<ExternalSignIn> {
  checkHostedDomain(app, identity)
  return app.db.transaction().execute(async (trx) => {
    const before = await findByIdentity(trx, identity)
    const taken = before ? null : await linked(app, trx, identity, revokeCredentials)
    const user = before ?? taken?.user ?? (await createUser(app, trx, identity))
    if (user.disabled) throw new AppError('UNAUTHORIZED', {}, 'This account is disabled.')
    return { user: await syncGroups(app, trx, user, identity), linked: taken?.revoked ?? null }
  })
}

/** The claim itself, not the end of an address: anybody can have an address that looks like it. */
function checkHostedDomain({ config }: App, { hostedDomain }: Identity): void {
  const wanted = config.oidc.hosted_domain.toLowerCase()
  if (wanted !== '' && hostedDomain?.toLowerCase() !== wanted)
    throw new AppError('FORBIDDEN', {}, 'Only accounts of one domain may sign in here, and this is none of them.')
}

const findByIdentity = (trx: Trx, { issuer, subject }: Identity): Promise<users.User | undefined> =>
  trx.selectFrom('users').selectAll().where('oidc_issuer', '=', issuer).where('oidc_subject', '=', subject).forUpdate().executeTakeFirst()

/**
 * The local account with that address, linked to the identity where the configuration says so and the provider has verified the address. Whoever
 * made the local account need not be the one who owns the address: their password, sessions and tokens end here. Throws DUPLICATE_RESOURCE.
 */
async function linked(
  app: App,
  trx: Trx,
  { issuer, subject, email, isEmailVerified }: Identity,
  revokeCredentials: RevokeCredentials,
): Promise<{ user: users.User; revoked: RevokedCredentials } | null> {
  if (email === null) return null
  const local = await trx.selectFrom('users').selectAll().where('email_key', '=', emailKey(email)).forUpdate().executeTakeFirst()
  if (!local) return null
  if (!app.config.oidc.link_by_email || !isEmailVerified || local.oidc_subject !== null)
    throw new AppError('DUPLICATE_RESOURCE', { field: 'email' }, 'There is another account with this e-mail address.')
  const revoked = await revokeCredentials(app, trx, local)
  const at = app.now()
  const user = await trx
    .updateTable('users')
    .set((eb) => ({
      oidc_issuer: issuer,
      oidc_subject: subject,
      auth_method: 'oidc' as const,
      password_hash: null,
      token_version: eb('token_version', '+', 1),
      email_verified_at: at,
      updated_at: at,
    }))
    .where('id', '=', local.id)
    .returningAll()
    .executeTakeFirstOrThrow()
  return { user, revoked }
}

async function createUser(app: App, trx: Trx, identity: Identity): Promise<users.User> {
  const { issuer, subject, isEmailVerified } = identity
  if (!app.config.oidc.auto_create_users) throw new AppError('FORBIDDEN', {}, 'There is no account for you here; an admin has to make one.')
  const email = Email.safeParse(identity.email).data
  if (!email) throw new AppError('FORBIDDEN', {}, 'Your provider tells no e-mail address; without one there is no account.')
  const { id } = await users.create(app, trx, {
    username: await availableUsername(trx, identity, email),
    email,
    password_hash: null,
    role: 'user',
    display_name: DisplayName.safeParse(identity.displayName).data ?? '',
    email_verified: isEmailVerified,
  })
  return trx
    .updateTable('users')
    .set({ oidc_issuer: issuer, oidc_subject: subject, auth_method: 'oidc' })
    .where('id', '=', id)
    .returningAll()
    .executeTakeFirstOrThrow()
}

/** The name that the provider tells, or one like it: a name that is taken is somebody else's, whatever the provider says. */
async function availableUsername(trx: Trx, { username, issuer, subject }: Identity, email: string): Promise<string> {
  const mark = createHash('sha256').update(`${issuer}\n${subject}`).digest('hex').slice(0, 8)
  const wished =
    [username, username?.split('@')[0], email.split('@')[0]].map((name) => Username.safeParse(name).data).find(Boolean) ?? 'user'
  const taken = await trx
    .selectFrom('users')
    .select('id')
    .where('username_key', 'in', [usernameKey(wished), ...confusableKeys(usernameKey(wished))])
    .executeTakeFirst()
  return taken ? `${wished.slice(0, 50)}-${mark}` : wished
}

/** Groups count from one sign-in to the next; whoever lost the admin group is no admin any more, but for the last one there is. */
async function syncGroups(app: App, trx: Trx, user: users.User, identity: Identity): Promise<users.User> {
  const groups = [...identity.groups]
  const { admin_group } = app.config.oidc
  const role = admin_group === '' ? user.role : groups.includes(admin_group) ? 'admin' : 'user'
  await trx.updateTable('users').set({ groups, groups_synced_at: app.now() }).where('id', '=', user.id).execute()
  const now = { ...user, groups }
  if (role === user.role) return now
  if (role === 'user' && (await users.isLastAdmin(trx, user.id))) {
    app.log.warn({ user_id: user.id }, 'the last active admin is no longer in the admin group, and stays admin')
    return now
  }
  return users.applyChanges(app, trx, user.id, { role })
}
