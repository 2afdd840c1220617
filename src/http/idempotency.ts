/** The Idempotency-Key header: a request that is sent again does its work once. */
import { sql } from 'kysely'
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import type { Trx } from '../db/db.ts'
import { invalid } from '../errors.ts'

const day = 24 * 3600 * 1000

export interface Done<T> {
  status: number
  answer: T
}

/**
 * Does `work` and keeps its answer for a day under the caller's key, or gives back the answer that is kept. Two at once: the second waits for
 * the first one's transaction. Without a key it just does `work`. Throws VALIDATION_ERROR for a malformed key.
 */
export async function once<T extends object>(
  app: App,
  trx: Trx,
  actor: Actor,
  key: string | null,
  work: () => Promise<Done<T>>,
): Promise<Done<T>> {
  if (key === null) return work()
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) throw invalid('Idempotency-Key', '1 to 255 visible ASCII characters')
  await forget(trx, new Date(app.now().getTime() - day))
  const caller = actor.id ?? 'operator'
  const claimed = await trx
    .insertInto('idempotency_keys')
    .values({ caller, key, created_at: app.now() })
    .onConflict((conflict) => conflict.doNothing())
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
    return { status: first.status ?? 201, answer: first.answer as T }
  }
  const done = await work()
  await mine.set({ status: done.status, answer: JSON.stringify(done.answer) }).execute()
  return done
}

/** Removes old keys; skips those that somebody else is removing, since two who wait for each other in different orders would never end. */
const forget = (trx: Trx, before: Date) =>
  sql`delete from idempotency_keys where (caller, key) in
    (select caller, key from idempotency_keys where created_at < ${before} limit 1000 for update skip locked)`.execute(trx)
