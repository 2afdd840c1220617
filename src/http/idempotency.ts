/** Idempotency-Key header: a repeated request does its work once. */
import { hash } from 'node:crypto'
import { sql } from 'kysely'
import type { Actor } from '../actor.ts'
import { clock, secondsAgo } from '../db/clock.ts'
import type { Db, Trx } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import { AppError, invalid } from '../errors.ts'

/** Time for which answers are stored. */
const lifetimeSeconds = 24 * 3600

export interface StoredAnswer<T> {
  status: number
  answer: T
}

/** A request with an Idempotency-Key. */
export interface IdempotentRequest {
  /** Value of the Idempotency-Key header. */
  key: string
  /** Result of fingerprint(). */
  fingerprint: string
}

/** Returns the SHA-256 of the parts of a request. Equal requests have equal fingerprints, in any order of object keys. */
export const fingerprint = (...parts: readonly unknown[]): string => hash('sha256', JSON.stringify(parts, sortKeys))

const sortKeys = (_key: string, value: unknown): unknown =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? Object.fromEntries(Object.entries(value).sort()) : value

/**
 * Returns the answer stored under the caller's key, or runs `work` and stores its answer for a day. Of two requests at once, the second waits
 * for the transaction of the first. Without `request`, only runs `work`. Throws VALIDATION_ERROR for a malformed key and IDEMPOTENCY_KEY_REUSED
 * for a key of another request.
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
  const caller = callerOf(actor)
  const claimed = await trx
    .insertInto('idempotency_keys')
    .values({ caller, key, fingerprint, created_at: clock })
    .onConflict((conflict) =>
      conflict
        .columns(['caller', 'key'])
        .doUpdateSet((eb) => ({ fingerprint: eb.ref('excluded.fingerprint'), status: null, answer: null, created_at: clock }))
        .where(sql<boolean>`not ${isKept}`),
    )
    .returning('key')
    .executeTakeFirst()
  if (!claimed) return repeat<T>(await selectKey(trx, actor, key).executeTakeFirstOrThrow(), request)
  const result = await work()
  // Stored as a JSON string, which keeps the order of the keys. PostgreSQL sorts the keys of an object.
  const values = { status: result.status, answer: JSON.stringify(JSON.stringify(result.answer)) }
  await trx.updateTable('idempotency_keys').set(values).where('caller', '=', caller).where('key', '=', key).execute()
  return result
}

/**
 * Returns the answer stored under the caller's key; undefined for none. Also answers a request that could not be repeated, because its labels or
 * its owner are gone. Throws IDEMPOTENCY_KEY_REUSED.
 */
export async function findAnswer<T extends object>(
  db: Db,
  actor: Actor,
  request: IdempotentRequest | null,
): Promise<StoredAnswer<T> | undefined> {
  if (request === null) return undefined
  const first = await selectKey(db, actor, request.key).where(sql<boolean>`${isKept}`).executeTakeFirst()
  return first && repeat<T>(first, request)
}

const selectKey = (db: Db, actor: Actor, key: string) =>
  db.selectFrom('idempotency_keys').selectAll().where('caller', '=', callerOf(actor)).where('key', '=', key)

const callerOf = (actor: Actor): string => actor.id ?? 'operator'

/** Whether the key is still valid. A key from the future is not: the database clock was set back. */
const isKept = sql`idempotency_keys.created_at between clock_timestamp() - make_interval(secs => ${lifetimeSeconds}) and clock_timestamp()`

function repeat<T>(first: Row<'idempotency_keys'>, { fingerprint }: IdempotentRequest): StoredAnswer<T> {
  if (first.fingerprint !== fingerprint)
    throw new AppError('IDEMPOTENCY_KEY_REUSED', {}, 'The Idempotency-Key was used for another request within 24 hours. Use a new key.')
  // Releases before 1.0.0 stored objects.
  const answer = typeof first.answer === 'string' ? JSON.parse(first.answer) : first.answer
  return { status: first.status ?? 201, answer: answer as T }
}

/** Deletes expired keys. Skips locked ones: two transactions that lock them in different orders would deadlock. */
export const deleteExpired = (trx: Db) =>
  sql`delete from idempotency_keys where (caller, key) in
    (select caller, key from idempotency_keys where created_at < ${secondsAgo(lifetimeSeconds)} limit 1000 for update skip locked)`.execute(
    trx,
  )
