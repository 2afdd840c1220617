/** Visits of shared links: showing the link, verifying its password, downloading the file. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { clock, secondsAgo } from '../db/clock.ts'
import type { Trx } from '../db/pool.ts'
import { openStoredFile } from '../documents/stored-files.ts'
import { AppError } from '../errors.ts'
import type { StoredFile } from '../http/files.ts'
import { countFailure, rejectLocked } from '../http/lockout.ts'
import { clientNetwork, countHit, isUsedUp, type Limit, removeLastHit, tryCountHit } from '../http/rate-limit.ts'
import { notify, type Type } from '../notifications/notifications.ts'
import { isDocumentOpen, type SharedLink, selectLinks, statusOf } from './shared-links.ts'

interface Visitor {
  ip: string
  password: string | undefined
}

const downloadLimit = ({ config }: App): Limit => ({ max: config.limits.shared_download_per_minute, windowSeconds: 60 })
/** Period within which range requests of the same client continue a view. */
const viewSeconds = 600

const code = 'SHARED_LINK_RATE_LIMITED'
const daySeconds = 86_400

/** Failures per link, over all clients. */
const failureLimit = ({ config }: App): Limit => ({ max: config.limits.shared_password_failures, windowSeconds: 900 })
/** Clients that gave the right password within a day can open a locked link, unless they guess themselves. */
const knownVisitorLimit: Limit = { max: 1, windowSeconds: daySeconds }
const knownFailureLimit: Limit = { max: 10, windowSeconds: daySeconds }

const statusErrors = { revoked: 'SHARED_LINK_REVOKED', expired: 'SHARED_LINK_EXPIRED', exhausted: 'SHARED_LINK_MAX_VIEWS' } as const

/** Returns a usable link. Throws SHARED_LINK_NOT_FOUND, _REVOKED, _EXPIRED, _MAX_VIEWS. */
export async function getUsable(app: App, token: string): Promise<SharedLink> {
  const link = await findLink(app, token)
  const status = statusOf(link)
  if (status !== 'usable') throw new AppError(statusErrors[status])
  return link
}

/** Returns a link for a client that resumes a download. Used-up views do not matter to it. Throws like getUsable(). */
export async function getResumable(app: App, token: string, ip: string): Promise<SharedLink> {
  const link = await findLink(app, token)
  return statusOf(link) === 'exhausted' && (await hasRecentView(app, link, ip)) ? link : getUsable(app, token)
}

/** Returns the link, and whether the password is right. Counts every attempt. Throws SHARED_LINK_RATE_LIMITED, and like getUsable(). */
export async function verifyVisitor(app: App, token: string, { ip, password }: Visitor): Promise<{ link: SharedLink; valid: boolean }> {
  await countAttempt(app, ip)
  const link = await getUsable(app, token)
  return { link, valid: link.password_hash === null || (password !== undefined && (await verifyPassword(app, link, ip, password))) }
}

/** Counts a download attempt. Throws SHARED_LINK_RATE_LIMITED. */
export const countDownload = (app: App, ip: string): Promise<void> =>
  countHit(app, `shared-link-fetch:${clientNetwork(ip)}`, downloadLimit(app), 'SHARED_LINK_RATE_LIMITED')

/** Opens the file. Counts a view before the first byte is sent. Throws SHARED_LINK_PASSWORD_REQUIRED, _INVALID_PASSWORD, _RATE_LIMITED. */
export async function openFile(app: App, link: SharedLink, { ip, password }: Visitor): Promise<StoredFile> {
  await requirePassword(app, link, ip, password)
  const { presign, ...file } = await openStoredFile(app, { ...link, created_at: link.document_created_at })
  // Others can use the URL until it expires: no redirect for links with a password or a limit of views.
  const isFree = link.password_hash === null && link.max_views === null
  return {
    ...file,
    ...(presign && isFree
      ? {
          async presign(headers) {
            const url = await presign(headers)
            // Without a URL the file is opened, which counts the view.
            if (url) await spendView(app, link, ip)
            return url
          },
        }
      : {}),
    async open(range) {
      const bytes = await file.open(range)
      try {
        const isRest = range !== undefined && range.start > 0 && (await hasRecentView(app, link, ip))
        if (!isRest) await spendView(app, link, ip)
        return bytes
      } catch (error) {
        bytes.destroy()
        throw error
      }
    },
  }
}

