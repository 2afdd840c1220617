/** Users: listing, creating and updating them. user-deletion.ts deletes them. */
import { sql, type Updateable } from 'kysely'
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { byCreation } from '../db/keyset.ts'
import { type Db, isUniqueViolation, type Trx } from '../db/pool.ts'
import type { Role, Row, Schema } from '../db/schema.ts'
import { AppError } from '../errors.ts'
import { countRows, type FetchedPage, fetchPage, fetchSlice, type PageRequest, type Slice } from '../http/pages.ts'
import { emailKey, parseUserIdentifier, usernameKey } from '../http/user-identifier.ts'
import { confusableKeys } from './confusables.ts'
import * as verification from './email-verification.ts'
import { removeInitialPassword } from './passwords.ts'

export type User = Row<'users'>

export interface Filter {
  role?: Role | undefined
  disabled?: boolean | undefined
  /** substring of user name, e-mail address or display name */
  q?: string | undefined
}

const newestFirst = byCreation('users', 'desc')

/** Returns one page of all users, newest first. Throws VALIDATION_ERROR for a cursor of another list. */
export function list(db: Db, { role, disabled, q }: Filter, page: PageRequest): Promise<FetchedPage<User>> {
  let all = db.selectFrom('users')
  if (role) all = all.where('role', '=', role)
  if (disabled !== undefined) all = all.where('disabled', '=', disabled)
  if (q) all = all.where(sql<boolean>`position(lower(${q}) in lower(concat_ws(chr(10), username, email, display_name))) > 0`)
  const fetch = (slice: Slice) => fetchSlice(all.selectAll(), newestFirst, slice)
  return fetchPage(page, newestFirst, ['users', role, disabled, q], fetch, () => countRows(all))
}

/** Returns the user with this id. Throws USER_NOT_FOUND, also for null, the id of the operator. */
export async function get(db: Db, id: string | null): Promise<User> {
  const user = id === null ? undefined : await db.selectFrom('users').selectAll().where('id', '=', id).executeTakeFirst()
  if (!user) throw new AppError('USER_NOT_FOUND')
  return user
}

/** Tells if there is a user with this id. */
export const exists = async (db: Db, id: string): Promise<boolean> =>
  (await db.selectFrom('users').select('id').where('id', '=', id).executeTakeFirst()) !== undefined

/** Finds a user by user name, e-mail address or id. */
export function findByIdentifier(db: Db, identifier: string): Promise<User | undefined> {
  const all = db.selectFrom('users').selectAll()
  // PostgreSQL rejects U+0000, which a path can contain.
  if (identifier.includes('\0')) return Promise.resolve(undefined)
  const { column, value } = parseUserIdentifier(identifier)
  return all.where(column, '=', value).executeTakeFirst()
}

export interface NewUser {
  username: string
  email: string
  /** null: the user cannot sign in with a password */
  password_hash: string | null
  role: Role
  display_name?: string | undefined
  /** true if an admin or an identity provider has verified the address */
  email_verified: boolean
}

/** Creates a user. Throws DUPLICATE_RESOURCE with the field; the transaction is aborted then. */
export async function create(app: App, trx: Trx, user: NewUser): Promise<User> {
  const values = columnsOf(user, app.now())
  await refuseConfusable(trx, values.username_key)
  return mapDuplicates(trx.insertInto('users').values(values).returningAll().executeTakeFirstOrThrow())
}

/** Returns the columns of a new user. */
export function columnsOf({ username, email, email_verified, display_name = '', ...fields }: NewUser, at: Date) {
  return {
    ...fields,
    ...emailColumns(email, email_verified ? at : null),
    username,
    username_key: usernameKey(username),
    display_name,
    created_at: at,
    updated_at: at,
  }
}

/** Throws DUPLICATE_RESOURCE if an existing user name looks the same in another script. No unique index compares such names. */
async function refuseConfusable(trx: Trx, key: string): Promise<void> {
  const keys = confusableKeys(key)
  if (keys.length === 0) return
  await lockName(trx, key)
  const confusable = await trx.selectFrom('users').select('id').where('username_key', 'in', keys).executeTakeFirst()
  if (confusable) throw new AppError('DUPLICATE_RESOURCE', { field: 'username' }, 'A user with a confusable name exists already.')
}

/** Makes transactions that create this user name, or one that looks the same, wait for each other. */
export async function lockName(trx: Trx, key: string): Promise<void> {
  const keys = [key, ...confusableKeys(key)].sort()
  await sql`select pg_advisory_xact_lock(hashtextextended('user name:' || name, 0)) from unnest(${keys}::text[]) name`.execute(trx)
}

