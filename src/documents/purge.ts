/** Purges stored files that no version or rendition uses, in two phases: the rows in one transaction, the files after its commit. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { isFileRemovalLocked } from '../db/lock.ts'
import { isUnavailable, type Trx } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import type { DeletionOptions } from '../db/statements.ts'
import { AppError } from '../errors.ts'
import { countRows } from '../http/pages.ts'
import * as jobs from '../jobs/queue.ts'
import { addressPattern, sha256Of } from '../ports/file-store.ts'
import { slicesOf } from '../slices.ts'
import { isReferenced, lockExisting, lockOrCreate, placeholderAddress, requestRemoval, usesOf } from './stored-files.ts'

/** Rows read or written by one statement. */
const batchSize = 500

/** Delay before the next attempt to remove a file that a running backup needs. */
const retryMs = 60_000

/** Removes the stored bytes of a SHA-256 that nothing refers to. */
export const purgeHandler: jobs.Handler<'purge'> = {
  async run(app, { payload: { sha256, address } }) {
    await app.db.transaction().execute((trx) => (address === undefined ? releaseUnused(trx, sha256) : releaseUncommitted(trx, address)))
    const { isWaiting } = await removeFiles(app, { sha256 })
    if (!isWaiting) return undefined
    return async (trx) => {
      await jobs.enqueue(trx, 'purge', { sha256 }, { dedupeKey: `purge:${sha256}`, delayMs: retryMs })
    }
  },
}

/** Queues jobs that remove unreferenced stored bytes. Sorts them by checksum, which prevents deadlocks between transactions. */
export async function enqueuePurge(trx: Trx, sums: readonly string[]): Promise<void> {
  const distinct = [...new Set(sums)].sort()
  for (const some of slicesOf(distinct, batchSize))
    await jobs.enqueueAll(
      trx,
      some.map((sha256) => ({ kind: 'purge', payload: { sha256 }, dedupeKey: `purge:${sha256}` })),
    )
}

type VersionKey = Pick<Row<'document_versions'>, 'document_id' | 'number'>

/** Deletes versions, and queues the removal of their bytes and renditions. */
export async function deleteVersions(trx: Trx, versions: readonly (VersionKey & { sha256: string })[]): Promise<void> {
  const sums = await renditionSums(trx, versions)
  await sql`delete from document_versions where (document_id, number) in (${selectKeys(versions)})`.execute(trx)
  await enqueuePurge(trx, [...versions.map(({ sha256 }) => sha256), ...sums])
}

/** Returns the checksums of the renditions of versions, before these are deleted. */
export async function renditionSums(trx: Trx, versions: readonly VersionKey[]): Promise<string[]> {
  const { rows } = await sql<{ sha256: string }>`
    select sha256 from renditions where sha256 is not null and (document_id, number) in (${selectKeys(versions)})`.execute(trx)
  return rows.map(({ sha256 }) => sha256)
}

const selectKeys = (versions: readonly VersionKey[]) => sql`
  select * from unnest(${versions.map(({ document_id }) => document_id)}::uuid[], ${versions.map(({ number }) => number)}::integer[])`

/** Queues a purge job for every file whose upload failed or was aborted. The job keeps files that are in use. */
export async function purgeUncommitted(app: App): Promise<void> {
  for (const { address, remove } of await app.files.listUncommitted()) {
    const payload = { sha256: sha256Of(address), address }
    await app.db.transaction().execute((trx) => jobs.enqueue(trx, 'purge', payload, { dedupeKey: `purge:${address}` }))
    await remove()
  }
}

/** Removes all stored files that no version or rendition uses. Keeps the files that a running backup needs. Returns their number. */
export async function purgeOrphans(app: App, { isDryRun = false, signal }: DeletionOptions = {}): Promise<number> {
  let count = 0
  for (let last = ''; ; ) {
    const { rows } = await sql<{ sha256: string }>`
      select sha256 from stored_files file where sha256 > ${last} and not ${isReferenced}
      order by sha256 limit ${batchSize}`.execute(app.db)
    count += rows.length
    for (const { sha256 } of isDryRun ? [] : rows) {
      if (signal?.aborted) return 0
      await app.db.transaction().execute((trx) => releaseUnused(trx, sha256))
    }
    if (rows.length < batchSize) break
    last = rows.at(-1)?.sha256 ?? ''
  }
  // Files of aborted uploads have no row.
  for (const { address, remove } of await app.files.listUncommitted()) {
    if (signal?.aborted) return 0
    if ((await usesOf(app.db, [address])).get(address) === 'none') count++
    if (isDryRun) continue
    await app.db.transaction().execute((trx) => releaseUncommitted(trx, address))
    await remove()
  }
  if (isDryRun) return count + (await countRows(app.db.selectFrom('file_removals')))
  return (await removeFiles(app, { signal })).removed
}

