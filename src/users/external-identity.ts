/** Accounts of users who sign in through an identity provider. */
import { hash } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import { AppError } from '../errors.ts'
import { emailKey, usernameKey } from '../http/user-identifier.ts'
import type { Identity } from '../ports/identity-provider.ts'
import { confusableKeys } from './confusables.ts'
import { DisplayName, Email, Username } from './fields.ts'
import * as users from './users.ts'

/** Numbers of credentials revoked when an account was linked. */
export interface RevokedCredentials {
  api_tokens: number
  shared_links: number
  sources: number
}

/** Revokes the credentials of an account inside the transaction that links it. */
export type RevokeCredentials = (app: App, trx: Trx, user: users.User) => Promise<RevokedCredentials>

export interface ExternalSignIn {
  user: users.User
  /** null: the account was linked before or created now */
  linked: RevokedCredentials | null
}

/**
 * Returns the account of an identity and synchronizes its groups and role. Finds it by issuer and subject, or by verified e-mail address if
 * `oidc.link_by_email` is set; creates it otherwise. Throws FORBIDDEN, DUPLICATE_RESOURCE, UNAUTHORIZED for a disabled account.
 */
export async function signInByIdentity(app: App, identity: Identity, revokeCredentials: RevokeCredentials): Promise<ExternalSignIn> {
  checkHostedDomain(app, identity)
  return app.db.transaction().execute(async (trx) => {
    const existing = (await findByIdentity(trx, identity)) ?? (await findAfterOthers(trx, identity))
    const linked = existing ? null : await linkByEmail(app, trx, identity, revokeCredentials)
    const user = existing ?? linked?.user ?? (await createUser(app, trx, identity))
    if (user.disabled) throw new AppError('UNAUTHORIZED', {}, 'This account is disabled.')
    return { user: await syncGroups(app, trx, user, identity), linked: linked?.revoked ?? null }
  })
}

/** Checks the `hd` claim. The domain of an e-mail address proves nothing. */
function checkHostedDomain({ config }: App, { hostedDomain }: Identity): void {
  const required = config.oidc.hosted_domain.toLowerCase()
  if (required !== '' && hostedDomain?.toLowerCase() !== required)
    throw new AppError('FORBIDDEN', {}, 'Your account does not belong to the domain that may log in here (oidc.hosted_domain).')
}

const findByIdentity = (trx: Trx, { issuer, subject }: Identity): Promise<users.User | undefined> =>
  trx.selectFrom('users').selectAll().where('oidc_issuer', '=', issuer).where('oidc_subject', '=', subject).forUpdate().executeTakeFirst()

/** Waits until other first sign-ins of the identity have ended, and returns the account that they have created or linked. */
async function findAfterOthers(trx: Trx, identity: Identity): Promise<users.User | undefined> {
  await sql`select pg_advisory_xact_lock(hashtextextended(${`identity:${identity.issuer} ${identity.subject}`}, 0))`.execute(trx)
  return findByIdentity(trx, identity)
}

/**
 * Links the local account with the verified address to the identity if the configuration allows it. Whoever created the account need not
 * own the address: its password, sessions and tokens end. Throws DUPLICATE_RESOURCE.
 */
async function linkByEmail(
  app: App,
  trx: Trx,
  { issuer, subject, email, isEmailVerified }: Identity,
  revokeCredentials: RevokeCredentials,
): Promise<{ user: users.User; revoked: RevokedCredentials } | null> {
  // Addresses of accounts are ASCII. Others could fold to one of them, such as the Kelvin sign to k.
  const address = Email.safeParse(email).data
  if (address === undefined) return null
  const local = await trx.selectFrom('users').selectAll().where('email_key', '=', emailKey(address)).forUpdate().executeTakeFirst()
  if (!local) return null
  if (!app.config.oidc.link_by_email || !isEmailVerified || local.oidc_subject !== null)
    throw new AppError(
      'DUPLICATE_RESOURCE',
      { field: 'email' },
      'An account with this email address exists already. Ask an admin to link it.',
    )
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
  if (!app.config.oidc.auto_create_users) throw new AppError('FORBIDDEN', {}, 'You have no account here. Ask an admin to create one.')
  const email = Email.safeParse(identity.email).data
  if (!email) throw new AppError('FORBIDDEN', {}, 'Cannot create your account: the provider sent no valid email address.')
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

/** Returns the user name from the provider, with a hash appended if it is taken or confusable. */
async function availableUsername(trx: Trx, { username, issuer, subject }: Identity, email: string): Promise<string> {
  const suffix = hash('sha256', `${issuer}\n${subject}`).slice(0, 8)
  const candidate =
    [username, username?.split('@')[0], email.split('@')[0]].map((name) => Username.safeParse(name).data).find(Boolean) ?? 'user'
  const key = usernameKey(candidate)
  // Another identity may be getting the name.
  await users.lockName(trx, key)
  const existing = await trx
    .selectFrom('users')
    .select('id')
    .where('username_key', 'in', [key, ...confusableKeys(key)])
    .executeTakeFirst()
  if (!existing) return candidate
  // Without half of a surrogate pair at the cut.
  return `${candidate.slice(0, 50).replace(/\p{Surrogate}$/u, '')}-${suffix}`
}

/** Stores the groups and derives the role from `oidc.admin_group`. The last active admin keeps the role. */
async function syncGroups(app: App, trx: Trx, user: users.User, identity: Identity): Promise<users.User> {
  const groups = [...identity.groups]
  const { admin_group } = app.config.oidc
  const role = admin_group === '' ? user.role : groups.includes(admin_group) ? 'admin' : 'user'
  await trx.updateTable('users').set({ groups, groups_synced_at: app.now() }).where('id', '=', user.id).execute()
  const synced = { ...user, groups }
  if (role === user.role) return synced
  if (role === 'user' && (await users.isLastAdmin(trx, user.id))) {
    app.log.warn({ user_id: user.id }, 'the last active admin is no longer in the admin group, and stays admin')
    return synced
  }
  return users.applyChanges(app, trx, user.id, { role })
}
