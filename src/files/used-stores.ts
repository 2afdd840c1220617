/** Records which document stores may have files. A recorded store that is not mounted or not configured is never taken for empty. */
import type { Db } from '../db/pool.ts'
import type { StoreKind } from '../ports/file-store.ts'

/** The other kind of store, by kind. */
export const otherKind = { disk: 's3', s3: 'disk' } as const satisfies Record<StoreKind, StoreKind>

const keyPrefix = 'store_used:'
const keyOf = (kind: StoreKind): string => `${keyPrefix}${kind}`

/** Returns whether a store may have files. */
export const isUsed = async (db: Db, kind: StoreKind): Promise<boolean> =>
  (await db.selectFrom('instance').select('key').where('key', '=', keyOf(kind)).executeTakeFirst()) !== undefined

/** Records that a store receives files from now on. */
export async function recordUse(db: Db, kind: StoreKind): Promise<void> {
  if (await isUsed(db, kind)) return
  const row = { key: keyOf(kind), value: 'used' }
  await db
    .insertInto('instance')
    .values(row)
    .onConflict((conflict) => conflict.doNothing())
    .execute()
}

/** Records that a store has no files any more. */
export async function forgetUse(db: Db, kind: StoreKind): Promise<void> {
  await db.deleteFrom('instance').where('key', '=', keyOf(kind)).execute()
}

/** Forgets all stores: a restored archive has its files in a new store. */
export async function forgetAllUse(db: Db): Promise<void> {
  await db.deleteFrom('instance').where('key', 'like', `${keyPrefix}%`).execute()
}