export interface Changes extends Partial<Omit<NewUser, 'username' | 'password_hash'>> {
  disabled?: boolean | undefined
  password_hash?: string | undefined
}

/**
 * Applies changes to a user; undefined fields stay. A new password or `disabled` ends all sessions. Throws USER_NOT_FOUND,
 * DUPLICATE_RESOURCE with the field, CONFLICT if no active admin would be left.
 */
export async function applyChanges(app: App, trx: Trx, id: string, { email, email_verified, ...changes }: Changes): Promise<User> {
  if (changes.role === 'user' || changes.disabled) await refuseLastAdmin(trx, id)
  const at = app.now()
  const set: Updateable<Schema['users']> = { ...changes, updated_at: at }
  if (email !== undefined) Object.assign(set, emailColumns(email, email_verified ? at : null))
  const endsSessions = changes.password_hash !== undefined || changes.disabled === true
  const query = trx
    .updateTable('users')
    .set(set)
    .$if(endsSessions, (update) => update.set((eb) => ({ token_version: eb('token_version', '+', 1) })))
    .where('id', '=', id)
    .returningAll()
  const user = await mapDuplicates(query.executeTakeFirstOrThrow(() => new AppError('USER_NOT_FOUND')))
  if (email !== undefined) {
    // A link to the old address must not verify the new one.
    await verification.deleteTokens(trx, id)
    await verification.requestVerification(app, trx, user)
  }
  return user
}

export interface Update extends Omit<Changes, 'password_hash'> {
  password?: string | undefined
}

/** Hashes a new password and applies all changes. An unchanged address keeps its verification. Throws like applyChanges(). */
export async function update(app: App, id: string, { password, email: next, email_verified = false, ...changes }: Update): Promise<User> {
  const before = await get(app.db, id)
  const password_hash = password === undefined ? undefined : await app.passwords.hash(password)
  const email = next === before.email ? undefined : next
  const isVerified = email !== undefined && emailKey(email) === before.email_key ? before.email_verified_at !== null : email_verified
  const all = { ...changes, email, email_verified: isVerified, password_hash }
  const user = await app.db.transaction().execute((trx) => applyChanges(app, trx, id, all))
  if (password_hash !== undefined) await removeInitialPassword(app, before.password_hash)
  return user
}

/** Updates the actor's own account. */
export async function updateProfile(
  app: App,
  actor: Actor,
  { email, display_name }: Pick<Update, 'email' | 'display_name'>,
): Promise<User> {
  const { id } = await get(app.db, actor.id)
  return update(app, id, { email, display_name })
}

/** Records the time of a sign-in. Throws UNAUTHORIZED if the sessions of the user were ended since `user` was read, as by a new password. */
export const recordSignIn = (app: App, user: User): Promise<User> =>
  app.db
    .updateTable('users')
    .set({ last_login_at: app.now() })
    .where('id', '=', user.id)
    .where('token_version', '=', user.token_version)
    .returningAll()
    .executeTakeFirstOrThrow(() => new AppError('UNAUTHORIZED', {}, 'Wrong username or password.'))

/** Throws CONFLICT if the user is the last active admin. */
export async function refuseLastAdmin(trx: Trx, id: string): Promise<void> {
  if (await isLastAdmin(trx, id)) throw new AppError('CONFLICT', {}, 'The last active admin cannot be deleted, disabled or demoted.')
}

/** Returns whether the user is the only active admin. Locks the user. Other demotions of active admins wait until the transaction ends. */
export async function isLastAdmin(trx: Trx, id: string): Promise<boolean> {
  const user = await trx.selectFrom('users').select(['role', 'disabled']).where('id', '=', id).forNoKeyUpdate().executeTakeFirst()
  if (user?.role !== 'admin' || user.disabled) return false
  // Not a lock of all admins: the deletion of an account may last minutes, and admins sign in meanwhile.
  await sql`select pg_advisory_xact_lock(hashtextextended('admins', 0))`.execute(trx)
  const admins = trx.selectFrom('users').select('id').where('role', '=', 'admin').where('disabled', '=', false)
  return (await admins.where('id', '!=', id).limit(1).execute()).length === 0
}

const emailColumns = (email: string, verifiedAt: Date | null) => ({ email, email_key: emailKey(email), email_verified_at: verifiedAt })

async function mapDuplicates<T>(query: Promise<T>): Promise<T> {
  try {
    return await query
  } catch (error) {
    if (isUniqueViolation(error, 'users_username_key_key'))
      throw new AppError('DUPLICATE_RESOURCE', { field: 'username' }, 'This username is taken.')
    if (isUniqueViolation(error, 'users_email_key_key'))
      throw new AppError('DUPLICATE_RESOURCE', { field: 'email' }, 'This email address is taken.')
    throw error
  }
}
