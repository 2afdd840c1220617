/** Creation of the first admin on an empty database. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import { ConfigError } from '../errors.ts'
import { Email, Username } from './fields.ts'
import { generatePassword, newPassword, writeInitialPassword } from './passwords.ts'
import * as users from './users.ts'

/**
 * Creates the configured admin if there are no users. Does nothing with `auth.method = "oidc"`, which has no passwords. Returns the
 * password if it was generated; it is also written to `<data_dir>/initial-admin-password`. Throws ConfigError for an invalid name,
 * address or password.
 */
export async function ensureFirstAdmin(app: App): Promise<{ password: string } | null> {
  if (app.config.auth.method === 'oidc' || !(await hasNoUsers(app.db))) return null
  const { admin_username, admin_email, admin_password } = app.config.auth
  throwConfigError('auth.admin_username', Username.safeParse(admin_username).error)
  throwConfigError('auth.admin_email', Email.safeParse(admin_email).error)
  if (admin_password) throwConfigError('auth.admin_password', newPassword(app.config).safeParse(admin_password).error)
  const password = admin_password || generatePassword(app.config.auth.password_min_length)
  const password_hash = await app.passwords.hash(password)
  const isCreated = await app.db.transaction().execute(async (trx) => {
    // Serializes servers that start at the same time: the second one finds a user.
    await sql`select pg_advisory_xact_lock(hashtextextended('first admin', 0))`.execute(trx)
    if (!(await hasNoUsers(trx))) return false
    const username = Username.parse(admin_username)
    await users.create(app, trx, { username, email: admin_email, password_hash, role: 'admin', email_verified: true })
    // Written before the commit: an admin with an unknown password would lock everybody out.
    if (!admin_password) await writeInitialPassword(app, password)
    return true
  })
  return isCreated && !admin_password ? { password } : null
}

const hasNoUsers = async (db: App['db'] | Trx) => (await db.selectFrom('users').select('id').limit(1).execute()).length === 0

function throwConfigError(key: string, error: { issues: { message: string }[] } | undefined): void {
  if (error) throw new ConfigError(error.issues.map(({ message }) => `${key}: ${message}`))
}
