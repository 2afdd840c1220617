/** Rate limits over all server processes: one row per hit, in a window that slides by the database clock. */
import { isIPv6 } from 'node:net'
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { clock, secondsAgo } from '../db/clock.ts'
import type { Db, Trx } from '../db/pool.ts'
import { AppError, type Code } from '../errors.ts'

export interface Limit {
  /** Maximum number of hits within the window. */
  readonly max: number
  readonly windowSeconds: number
}

/** Counts a hit under `key`. If the limit is used up, counts nothing and throws `code` with `retry_after_secs`. */
export async function countHit(app: App, key: string, limit: Limit, code: Code = 'RATE_LIMITED'): Promise<void> {
  const wait = await app.db.transaction().execute(async (trx) => {
    // Serializes the hits of a key: two concurrent hits cannot both be the last allowed one.
    await sql`select pg_advisory_xact_lock(hashtextextended(${key}, 0))`.execute(trx)
    // Hits in the future were counted before the database clock was set back. They would block the key for as long as it was wrong.
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

/** Counts a hit under `key`. Returns false, and counts nothing, if the limit is used up. */
export async function tryCountHit(app: App, key: string, limit: Limit): Promise<boolean> {
  try {
    await countHit(app, key, limit)
    return true
  } catch (error) {
    if (error instanceof AppError) return false
    throw error
  }
}

/** Removes the last hit counted under `key`. */
export async function removeLastHit(app: App, key: string): Promise<void> {
  await sql`
    delete from rate_hits where ctid = (select ctid from rate_hits where key = ${key} order by at desc limit 1 for update skip locked)`.execute(
    app.db,
  )
}

/** Deletes a few expired rows of other keys. No window is longer than a day. */
async function deleteExpired(trx: Trx): Promise<void> {
  await sql`
    delete from rate_hits where ctid in
      (select ctid from rate_hits where at < ${secondsAgo(86_400)} limit 10 for update skip locked)`.execute(trx)
}

/** Tells if the limit is used up. Counts nothing. */
export const isUsedUp = async (app: App, key: string, limit: Limit): Promise<boolean> => (await secondsUntilFree(app.db, key, limit)) > 0

/** Throws RATE_LIMITED if the limit is used up. Counts nothing: for limits on failures, before the result is known. */
export async function rejectUsedUp(app: App, key: string, limit: Limit): Promise<void> {
  const wait = await secondsUntilFree(app.db, key, limit)
  if (wait > 0) throw limitError(wait, 'RATE_LIMITED')
}

/** Returns the whole seconds until the next hit is allowed, or 0. */
async function secondsUntilFree(db: Db, key: string, { max, windowSeconds }: Limit): Promise<number> {
  const oldest = await db
    .selectFrom('rate_hits')
    .select(sql<number>`ceil(extract(epoch from at - ${secondsAgo(windowSeconds)}))::int`.as('seconds'))
    .where('key', '=', key)
    .where('at', '>', secondsAgo(windowSeconds))
    .where('at', '<=', clock)
    .orderBy('at', 'desc')
    .offset(max - 1)
    .limit(1)
    .executeTakeFirst()
  return oldest ? Math.max(1, oldest.seconds) : 0
}

const limitError = (wait: number, code: Code) => new AppError(code, { retry_after_secs: wait })

/** Returns the IPv4 address, or the /64 network of an IPv6 address, because providers assign whole networks to one client. */
export function clientNetwork(ip: string): string {
  const address = ip.replace(/%.*$/, '').toLowerCase()
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(address)?.[1]
  if (mapped) return mapped
  if (!isIPv6(address)) return address
  const [head = '', tail] = address.split('::')
  const groups = (part: string) => (part === '' ? [] : part.split(':'))
  const before = groups(head)
  // An IPv4 address at the end stands for two groups. Only their number matters, since the network has four groups.
  const after = groups(tail ?? '').flatMap((group) => (group.includes('.') ? [group, group] : [group]))
  const zeros = Array<string>(Math.max(0, 8 - before.length - after.length)).fill('0')
  const all = tail === undefined ? before : [...before, ...zeros, ...after]
  return `${all
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`
}
