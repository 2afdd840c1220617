/** Stored bytes that no document has, and that no worker has come to remove. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { forgetUncommitted, forgetUnused, removeFiles } from './file-removals.ts'
import { usesOf } from './stored-files.ts'

const batch = 500

/** Removes them, but for those that a running backup needs; how many. `isDry`: only counts them. */
export async function purgeOrphans(app: App, isDry: boolean): Promise<number> {
  let found = 0
  for (let last = ''; ; ) {
    const { rows } = await sql<{ sha256: string }>`
      select sha256 from stored_files file where sha256 > ${last} and not exists (select from documents where documents.sha256 = file.sha256)
      order by sha256 limit ${batch}`.execute(app.db)
    found += rows.length
    if (!isDry) for (const { sha256 } of rows) await app.db.transaction().execute((trx) => forgetUnused(trx, sha256))
    if (rows.length < batch) break
    last = rows.at(-1)?.sha256 ?? ''
  }
  // Of uploads that were broken off; the table does not know of them.
  for (const { address, remove } of await app.files.listUncommitted()) {
    if ((await usesOf(app.db, [address])).get(address) === 'none') found++
    if (isDry) continue
    await app.db.transaction().execute((trx) => forgetUncommitted(trx, address))
    await remove()
  }
  if (isDry) return found + (await requested(app))
  return (await removeFiles(app)).removed
}

/** Removals that were written down and not done yet. */
async function requested({ db }: App): Promise<number> {
  const { count } = await db
    .selectFrom('file_removals')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  return count
}
