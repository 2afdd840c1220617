/** The Idempotency-Key header: a request that is sent again does its work once. */
import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import type { Actor } from '../actor.ts'
import { clock, secondsAgo } from '../db/clock.ts'
import type { Trx } from '../db/pool.ts'
import { AppError, invalid } from '../errors.ts'

/** seconds that an answer is kept */
const lifetimeSeconds = 24 * 3600

export interface StoredAnswer<T> {
  status: number
  answer: T
}

/** A request that may come twice. */
export interface IdempotentRequest {
  /** the Idempotency-Key header */
  key: string
  /** of fingerprint() */
  fingerprint: string
}

/** SHA-256 of what a request asks for: two requests with the same one are the same request. The order of an object's keys does not count. */
export const fingerprint = (...parts: readonly unknown[]): string =>
  createHash('sha256').update(JSON.stringify(parts, sortKeys)).digest('hex')

const sortKeys = (_key: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.fromEntries(Object.entries(value).sort()) : value

/**
 * Does `work` and keeps its answer for a day under the caller's key, or returns the answer that is kept. Two at once: the second waits for the
 * first one's transaction. Without `request` it just does `work`. Throws VALIDATION_ERROR for a malformed key, IDEMPOTENCY_KEY_REUSED where the
 * key was used for a request with another fingerprint.
 */
export async function runOnce<T extends object>(
  trx: Trx,
  actor: Actor,
  request: IdempotentRequest | null,
  work: () => Promise<StoredAnswer<T>>,
): Promise<StoredAnswer<T>> {
  if (request === null) return work()
  const { key, fingerprint } = request
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) throw invalid('Idempotency-Key', '1 to 255 visible ASCII characters')
  await deleteExpired(trx)
  const caller = actor.id ?? 'operator'
  const claimed = await trx
    .insertInto('idempotency_keys')
    .values({ caller, key, fingerprint, created_at: clock })
    .onConflict((conflict) =>
      conflict
        .columns(['caller', 'key'])
        .doUpdateSet((eb) => ({ fingerprint: eb.ref('excluded.fingerprint'), status: null, answer: null, created_at: clock }))
        // Old, or from the future: the database clock was set back.
        .where(
          sql<boolean>`idempotency_keys.created_at not between clock_timestamp() - make_interval(secs => ${lifetimeSeconds}) and clock_timestamp()`,
        ),
    )
    .returning('key')
    .executeTakeFirst()
  const mine = trx.updateTable('idempotency_keys').where('caller', '=', caller).where('key', '=', key)
  if (!claimed) {
    const first = await trx
      .selectFrom('idempotency_keys')
      .selectAll()
      .where('caller', '=', caller)
      .where('key', '=', key)
      .executeTakeFirstOrThrow()
    if (first.fingerprint !== fingerprint)
      throw new AppError('IDEMPOTENCY_KEY_REUSED', {}, 'The Idempotency-Key was used for another request within 24 hours: use a new one.')
    return { status: first.status ?? 201, answer: first.answer as T }
  }
  const done = await work()
  await mine.set({ status: done.status, answer: JSON.stringify(done.answer) }).execute()
  return done
}

/** Deletes old keys; skips those that somebody else is deleting, since two who wait for each other in different orders would never end. */
const deleteExpired = (trx: Trx) =>
  sql`delete from idempotency_keys where (caller, key) in
    (select caller, key from idempotency_keys where created_at < ${secondsAgo(lifetimeSeconds)} limit 1000 for update skip locked)`.execute(
    trx,
  )
