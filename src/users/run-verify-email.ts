/** Sends a user the link that confirms the e-mail address. Its token is made here, so that no job and no log ever holds one. */
import type { App } from '../app.ts'
import type { Row } from '../db/schema.ts'
import { passes, uncount } from '../http/rate-limit.ts'
import type { Handler } from '../jobs.ts'
import { isAwaited, newToken } from './verify-email.ts'

/** Mails that one address gets, however often and by whom they are asked for. */
const perAddress = { acts: 3, window: 3600 }

export const verifyEmail: Handler<'verify_email'> = {
  async run(app, { payload: { user_id } }) {
    const user = await app.db.selectFrom('users').selectAll().where('id', '=', user_id).executeTakeFirst()
    if (!app.mailer || !user || !isAwaited(app, user)) return
    const key = `verify_email:${user.email_key}`
    if (!(await passes(app, key, perAddress))) return
    try {
      const text = letter(app, user, await newToken(app, user_id))
      await app.mailer.send({ to: user.email, subject: 'Confirm your e-mail address', text })
    } catch (error) {
      await uncount(app, key)
      throw error
    }
  },
}

function letter({ config }: App, { username }: Row<'users'>, token: string): string {
  const link = new URL(`api/auth/verify-email?token=${token}`, config.server.public_url.replace(/\/*$/, '/'))
  return `Hello ${username},

somebody, most likely you, gave this address for an account at ${link.host}.
Open this link within 24 hours to confirm that it is yours:

${link}

If it was not you, do nothing: nobody can sign in without the link.
`
}
