/** Removal of stored files in two phases: the rows in one transaction, the files after its commit. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { isFileRemovalLocked } from '../db/lock.ts'
import type { Trx } from '../db/pool.ts'
import { addressPattern, sha256Of } from '../ports/file-store.ts'
import { lockExisting, lockOrCreate, placeholderAddress, requestRemoval, usesOf } from './stored-files.ts'

/**
 * Phase one for bytes without a document: deletes the row and requests the removal. Returns false if a document has the bytes or there is
 * no row. After the commit, an upload of the same bytes gets a new row with a new address.
 */
export async function releaseUnused(trx: Trx, sha256: string): Promise<boolean> {
  const address = await lockExisting(trx, sha256)
  if (address === undefined || (await usesOf(trx, [address])).get(address) !== 'row') return false
  await trx.deleteFrom('stored_files').where('sha256', '=', sha256).execute()
  await requestRemoval(trx, address)
  return true
}

/**
 * Phase one for a file whose upload failed after commit(). Waits for an upload transaction that is still committing, because that holds the
 * row. Returns false if the upload was committed or `address` is malformed.
 */
export async function releaseUncommitted(trx: Trx, address: string): Promise<boolean> {
  if (!addressPattern.test(address)) return false
  const sha256 = sha256Of(address)
  const placeholder = placeholderAddress(sha256)
  const found = await lockOrCreate(trx, { sha256, size: 0, address: placeholder })
  if (found === placeholder) await trx.deleteFrom('stored_files').where('sha256', '=', sha256).execute()
  if (found === address) return false
  await requestRemoval(trx, address)
  return true
}

/** Removals per batch. */
const batchSize = 500

/**
 * Phase two: removes files whose removal request was committed, of one SHA-256 or all. Returns the number of removed files; `isWaiting` is
 * true if a running backup needs the rest. A backup that starts after the commit does not reference the file. One that started before holds
 * the lock. A file may therefore be removed at any time after the lock was seen free once.
 */
export async function removeFiles(app: App, sha256?: string): Promise<{ removed: number; isWaiting: boolean }> {
  let removed = 0
  for (;;) {
    const addresses = await listRemovable(app, sha256)
    if (addresses === null) return { removed, isWaiting: true }
    for (const address of addresses) {
      await app.files.remove(address)
      await app.db.deleteFrom('file_removals').where('address', '=', address).execute()
      await removeUnusedDerived(app, address)
      removed++
    }
    if (addresses.length < batchSize) return { removed, isWaiting: false }
  }
}

/**
 * Returns at most one batch of removable addresses, null while a backup runs. Deletes requests for addresses that a row of stored files
 * references again.
 */
async function listRemovable(app: App, sha256: string | undefined): Promise<string[] | null> {
  const matches = sha256 === undefined ? sql`true` : sql`left(address, 64) = ${sha256}`
  const any = await sql`select from file_removals where ${matches} limit 1`.execute(app.db)
  if (any.rows.length === 0) return []
  return app.db.transaction().execute(async (trx) => {
    if (await isFileRemovalLocked(trx)) return null
    await sql`delete from file_removals where ${matches} and exists (select from stored_files file where file.address = file_removals.address)`.execute(
      trx,
    )
    const { rows } = await sql<{
      address: string
    }>`select address from file_removals where ${matches} order by address limit ${batchSize}`.execute(trx)
    return rows.map(({ address }) => address)
  })
}

/** Removes the thumbnails of bytes that no document has. A concurrent upload of the same bytes only has to create them again. */
async function removeUnusedDerived(app: App, address: string): Promise<void> {
  const sha256 = sha256Of(address)
  const row = await app.db.selectFrom('stored_files').select('sha256').where('sha256', '=', sha256).executeTakeFirst()
  if (!row) await app.files.removeDerived(sha256)
}
