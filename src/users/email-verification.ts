/** Verification of e-mail addresses by a link that works once. */
import { hash, randomBytes } from 'node:crypto'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { clock, secondsAhead } from '../db/clock.ts'
import type { Trx } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import { AppError, invalid } from '../errors.ts'
import { clientNetwork, type Limit, removeLastHit, tryCountHit } from '../http/rate-limit.ts'
import { emailKey } from '../http/user-identifier.ts'
import { enqueue, type Handler } from '../jobs/queue.ts'

/** Lifetime of a link. */
const linkLifetimeSeconds = 24 * 3600

/** Limit of resend requests per client network. */
const resendLimit = { max: 20, windowSeconds: 3600 }

/** Limit of mails to one address. */
const addressLimit = { max: 3, windowSeconds: 3600 }
/** Limit of mails caused by one user. */
const userLimit = { max: 10, windowSeconds: 3600 }

/** Returns whether the user must verify the address before signing in. */
const isVerificationPending = ({ config }: App, { email_verified_at, auth_method, disabled }: Row<'users'>): boolean =>
  config.auth.require_email_verification && auth_method === 'local' && email_verified_at === null && !disabled

/** Throws EMAIL_NOT_VERIFIED if the user must verify the address first. */
export function requireVerified(app: App, user: Row<'users'>): void {
  if (isVerificationPending(app, user)) throw new AppError('EMAIL_NOT_VERIFIED')
}

/** Queues a verification mail if the user needs one, in the caller's transaction. */
export async function requestVerification(app: App, trx: Trx, user: Row<'users'>): Promise<void> {
  if (!isVerificationPending(app, user)) return
  // A person waits for it. The removal of files, in the same queue, may take hours after a large deletion.
  await enqueue(trx, 'verify_email', { user_id: user.id }, { dedupeKey: `verify_email:${user.id}`, priority: 'high' })
}

/** Sends the mail again on request. The response must not depend on the address. */
export async function resendVerification(app: App, ip: string, email: string): Promise<void> {
  if (!(await tryCountHit(app, `verify_email:${clientNetwork(ip)}`, resendLimit))) return
  await app.db.transaction().execute(async (trx) => {
    const user = await trx.selectFrom('users').selectAll().where('email_key', '=', emailKey(email)).executeTakeFirst()
    if (user) await requestVerification(app, trx, user)
  })
}

/** Creates the token of a link to an address. The database holds its hash only. Returns null if the user has another address by now. */
export async function createToken(app: App, { id, email_key }: Pick<Row<'users'>, 'id' | 'email_key'>): Promise<string | null> {
  const token = randomBytes(32).toString('base64url')
  await app.db.deleteFrom('email_verifications').where('expires_at', '<=', clock).execute()
  // Waits for a change of the address, which deletes the tokens of the earlier one.
  const { rows } = await sql`
    insert into email_verifications (token_hash, user_id, created_at, expires_at)
    select ${hashOf(token)}, id, ${clock}, ${secondsAhead(linkLifetimeSeconds)} from users where id = ${id} and email_key = ${email_key} for share
    returning user_id`.execute(app.db)
  return rows.length === 1 ? token : null
}

/** Verifies an address by the token of its link. Returns its user. Throws VALIDATION_ERROR if the token is unknown, used, expired or for a former address. */
export async function confirmEmail(app: App, token: string): Promise<Row<'users'>> {
  const refusal = () => invalid('token', 'unknown, used or expired: request another email')
  return app.db.transaction().execute(async (trx) => {
    const verification = trx.selectFrom('email_verifications').where('token_hash', '=', hashOf(token))
    const valid = verification.where('expires_at', '>', clock).where('created_at', '<=', clock)
    // Locks the user before the token, as a change of the address and the deletion of the user do.
    const users = trx.updateTable('users').set({ email_verified_at: app.now() }).where('id', '=', valid.select('user_id'))
    const user = await users.returningAll().executeTakeFirstOrThrow(refusal)
    // The token may have been used or deleted while this waited for the user.
    await verification.select('user_id').executeTakeFirstOrThrow(refusal)
    await deleteTokens(trx, user.id)
    return user
  })
}

/** Deletes all tokens of a user. */
export async function deleteTokens(trx: Trx, userId: string): Promise<void> {
  await trx.deleteFrom('email_verifications').where('user_id', '=', userId).execute()
}

/** Mails a verification link. Creates the token here, because no job payload or log may contain it. */
export const verifyEmail: Handler<'verify_email'> = {
  async run(app, { payload: { user_id } }) {
    const user = await app.db.selectFrom('users').selectAll().where('id', '=', user_id).executeTakeFirst()
    if (!app.mailer || !user || !isVerificationPending(app, user)) return
    const keys = await countMail(app, user)
    if (!keys) return
    try {
      const token = await createToken(app, user)
      if (token === null) return
      await app.mailer.send({ to: user.email, subject: 'Confirm your e-mail address', text: mailText(app, token) })
    } catch (error) {
      for (const key of keys) await removeLastHit(app, key)
      throw error
    }
  },
}

/** Counts the mail against all limits and returns their keys. Returns null if one is used up; the user can request the mail again later. */
async function countMail(app: App, { id, email_key }: Row<'users'>): Promise<string[] | null> {
  const total = app.config.limits.verification_emails_per_hour
  const limits: [key: string, limit: Limit][] = [
    [`verify_email:${email_key}`, addressLimit],
    [`verify_email:user:${id}`, userLimit],
    ...(total > 0 ? [['verify_email', { max: total, windowSeconds: 3600 }] as [string, Limit]] : []),
  ]
  const keys: string[] = []
  for (const [key, limit] of limits) {
    if (!(await tryCountHit(app, key, limit))) {
      for (const counted of keys) await removeLastHit(app, counted)
      app.log.warn({ user_id: id, limit: limit.max }, 'no verification email was sent: the limit of this hour is used up')
      return null
    }
    keys.push(key)
  }
  return keys
}

/** Returns the text without the user name: anybody can register a name such as `https://example.org/prize` with the address of somebody else. */
function mailText({ config }: App, token: string): string {
  const link = new URL(`api/auth/verify-email?token=${token}`, config.server.public_url.replace(/\/*$/, '/'))
  return `Hello,

somebody, most likely you, gave this address for an account at ${link.host}.
Open this link within 24 hours to confirm that it is yours:

${link}

If it was not you, do nothing: nobody can sign in without the link.
`
}

const hashOf = (token: string): string => hash('sha256', token)