/** Checks the password. Shares its limit with verifyVisitor(): downloads must not allow further guesses. */
async function requirePassword(app: App, link: SharedLink, ip: string, password: string | undefined): Promise<void> {
  if (link.password_hash === null) return
  if (password === undefined) throw new AppError('SHARED_LINK_PASSWORD_REQUIRED')
  // Counted before the verification: concurrent guesses cannot exceed the limit.
  await countAttempt(app, ip)
  if (!(await verifyPassword(app, link, ip, password))) throw new AppError('SHARED_LINK_INVALID_PASSWORD')
  await removeLastHit(app, attemptsKey(ip))
}

/** Counts an attempt of a client network. Throws SHARED_LINK_RATE_LIMITED. */
const countAttempt = (app: App, ip: string): Promise<void> =>
  countHit(app, attemptsKey(ip), { max: app.config.limits.shared_verify_per_minute, windowSeconds: 60 }, code)

/** Returns the key that countAttempt() counts under. */
const attemptsKey = (ip: string): string => `shared-link-password:${clientNetwork(ip)}`

/** Returns whether the password is right. Throws SHARED_LINK_RATE_LIMITED while the link is locked, even for the right password. */
async function verifyPassword(app: App, link: SharedLink, ip: string, password: string): Promise<boolean> {
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
  app.log.warn({ shared_link_id: link.id, document_id: link.document_id, seconds }, 'a shared link is locked after wrong passwords')
  await notifyOwners(app, trx, link, 'shared_link_locked', {
    title: 'A shared link is locked',
    message: `Somebody tried ${app.config.limits.shared_password_failures} wrong passwords for the link to ${link.filename}. New visitors cannot open it for ${Math.ceil(seconds / 60)} minutes. If this goes on, revoke the link and share a new one.`,
  })
}

/** Notifies the creator of the link and the owner of the document. */
async function notifyOwners(app: App, trx: Trx, link: SharedLink, type: Type, text: { title: string; message: string }): Promise<void> {
  const data = { shared_link_id: link.id, document_id: link.document_id, filename: link.filename }
  for (const userId of new Set([link.created_by, link.owner_id])) await notify(app, trx, userId, type, { ...text, data })
}

/** Counts a view by one conditional UPDATE. Only one of two concurrent visitors gets the last view. */
async function spendView(app: App, link: SharedLink, ip: string): Promise<void> {
  const isSpent = await app.db.transaction().execute(async (trx) => {
    const spent = await trx
      .updateTable('shared_links')
      .set((eb) => ({ view_count: eb('view_count', '+', 1) }))
      .where('id', '=', link.id)
      .where('revoked_at', 'is', null)
      .where((eb) => eb.or([eb('expires_at', 'is', null), eb('expires_at', '>', clock)]))
      .where((eb) => eb.or([eb('max_views', 'is', null), eb('view_count', '<', eb.ref('max_views'))]))
      .where(isDocumentOpen)
      .returning(['view_count', 'max_views'])
      .executeTakeFirst()
    if (!spent) return false
    await recordView(trx, link, ip)
    if (spent.view_count === spent.max_views)
      await notifyOwners(app, trx, link, 'shared_link_exhausted', {
        title: 'A shared link has been used up',
        message: `The link to ${link.filename} was opened ${spent.max_views === 1 ? 'once' : `${spent.max_views} times`}, as often as it allows.`,
      })
    return true
  })
  if (isSpent) return
  // The link changed meanwhile; its new status is the error.
  await getUsable(app, link.token)
  throw new AppError('SHARED_LINK_MAX_VIEWS')
}

async function recordView(trx: Trx, { id, sha256 }: SharedLink, ip: string): Promise<void> {
  await trx
    .insertInto('shared_link_views')
    .values({ link_id: id, client: ip, at: clock, sha256 })
    .onConflict((conflict) => conflict.columns(['link_id', 'client']).doUpdateSet({ at: clock, sha256 }))
    .execute()
  await sql`
    delete from shared_link_views where ctid in
      (select ctid from shared_link_views where at < ${secondsAgo(viewSeconds)} limit 10 for update skip locked)`.execute(trx)
}

/** Returns whether the client viewed the current file of the link. A new version is another view. */
async function hasRecentView(app: App, { id, sha256 }: SharedLink, ip: string): Promise<boolean> {
  const view = await app.db
    .selectFrom('shared_link_views')
    .select('at')
    .where('link_id', '=', id)
    .where('client', '=', ip)
    .where('sha256', '=', sha256)
    .where('at', '>', secondsAgo(viewSeconds))
    .where('at', '<=', clock)
    .executeTakeFirst()
  return view !== undefined
}

async function findLink(app: App, token: string): Promise<SharedLink> {
  const link = /^[\w-]{43}$/.test(token) ? await selectLinks(app.db).where('token', '=', token).executeTakeFirst() : undefined
  if (!link) throw new AppError('SHARED_LINK_NOT_FOUND')
  return link
}
