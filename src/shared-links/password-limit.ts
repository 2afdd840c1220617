/** Limits of password attempts on shared links, per client network and per link. */
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import { countFailure, rejectLocked } from '../http/lockout.ts'
import { clientNetwork, countHit, isUsedUp, type Limit, tryCountHit } from '../http/rate-limit.ts'
import { notify } from '../notifications/notifications.ts'
import type { SharedLink } from './shared-links.ts'

const code = 'SHARED_LINK_RATE_LIMITED'
const day = 86_400

/** Failures per link, over all clients. */
const failureLimit = ({ config }: App): Limit => ({ max: config.limits.shared_password_failures, windowSeconds: 900 })
/** Clients that gave the right password within a day can open a locked link, unless they guess themselves. */
const knownVisitorLimit: Limit = { max: 1, windowSeconds: day }
const knownFailureLimit: Limit = { max: 10, windowSeconds: day }

/** Counts an attempt of a client network. Throws SHARED_LINK_RATE_LIMITED. */
export const countAttempt = (app: App, ip: string): Promise<void> =>
  countHit(app, attemptsKey(ip), { max: app.config.limits.shared_verify_per_minute, windowSeconds: 60 }, code)

/** Returns the key that countAttempt() counts under. */
export const attemptsKey = (ip: string): string => `shared-link-password:${clientNetwork(ip)}`

/** Returns whether the password is right. Throws SHARED_LINK_RATE_LIMITED while the link is locked, even for the right password. */
export async function verifyPassword(app: App, link: SharedLink, ip: string, password: string): Promise<boolean> {
  const key = `shared-link-failures:${link.id}`
  const visitor = `shared-link-visitor:${link.id}:${clientNetwork(ip)}`
  const isKnown = (await isUsedUp(app, visitor, knownVisitorLimit)) && !(await isUsedUp(app, `${visitor}:failures`, knownFailureLimit))
  if (!isKnown) await rejectLocked(app, key, failureLimit(app), code)
  if (!(await app.passwords.verify(link.password_hash, password))) {
    if (isKnown) await countHit(app, `${visitor}:failures`, knownFailureLimit, code)
    else await countFailure(app, key, failureLimit(app), code, (trx, seconds) => notifyLocked(app, trx, link, seconds))
    return false
  }
  // Concurrent guesses may have locked the link meanwhile.
  if (!isKnown) await rejectLocked(app, key, failureLimit(app), code)
  await tryCountHit(app, visitor, knownVisitorLimit)
  return true
}

async function notifyLocked(app: App, trx: Trx, link: SharedLink, seconds: number): Promise<void> {
  const minutes = Math.ceil(seconds / 60)
  app.log.warn({ shared_link_id: link.id, document_id: link.document_id, seconds }, 'a shared link is locked after wrong passwords')
  const title = 'A shared link is locked'
  const message = `Somebody tried ${app.config.limits.shared_password_failures} wrong passwords for the link to ${link.filename}. New visitors cannot open it for ${minutes} minutes. If this goes on, revoke the link and share a new one.`
  const data = { shared_link_id: link.id, document_id: link.document_id, filename: link.filename }
  for (const userId of new Set([link.created_by, link.owner_id]))
    await notify(app, trx, userId, 'shared_link_locked', { title, message, data })
}