/**
 * Phase one for bytes without a version: deletes the row and requests the removal. Keeps the bytes of any version, including the trash. After the
 * commit, an upload of the same bytes gets a new row with a new address.
 */
async function releaseUnused(trx: Trx, sha256: string): Promise<void> {
  const { address } = (await lockExisting(trx, sha256)) ?? {}
  if (address === undefined || (await usesOf(trx, [address])).get(address) !== 'row') return
  await trx.deleteFrom('stored_files').where('sha256', '=', sha256).execute()
  await requestRemoval(trx, address)
}

/**
 * Phase one for a file whose upload failed after commit(). Waits for an upload transaction that is still committing and holds the row. Does nothing
 * if the upload was committed or `address` is malformed.
 */
async function releaseUncommitted(trx: Trx, address: string): Promise<void> {
  if (!addressPattern.test(address)) return
  const sha256 = sha256Of(address)
  const placeholder = placeholderAddress(sha256)
  const current = await lockOrCreate(trx, { sha256, size: 0, address: placeholder })
  if (current === placeholder) await trx.deleteFrom('stored_files').where('sha256', '=', sha256).execute()
  if (current !== address) await requestRemoval(trx, address)
}

/**
 * Phase two: removes files whose removal request was committed, of one SHA-256 or all. Returns the number of removed files; `isWaiting` is true if a
 * running backup needs the rest. A backup that starts after the commit does not reference the file. An earlier backup holds the lock. A file may
 * therefore be removed as soon as the lock was free once. Throws the error of a file that cannot be removed after it has removed the others.
 */
async function removeFiles(
  app: App,
  { sha256, signal }: { sha256?: string; signal?: AbortSignal | undefined },
): Promise<{ removed: number; isWaiting: boolean }> {
  let removed = 0
  let isWaiting = false
  const failures: unknown[] = []
  for (let last = ''; ; ) {
    const addresses = await listRemovable(app, sha256, last)
    isWaiting = addresses === null
    for (const address of addresses ?? []) {
      if (signal?.aborted) return { removed, isWaiting }
      try {
        await app.files.remove(address)
        await removeUnusedDerived(app, sha256Of(address))
        // Last: after a crash or an outage nothing else leads to the files.
        await app.db.deleteFrom('file_removals').where('address', '=', address).execute()
        removed++
      } catch (error) {
        // In an outage the others would fail too.
        if (error instanceof AppError || isUnavailable(error)) throw error
        failures.push(error)
      }
    }
    if (addresses === null || addresses.length < batchSize) break
    last = addresses.at(-1) ?? ''
  }
  if (failures.length > 0) throw failures[0]
  return { removed, isWaiting }
}

/** Returns one batch of removable addresses after `last`, null while a backup runs. Drops requests for addresses that are in use again. */
async function listRemovable(app: App, sha256: string | undefined, last: string): Promise<string[] | null> {
  const matches = sha256 === undefined ? sql`true` : sql`left(address, 64) = ${sha256}`
  const requested = await sql`select from file_removals where ${matches} limit 1`.execute(app.db)
  if (requested.rows.length === 0) return []
  return app.db.transaction().execute(async (trx) => {
    if (await isFileRemovalLocked(trx)) return null
    await sql`
      delete from file_removals where ${matches} and exists (select from stored_files file where file.address = file_removals.address)`.execute(
      trx,
    )
    const { rows } = await sql<{ address: string }>`
      select address from file_removals where ${matches} and address > ${last} order by address limit ${batchSize}`.execute(trx)
    return rows.map(({ address }) => address)
  })
}

/** Removes the thumbnails of bytes that no version has. A concurrent upload of the same bytes only has to create them again. */
export async function removeUnusedDerived(app: App, sha256: string): Promise<void> {
  const row = await app.db.selectFrom('stored_files').select('sha256').where('sha256', '=', sha256).executeTakeFirst()
  if (!row) await app.files.removeDerived(sha256)
}
