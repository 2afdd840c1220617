/** Whether an e-mail address is its owner's: a link is sent there that works once. */
import { createHash, randomBytes } from 'node:crypto'
import type { App } from '../app.ts'
import { clock, secondsAhead } from '../db/clock.ts'
import type { Trx } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import { AppError, invalid } from '../errors.ts'
import { clientNetwork, tryCountHit } from '../http/rate-limit.ts'
import { emailKey } from '../http/user-identifier.ts'
import { enqueue } from '../jobs/queue.ts'

/** seconds that a link works */
const linkLifetimeSeconds = 24 * 3600

/** Mails that one client can ask for again. */
const resendLimit = { max: 20, windowSeconds: 3600 }

/** Whether this user has to confirm the address before anything else. */
export const isVerificationPending = ({ config }: App, { email_verified_at, auth_method, disabled }: Row<'users'>): boolean =>
  config.auth.require_email_verification && auth_method === 'local' && email_verified_at === null && !disabled

/** Throws EMAIL_NOT_VERIFIED for somebody who has to confirm the address first. */
export function requireVerified(app: App, user: Row<'users'>): void {
  if (isVerificationPending(app, user)) throw new AppError('EMAIL_NOT_VERIFIED')
}

/** Has a link sent where the address needs one; goes with the transaction. */
export async function requestVerification(app: App, trx: Trx, user: Row<'users'>): Promise<void> {
  if (isVerificationPending(app, user)) await enqueue(trx, 'verify_email', { user_id: user.id }, { dedupeKey: `verify_email:${user.id}` })
}

/** The same for whoever says that no mail came. What it answers tells nothing about the address. */
export async function resendVerification(app: App, ip: string, email: string): Promise<void> {
  if (!(await tryCountHit(app, `verify_email:${clientNetwork(ip)}`, resendLimit))) return
  await app.db.transaction().execute(async (trx) => {
    const user = await trx.selectFrom('users').selectAll().where('email_key', '=', emailKey(email)).executeTakeFirst()
    if (user) await requestVerification(app, trx, user)
  })
}

/** A new link's token. Only its hash is kept. */
export async function createToken(app: App, userId: string): Promise<string> {
  const token = randomBytes(32).toString('base64url')
  await app.db.deleteFrom('email_verifications').where('expires_at', '<=', clock).execute()
  const row = { token_hash: hashOf(token), user_id: userId, created_at: clock, expires_at: secondsAhead(linkLifetimeSeconds) }
  await app.db.insertInto('email_verifications').values(row).execute()
  return token
}

/** Takes a link's word for it, once. Throws VALIDATION_ERROR for one that is unknown, used, too old, or of an address given up since. */
export async function confirmEmail(app: App, token: string): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    const found = await trx
      .deleteFrom('email_verifications')
      .where('token_hash', '=', hashOf(token))
      .where('expires_at', '>', clock)
      .where('created_at', '<=', clock)
      .returning('user_id')
      .executeTakeFirst()
    if (!found) throw invalid('token', 'used, expired or unknown: ask for another e-mail')
    await trx.updateTable('users').set({ email_verified_at: app.now() }).where('id', '=', found.user_id).execute()
    await deleteTokens(trx, found.user_id)
  })
}

/** Ends all links of a user. */
export async function deleteTokens(trx: Trx, userId: string): Promise<void> {
  await trx.deleteFrom('email_verifications').where('user_id', '=', userId).execute()
}

const hashOf = (token: string): string => createHash('sha256').update(token).digest('hex')
