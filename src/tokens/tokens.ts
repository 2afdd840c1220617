/** API tokens of programs, limited by scopes, and the list of revoked tokens. */
import { hash, randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import { type Actor, isAdmin, type Scope } from '../actor.ts'
import type { App } from '../app.ts'
import { maxRefreshGraceHours } from '../config/schema.ts'
import { clock, databaseNow, secondsAgo } from '../db/clock.ts'
import { byCreation } from '../db/keyset.ts'
import { isUnavailable, rejectDuplicateName, type Trx } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import { AppError, invalid } from '../errors.ts'
import { countRows, type FetchedPage, fetchSlice, fetchWhole, type WholeInput } from '../http/pages.ts'
import type { Session } from '../http/route.ts'
import * as users from '../users/users.ts'

export type ApiToken = Omit<Row<'api_tokens'>, 'token_hash' | 'name_key' | 'token_version'> & { username: string }

/** Prefix of every token, which secret scanners recognize. */
const prefix = 'dms_'

const maxTokensPerUser = 100

/** Resolution of `last_used_at`. Writing it for each request would cost more than the request. */
const lastUsedResolutionSeconds = 60

/** Expiry of tokens without one: the end of the year 9999. */
const farFutureSeconds = 253_402_300_799

/** Returns whether a bearer token has the form of an API token. */
export const isApiToken = (token: string): boolean => token.startsWith(prefix)

const newestFirst = byCreation('api_tokens', 'desc')

/** Returns the actor's tokens, newest first. Admins get all tokens, or the tokens of `user` (id, e-mail address or name). Throws USER_NOT_FOUND. */
export async function list(app: App, actor: Actor, user?: string, page: WholeInput = {}): Promise<FetchedPage<ApiToken>> {
  const owner = user === undefined ? null : await resolveOwner(app, actor, user)
  const listed = selectVisible(app, actor).$if(owner !== null, (query) => query.where('api_tokens.user_id', '=', owner?.id ?? ''))
  return fetchWhole(page, newestFirst, ['tokens', owner?.id], (slice) => fetchSlice(listed, newestFirst, slice))
}

/** Returns a token. Throws API_TOKEN_NOT_FOUND. */
export const get = (app: App, actor: Actor, id: string): Promise<ApiToken> =>
  selectVisible(app, actor)
    .where('api_tokens.id', '=', id)
    .executeTakeFirstOrThrow(() => new AppError('API_TOKEN_NOT_FOUND'))

export interface NewToken {
  name: string
  scopes: readonly Scope[]
  /** null: never */
  expires_at?: Date | null | undefined
  /** owner, for admins: user name, e-mail address or id; default: the actor */
  user?: string | undefined
}

/** Creates a token; only this result contains its secret. Throws USER_NOT_FOUND, DUPLICATE_RESOURCE, CONFLICT, FORBIDDEN. */
export async function create(app: App, actor: Actor, options: NewToken): Promise<ApiToken & { token: string }> {
  const owner = await resolveOwner(app, actor, options.user)
  if (options.scopes.includes('admin') && owner.role !== 'admin')
    throw new AppError('FORBIDDEN', {}, 'Only admins can have tokens with the scope "admin".')
  if (owner.disabled) throw new AppError('CONFLICT', { user: owner.username }, `Cannot create a token: user ${owner.username} is disabled.`)
  if (options.expires_at && options.expires_at <= (await databaseNow(app.db))) throw invalid('expires_at', 'must be in the future')
  const token = prefix + randomBytes(32).toString('base64url')
  const values = {
    user_id: owner.id,
    name: options.name,
    name_key: options.name.toLowerCase(),
    token_hash: hashOf(token),
    scopes: [...new Set(options.scopes)],
    token_version: owner.token_version,
    expires_at: options.expires_at ?? null,
    created_at: app.now(),
  }
  const insert = (trx: Trx) => trx.insertInto('api_tokens').values(values).returning('id').executeTakeFirstOrThrow()
  const { id } = await app.db.transaction().execute(async (trx) => {
    // Serializes the tokens of a user, so that their number is exact.
    await trx.selectFrom('users').select('id').where('id', '=', owner.id).forNoKeyUpdate().execute()
    const count = await countRows(trx.selectFrom('api_tokens').where('user_id', '=', owner.id))
    if (count >= maxTokensPerUser)
      throw new AppError('CONFLICT', { tokens: count }, `A user can have at most ${maxTokensPerUser} tokens. Revoke unused ones first.`)
    return rejectDuplicateName(() => insert(trx), 'A token with this name exists already.')
  })
  return { ...(await selectTokens(app).where('api_tokens.id', '=', id).executeTakeFirstOrThrow()), token }
}

/** Revokes a token on every server process and closes its connections. Throws API_TOKEN_NOT_FOUND. */
export async function remove(app: App, actor: Actor, id: string): Promise<void> {
  const { user_id, expires_at } = await get(app, actor, id)
  await app.db.transaction().execute(async (trx) => {
    // Before the token: the deletion of a user locks in this order too.
    await trx.selectFrom('users').select('id').where('id', '=', user_id).forKeyShare().execute()
    const { numDeletedRows } = await trx.deleteFrom('api_tokens').where('id', '=', id).executeTakeFirst()
    if (numDeletedRows !== 1n) throw new AppError('API_TOKEN_NOT_FOUND')
    await revokeToken(trx, user_id, { jti: id, exp: expirySeconds(expires_at) })
  })
}

/** Deletes all API tokens of a user and returns their number. The caller raises token_version, which closes their connections. */
export async function removeAll(trx: Trx, userId: string): Promise<number> {
  const { numDeletedRows } = await trx.deleteFrom('api_tokens').where('user_id', '=', userId).executeTakeFirst()
  return Number(numDeletedRows)
}

/** Returns actor and session of an API token; undefined if it is unknown, expired or its user is disabled. */
export async function authenticate(app: App, token: string): Promise<{ actor: Actor; session: Session; remainingMs: number } | undefined> {
  const row = await app.database.auth
    .selectFrom('api_tokens')
    .innerJoin('users', 'users.id', 'api_tokens.user_id')
    .select(['api_tokens.id', 'user_id', 'username', 'role', 'scopes', 'expires_at', 'users.token_version as ver'])
    .select(sql<number | null>`extract(epoch from expires_at - clock_timestamp())::float8 * 1000`.as('remaining_ms'))
    .select(
      sql<boolean>`last_used_at is null or last_used_at not between ${secondsAgo(lastUsedResolutionSeconds)} and ${clock}`.as('is_use_due'),
    )
    .where('token_hash', '=', hashOf(token))
    .whereRef('users.token_version', '=', 'api_tokens.token_version')
    .where('disabled', '=', false)
    .executeTakeFirst()
  const remainingMs = row?.remaining_ms ?? Number.POSITIVE_INFINITY
  if (!row || remainingMs <= 0) return undefined
  const { id, user_id, username, scopes, expires_at, ver } = row
  if (row.is_use_due) await recordUse(app, id)
  const role = scopes.includes('admin') ? row.role : 'user'
  return {
    actor: { id: user_id, username, role, scopes },
    session: { sub: user_id, jti: id, exp: expirySeconds(expires_at), ver },
    remainingMs,
  }
}

/** Records the time of use. A database that is read-only or busy does not fail the request. */
async function recordUse({ database, log }: App, id: string): Promise<void> {
  const recorded = database.auth.updateTable('api_tokens').set({ last_used_at: clock }).where('id', '=', id).execute()
  await recorded.catch((error: unknown) => {
    if (!isUnavailable(error)) throw error
    log.debug({ err: error, token_id: id }, 'the use of an API token was not recorded')
  })
}

/** Returns the owner of a new token: the actor, or for admins the named user. */
async function resolveOwner(app: App, actor: Actor, user: string | undefined): Promise<users.User> {
  if (user === undefined) {
    if (actor.id === null) throw invalid('user', 'required: the operator has no tokens')
    return users.get(app.db, actor.id)
  }
  const owner = await users.findByIdentifier(app.db, user)
  if (!owner || !(isAdmin(actor) || owner.id === actor.id)) throw new AppError('USER_NOT_FOUND')
  return owner
}

const selectTokens = ({ db }: App) =>
  db
    .selectFrom('api_tokens')
    .innerJoin('users', 'users.id', 'api_tokens.user_id')
    .select(['api_tokens.id', 'user_id', 'username', 'name', 'scopes', 'api_tokens.created_at', 'expires_at', 'last_used_at'])

const selectVisible = (app: App, actor: Actor) => selectTokens(app).$if(!isAdmin(actor), (query) => query.where('user_id', '=', actor.id))

const hashOf = (token: string): string => hash('sha256', token)

const expirySeconds = (date: Date | null): number => (date ? Math.floor(date.getTime() / 1000) : farFutureSeconds)

/** Revokes a token until no value of auth.refresh_grace_hours allows to refresh it. Returns false if it was revoked before. */
export async function revokeToken(trx: Trx, user_id: string, { jti, exp }: Pick<Session, 'jti' | 'exp'>): Promise<boolean> {
  await trx.deleteFrom('revoked_tokens').where('expires_at', '<', clock).execute()
  const expires_at = new Date((exp + maxRefreshGraceHours * 3600) * 1000)
  const { rows } = await sql`
    insert into revoked_tokens (jti, user_id, expires_at) values (${jti}, ${user_id}, ${expires_at}) on conflict do nothing returning jti`.execute(
    trx,
  )
  return rows.length === 1
}

/** Returns the seconds after expiry within which a token can be refreshed. */
export const refreshGraceSeconds = ({ config }: App): number => config.auth.refresh_grace_hours * 3600
