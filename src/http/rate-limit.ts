/** Limits that hold over all server processes and restarts: one row for each counted act, in a window that slides by the database clock. */
import { isIPv6 } from 'node:net'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { clock, secondsAgo } from '../db/clock.ts'
import type { Db, Trx } from '../db/pool.ts'
import { AppError, type Code } from '../errors.ts'

export interface Limit {
  /** acts within the window */
  readonly max: number
  /** seconds */
  readonly windowSeconds: number
}

/** Counts an act under `key`; throws `code` with `retry_after_secs` when the limit is used up, and then counts nothing. */
export async function countHit(app: App, key: string, limit: Limit, code: Code = 'RATE_LIMITED'): Promise<void> {
  const wait = await app.db.transaction().execute(async (trx) => {
    // One after the other for each key: two acts at once cannot both be the last one allowed.
    await sql`select pg_advisory_xact_lock(hashtextextended(${key}, 0))`.execute(trx)
    // Acts in the future were counted before the database clock was set back: they would lock the key for as long as it was wrong.
    await trx
      .deleteFrom('rate_hits')
      .where('key', '=', key)
      .where((eb) => eb.or([eb('at', '<=', secondsAgo(limit.windowSeconds)), eb('at', '>', clock)]))
      .execute()
    const seconds = await secondsUntilFree(trx, key, limit)
    if (seconds > 0) return seconds
    await trx.insertInto('rate_hits').values({ key, at: clock }).execute()
    await deleteExpired(trx)
    return 0
  })
  if (wait > 0) throw limitError(wait, code)
}

/** As count(), for whom nobody is told: false instead of a refusal. */
export async function tryCountHit(app: App, key: string, limit: Limit): Promise<boolean> {
  try {
    await countHit(app, key, limit)
    return true
  } catch (error) {
    if (error instanceof AppError) return false
    throw error
  }
}

/** Takes back the last act counted under `key`: it turned out to be none. */
export async function removeLastHit(app: App, key: string): Promise<void> {
  await sql`
    delete from rate_hits where ctid = (select ctid from rate_hits where key = ${key} order by at desc limit 1 for update skip locked)`.execute(
    app.db,
  )
}

/** Some rows of keys that nobody came back with: each act takes more away than it leaves. No window is longer than a day. */
async function deleteExpired(trx: Trx): Promise<void> {
  await sql`
    delete from rate_hits where ctid in
      (select ctid from rate_hits where at < ${secondsAgo(86_400)} limit 10 for update skip locked)`.execute(trx)
}

/** Whether the limit is used up; counts nothing. */
export const isUsedUp = async (app: App, key: string, limit: Limit): Promise<boolean> => (await secondsUntilFree(app.db, key, limit)) > 0

/** Throws as count() does, but counts nothing: for limits on failures, where it is not known yet whether this will be one. */
export async function rejectUsedUp(app: App, key: string, limit: Limit, code: Code = 'RATE_LIMITED'): Promise<void> {
  const wait = await secondsUntilFree(app.db, key, limit)
  if (wait > 0) throw limitError(wait, code)
}

/** Whole seconds until the next act is allowed; 0: now. */
async function secondsUntilFree(db: Db, key: string, { max: acts, windowSeconds: window }: Limit): Promise<number> {
  const oldest = await db
    .selectFrom('rate_hits')
    .select(sql<number>`ceil(extract(epoch from at - ${secondsAgo(window)}))::int`.as('seconds'))
    .where('key', '=', key)
    .where('at', '>', secondsAgo(window))
    .where('at', '<=', clock)
    .orderBy('at', 'desc')
    .offset(acts - 1)
    .limit(1)
    .executeTakeFirst()
  return oldest ? Math.max(1, oldest.seconds) : 0
}

const limitError = (wait: number, code: Code) => new AppError(code, { retry_after_secs: wait })

/** Who counts as one client: an IPv4 address, or the /64 that an IPv6 address lies in, as whole networks are handed out. */
export function clientNetwork(ip: string): string {
  const address = ip.replace(/%.*$/, '').toLowerCase()
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(address)?.[1]
  if (mapped) return mapped
  if (!isIPv6(address)) return address
  const [head = '', tail] = address.split('::')
  const groups = (part: string) => (part === '' ? [] : part.split(':'))
  const before = groups(head)
  // An IPv4 address at the end stands for two groups; it never reaches the first four, so its length is all that counts.
  const after = groups(tail ?? '').flatMap((group) => (group.includes('.') ? [group, group] : [group]))
  const zeros = Array<string>(Math.max(0, 8 - before.length - after.length)).fill('0')
  const all = tail === undefined ? before : [...before, ...zeros, ...after]
  return `${all
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`
}
