/** Stored bytes that no document has, and that no worker has come to remove. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import { purgeStored } from './run-purge.ts'

const batch = 500

/** Removes them, but for those that a backup still needs; how many. `isDry`: only counts them. */
export async function purgeOrphans(app: App, isDry: boolean): Promise<number> {
  let removed = 0
  const purge = async (sha256: string): Promise<boolean> => {
    const outcome = isDry ? 'removed' : await app.db.transaction().execute((trx) => purgeStored(app, trx, sha256))
    if (outcome === 'removed') removed++
    return outcome !== 'needed'
  }
  for (let last = ''; ; ) {
    const { rows } = await sql<{ sha256: string }>`
      select sha256 from stored_files file where sha256 > ${last} and not exists (select from documents where documents.sha256 = file.sha256)
      order by sha256 limit ${batch}`.execute(app.db)
    for (const { sha256 } of rows) await purge(sha256)
    if (rows.length < batch) break
    last = rows.at(-1)?.sha256 ?? ''
  }
  // Of uploads that were broken off; the table does not know of them.
  for (const { sha256, remove } of await app.files.unsettled()) {
    const { rows } = await sql`select from stored_files where sha256 = ${sha256}`.execute(app.db)
    if (rows.length === 0 && (await purge(sha256)) && !isDry) await remove()
  }
  return removed
}
