/** Removal of stored bytes in two phases: rows first, in a transaction of their own; files only after its commit. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { isFileRemovalLocked } from '../db/lock.ts'
import type { Trx } from '../db/pool.ts'
import { addressPattern, sha256Of } from '../ports/file-store.ts'
import { lockExisting, lockStored, placeholderAddress, usesOf, writeRemoval } from './stored-files.ts'

/**
 * Phase one for bytes that no document has: the row goes, and a removal is written down. False where a document has them, or where there is no row.
 * From the commit on, an upload of the same bytes gets a row and an address of its own.
 */
export async function forgetUnused(trx: Trx, sha256: string): Promise<boolean> {
  const address = await lockExisting(trx, sha256)
  if (address === undefined || (await usesOf(trx, [address])).get(address) !== 'row') return false
  await trx.deleteFrom('stored_files').where('sha256', '=', sha256).execute()
  await writeRemoval(trx, address)
  return true
}

/**
 * Phase one for a file whose upload failed after the bytes had got their name. An upload whose COMMIT is still under way holds the row, so that this
 * waits for it. False where the upload was committed after all, or where the text is no address.
 */
export async function forgetUncommitted(trx: Trx, address: string): Promise<boolean> {
  if (!addressPattern.test(address)) return false
  const sha256 = sha256Of(address)
  const placeholder = placeholderAddress(sha256)
  const found = await lockStored(trx, { sha256, size: 0, address: placeholder })
  if (found === placeholder) await trx.deleteFrom('stored_files').where('sha256', '=', sha256).execute()
  if (found === address) return false
  await writeRemoval(trx, address)
  return true
}

/** Removals of one round. */
const batch = 500

/**
 * Phase two: removes files whose removal was committed, of one SHA-256 or all. Returns how many were removed, and whether some are left because a backup is
 * running. A backup that begins after the removal was committed does not name the file any more; one that began before holds the lock. Whoever has
 * once seen the lock free after the commit may therefore remove the file at any later time, with or without a connection.
 */
export async function removeFiles(app: App, sha256?: string): Promise<{ removed: number; isWaiting: boolean }> {
  let removed = 0
  for (;;) {
    const addresses = await removable(app, sha256)
    if (addresses === null) return { removed, isWaiting: true }
    for (const address of addresses) {
      await app.files.remove(address)
      await app.db.deleteFrom('file_removals').where('address', '=', address).execute()
      await removeDerived(app, address)
      removed++
    }
    if (addresses.length < batch) return { removed, isWaiting: false }
  }
}

/** Addresses that may be removed now, at most a batch; null while a backup needs them. A row of stored files outdoes a removal, whoever wrote that. */
async function removable(app: App, sha256: string | undefined): Promise<string[] | null> {
  const wanted = sha256 === undefined ? sql`true` : sql`left(address, 64) = ${sha256}`
  const any = await sql`select from file_removals where ${wanted} limit 1`.execute(app.db)
  if (any.rows.length === 0) return []
  return app.db.transaction().execute(async (trx) => {
    if (await isFileRemovalLocked(trx)) return null
    await sql`delete from file_removals where ${wanted} and exists (select from stored_files file where file.address = file_removals.address)`.execute(
      trx,
    )
    const { rows } = await sql<{
      address: string
    }>`select address from file_removals where ${wanted} order by address limit ${batch}`.execute(trx)
    return rows.map(({ address }) => address)
  })
}

/** Pictures of bytes that nobody has any more. They can be made again, should an upload of the same bytes come between. */
async function removeDerived(app: App, address: string): Promise<void> {
  const sha256 = sha256Of(address)
  const row = await app.db.selectFrom('stored_files').select('sha256').where('sha256', '=', sha256).executeTakeFirst()
  if (!row) await app.files.removeDerived(sha256)
}
