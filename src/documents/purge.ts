/** Purge of stored files without a document: by job after a deletion, after failed uploads, and on request for all of them. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Handler } from '../jobs/queue.ts'
import * as jobs from '../jobs/queue.ts'
import { sha256Of } from '../ports/file-store.ts'
import { releaseUncommitted, releaseUnused, removeFiles } from './file-removals.ts'
import { usesOf } from './stored-files.ts'

/** Rows read by one query. */
const batchSize = 500

/** Delay before the next attempt to remove a file that a running backup needs. */
const retryMs = 60_000

/** Removes the stored bytes of a SHA-256 that no document has. */
export const purgeHandler: Handler<'purge'> = {
  async run(app, { payload: { sha256, address } }) {
    await app.db.transaction().execute((trx) => (address === undefined ? releaseUnused(trx, sha256) : releaseUncommitted(trx, address)))
    const { isWaiting } = await removeFiles(app, sha256)
    if (!isWaiting) return undefined
    return async (trx) => {
      const runAt = new Date(app.now().getTime() + retryMs)
      await jobs.enqueue(trx, 'purge', { sha256 }, { dedupeKey: `purge:${sha256}`, runAt })
    }
  },
}

/** Queues a purge job for every file whose upload failed or was aborted. The job keeps files that are in use. */
export async function purgeUncommitted(app: App): Promise<void> {
  for (const { address, remove } of await app.files.listUncommitted()) {
    const payload = { sha256: sha256Of(address), address }
    await app.db.transaction().execute((trx) => jobs.enqueue(trx, 'purge', payload, { dedupeKey: `purge:${address}` }))
    await remove()
  }
}

/** Removes all stored files without a document, except those that a running backup needs. Returns their number. `isDry` only counts them. */
export async function purgeOrphans(app: App, isDry: boolean): Promise<number> {
  let found = 0
  for (let last = ''; ; ) {
    const { rows } = await sql<{ sha256: string }>`
      select sha256 from stored_files file where sha256 > ${last} and not exists (select from documents where documents.sha256 = file.sha256)
      order by sha256 limit ${batchSize}`.execute(app.db)
    found += rows.length
    if (!isDry) for (const { sha256 } of rows) await app.db.transaction().execute((trx) => releaseUnused(trx, sha256))
    if (rows.length < batchSize) break
    last = rows.at(-1)?.sha256 ?? ''
  }
  // Files of aborted uploads have no row.
  for (const { address, remove } of await app.files.listUncommitted()) {
    if ((await usesOf(app.db, [address])).get(address) === 'none') found++
    if (isDry) continue
    await app.db.transaction().execute((trx) => releaseUncommitted(trx, address))
    await remove()
  }
  if (isDry) return found + (await countRequested(app))
  return (await removeFiles(app)).removed
}

/** Returns the number of removals that were requested and not done yet. */
async function countRequested({ db }: App): Promise<number> {
  const { count } = await db
    .selectFrom('file_removals')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return count
}
