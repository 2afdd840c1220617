/** Job that mails a verification link. It creates the token itself: no job payload or log contains one. */
import type { App } from '../app.ts'
import type { Row } from '../db/schema.ts'
import { type Limit, removeLastHit, tryCountHit } from '../http/rate-limit.ts'
import type { Handler } from '../jobs/queue.ts'
import { createToken, isVerificationPending } from './email-verification.ts'

/** Limit of mails to one address. */
const addressLimit = { max: 3, windowSeconds: 3600 }
/** Limit of mails caused by one user. */
const userLimit = { max: 10, windowSeconds: 3600 }

export const verifyEmail: Handler<'verify_email'> = {
  async run(app, { payload: { user_id } }) {
    const user = await app.db.selectFrom('users').selectAll().where('id', '=', user_id).executeTakeFirst()
    if (!app.mailer || !user || !isVerificationPending(app, user)) return
    const keys = await countMail(app, user)
    if (!keys) return
    try {
      const text = mailText(app, user, await createToken(app, user_id))
      await app.mailer.send({ to: user.email, subject: 'Confirm your e-mail address', text })
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
      for (const passed of keys) await removeLastHit(app, passed)
      app.log.warn({ user_id: id, limit: limit.max }, 'no e-mail was sent to confirm an address: the limit of an hour is used up')
      return null
    }
    keys.push(key)
  }
  return keys
}

function mailText({ config }: App, { username }: Row<'users'>, token: string): string {
  const link = new URL(`api/auth/verify-email?token=${token}`, config.server.public_url.replace(/\/*$/, '/'))
  return `Hello ${username},

somebody, most likely you, gave this address for an account at ${link.host}.
Open this link within 24 hours to confirm that it is yours:

${link}

If it was not you, do nothing: nobody can sign in without the link.
`
}
