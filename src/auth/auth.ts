/** Sign-in, registration and session tokens. */
import { hash, randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { databaseNow } from '../db/clock.ts'
import type { Db } from '../db/pool.ts'
import { compileStatement } from '../db/statements.ts'
import { AppError, invalid } from '../errors.ts'
import { clientNetwork, countHit, type Limit, rejectUsedUp } from '../http/rate-limit.ts'
import type { Session } from '../http/route.ts'
import { usernameKey } from '../http/user-identifier.ts'
import type { Claims } from '../ports/identity-provider.ts'
import * as apiTokens from '../tokens/tokens.ts'
import * as verification from '../users/email-verification.ts'
import { removeInitialPassword } from '../users/passwords.ts'
import * as users from '../users/users.ts'

export interface SignIn {
  token: string
  expires_at: string
  user: users.User
}

const failureLimit: Limit = { max: 10, windowSeconds: 15 * 60 }

/** Tolerated difference between the clocks of a database and of its replacement. */
const clockSkewSeconds = 60

/** Signs in with a username or e-mail address. Throws UNAUTHORIZED, RATE_LIMITED, EMAIL_NOT_VERIFIED, FORBIDDEN. */
export async function login(app: App, ip: string, { username, password }: { username: string; password: string }): Promise<SignIn> {
  requirePasswordLogin(app)
  const user = await users.findByIdentifier(app.db, username)
  // An unknown name may be a password typed into the wrong field, so it is hashed.
  const key = `login:${user?.username_key ?? `?${hash('sha256', usernameKey(username))}`}:${clientNetwork(ip)}`
  const isRight = await verifyPassword(app, key, user?.password_hash ?? null, password, () => user !== undefined && !user.disabled)
  if (!user || !isRight) throw new AppError('UNAUTHORIZED', {}, 'Wrong username or password.')
  verification.requireVerified(app, user)
  return signToken(app, await users.recordSignIn(app, user))
}

function requirePasswordLogin({ config }: App): void {
  if (config.auth.method === 'oidc')
    throw new AppError('FORBIDDEN', {}, 'This server has no password login. Log in at /api/auth/oidc/login.')
}

/** Verifies a password within the failure limit. The second check stops concurrent guesses. */
async function verifyPassword(app: App, key: string, hash: string | null, password: string, isAllowed = () => true): Promise<boolean> {
  await rejectUsedUp(app, key, failureLimit)
  const isRight = (await app.passwords.verify(hash, password)) && isAllowed()
  await (isRight ? rejectUsedUp(app, key, failureLimit) : countHit(app, key, failureLimit))
  return isRight
}

export interface Registration {
  username: string
  email: string
  password: string
  role: 'admin' | 'user'
}

/** Registers a user; only an admin can register an admin. Throws FORBIDDEN, DUPLICATE_RESOURCE, RATE_LIMITED. */
export async function register(app: App, ip: string, actor: Actor | undefined, { password, ...fields }: Registration): Promise<users.User> {
  requirePasswordLogin(app)
  const byAdmin = actor !== undefined && isAdmin(actor)
  if (!byAdmin && !app.config.auth.enable_registration)
    throw new AppError('FORBIDDEN', {}, 'Registration is disabled on this server (auth.enable_registration). Ask an admin for an account.')
  if (!byAdmin && fields.role === 'admin') throw new AppError('FORBIDDEN', {}, 'Only admins can create admins.')
  if (!byAdmin) await countRegistration(app, ip)
  const password_hash = await app.passwords.hash(password)
  return app.db.transaction().execute(async (trx) => {
    const user = await users.create(app, trx, { ...fields, password_hash, email_verified: byAdmin })
    await verification.requestVerification(app, trx, user)
    return user
  })
}

export interface Bearer {
  actor: Actor
  session: Session
  /** milliseconds until the token expires */
  remainingMs: number
}

/** Counts every attempt, even one with a name that is taken. Throws RATE_LIMITED. */
async function countRegistration(app: App, ip: string): Promise<void> {
  const { registrations_per_hour: each, registrations_per_hour_total: total } = app.config.limits
  if (each > 0) await countHit(app, `register:${clientNetwork(ip)}`, { max: each, windowSeconds: 3600 })
  if (total > 0) await countHit(app, 'register', { max: total, windowSeconds: 3600 })
}

/** Returns actor and session of a session token or API token, as stored in the database now. Throws UNAUTHORIZED. */
export async function authenticateToken(app: App, token: string): Promise<Bearer> {
  if (apiTokens.isApiToken(token)) {
    const bearer = await apiTokens.authenticate(app, token)
    if (!bearer) throw new AppError('UNAUTHORIZED')
    return bearer
  }
  const claims = await app.tokens.read(token)
  const session = claims && (await findSession(app, claims))
  if (!session || session.remaining_ms <= 0) throw new AppError('UNAUTHORIZED')
  const { remaining_ms: remainingMs, ...actor } = session
  return { actor, session: claims, remainingMs }
}

/**
 * Returns the user of a session token and the milliseconds until it expires, negative after that. Returns undefined if the session has
 * ended or the token was issued in the future. This query runs for each request: logout and demotion take effect on all servers at once.
 */
async function findSession(
  { database }: App,
  { sub, jti, ver, iat, exp }: Claims,
): Promise<(Actor & { remaining_ms: number }) | undefined> {
  return (await selectSession(database.auth, sub, ver, jti, iat, exp))[0]
}

const selectSession = compileStatement((db: Db, id: string, version: number, jti: string, iat: number, exp: number) =>
  db
    .selectFrom('users')
    .select(['id', 'role', 'username'])
    .select(sql<number>`extract(epoch from to_timestamp(${exp}) - clock_timestamp())::float8 * 1000`.as('remaining_ms'))
    .where('id', '=', id)
    .where('token_version', '=', version)
    .where('disabled', '=', false)
    .where(sql<boolean>`to_timestamp(${iat}) <= clock_timestamp() + ${sql.lit(clockSkewSeconds)} * interval '1 s'`)
    .where(({ not, exists, selectFrom }) => not(exists(selectFrom('revoked_tokens').select('jti').where('jti', '=', jti)))),
)

/** Returns the actors of the given sessions by token id. Leaves out sessions that have ended. Does not check expiry. */
export async function findActiveSessions(app: App, sessions: readonly Pick<Claims, 'sub' | 'jti' | 'ver'>[]): Promise<Map<string, Actor>> {
  const { rows } = await sql<{ jti: string; id: string; role: Actor['role']; username: string }>`
    select session.jti, users.id, username, case when api_tokens.id is null or 'admin' = any(scopes) then role else 'user' end as role
    from jsonb_to_recordset(${JSON.stringify(sessions)}) as session (sub uuid, jti uuid, ver integer)
    join users on users.id = session.sub and users.token_version = session.ver and not disabled
    left join api_tokens on api_tokens.id = session.jti
    where not exists (select from revoked_tokens where revoked_tokens.jti = session.jti)`.execute(app.db)
  return new Map(rows.map(({ jti, ...actor }) => [jti, actor]))
}

/** Tells if the rights of a session are still those of `actor`, or more. A logout or refresh does not end requests that have begun. */
export async function hasRights({ db }: App, actor: Actor, { sub, jti, ver }: Session): Promise<boolean> {
  const user = await db
    .selectFrom('users')
    .select('role')
    .where('id', '=', sub)
    .where('token_version', '=', ver)
    .where('disabled', '=', false)
    .$if(actor.scopes !== undefined, (query) =>
      query.where(({ exists, selectFrom }) => exists(selectFrom('api_tokens').select('id').where('id', '=', jti))),
    )
    .executeTakeFirst()
  return user !== undefined && (user.role === 'admin' || !isAdmin(actor))
}

/** Ends the session on every server process. */
export async function logout(app: App, actor: Actor, session: Session | undefined): Promise<void> {
  const { id } = actor
  if (session && id !== null) await app.db.transaction().execute((trx) => apiTokens.revokeToken(trx, id, session))
}

/** Exchanges a valid or recently expired token for a new one. Of two concurrent calls one succeeds. Throws UNAUTHORIZED. */
export async function refresh(app: App, token: string): Promise<SignIn> {
  const claims = await app.tokens.read(token)
  const session = claims && (await findSession(app, claims))
  if (!session || session.remaining_ms + apiTokens.refreshGraceSeconds(app) * 1000 <= 0) throw new AppError('UNAUTHORIZED')
  const auth_time = claims.auth_time ?? claims.iat
  // The token's remaining time and expiry give the end of the session by the database clock.
  if (session.remaining_ms + (sessionEnd(app, auth_time) - claims.exp) * 1000 <= 0) throw new AppError('UNAUTHORIZED')
  const isFirst = await app.db.transaction().execute((trx) => apiTokens.revokeToken(trx, claims.sub, claims))
  if (!isFirst) throw new AppError('UNAUTHORIZED')
  // Keeps the version of the old token: a concurrent password change must end the new token too.
  return signToken(app, await users.get(app.db, claims.sub), { ver: claims.ver, auth_time })
}

/** Returns when a session that began at `auth_time` ends for good; both in seconds. */
const sessionEnd = ({ config }: App, auth_time: number): number => auth_time + config.auth.refresh_max_days * 86_400

/** Changes the actor's password, ends all sessions and returns a new token. Throws FORBIDDEN, RATE_LIMITED, USER_NOT_FOUND. */
export async function changePassword(app: App, actor: Actor, current: string, next: string): Promise<SignIn> {
  const wrong = () => new AppError('FORBIDDEN', {}, 'The current password is wrong.')
  const { id, password_hash } = await users.get(app.db, actor.id)
  if (!(await verifyPassword(app, `password:${id}`, password_hash, current))) throw wrong()
  if (next === current) throw invalid('new_password', 'must differ from the current password')
  const nextHash = await app.passwords.hash(next)
  const user = await app.db.transaction().execute(async (trx) => {
    const locked = await trx.selectFrom('users').select('password_hash').where('id', '=', id).forUpdate().executeTakeFirst()
    // The second of two concurrent changes no longer has the current password.
    if (locked && locked.password_hash !== password_hash) throw wrong()
    return users.applyChanges(app, trx, id, { password_hash: nextHash })
  })
  await removeInitialPassword(app, password_hash)
  return signToken(app, user)
}

/** Issues a token without a password, for the operator and after single sign-on. Throws CONFLICT if the user is disabled. */
export function issueToken(app: App, user: users.User): Promise<SignIn> {
  if (user.disabled) throw new AppError('CONFLICT', {}, `Cannot issue a token: user ${user.username} is disabled.`)
  return signToken(app, user)
}

async function signToken(app: App, user: users.User, previous?: { ver: number; auth_time: number }): Promise<SignIn> {
  const iat = Math.floor((await databaseNow(app.db)).getTime() / 1000)
  const fullExp = iat + app.config.auth.session_lifetime_hours * 3600
  const exp = previous ? Math.min(fullExp, sessionEnd(app, previous.auth_time)) : fullExp
  const token = await app.tokens.sign({ sub: user.id, jti: randomUUID(), iat, exp, ver: user.token_version, ...previous })
  return { token, expires_at: new Date(exp * 1000).toISOString(), user }
}
