/** After failed and broken-off uploads: has stored bytes looked at that perhaps no document has. */
import type { App } from '../app.ts'
import * as jobs from '../jobs/queue.ts'
import { sha256Of } from '../ports/file-store.ts'

/** Queues a purge for all of them, which removes only what is not needed. */
export async function settle(app: App): Promise<void> {
  for (const { address, remove } of await app.files.listUncommitted()) {
    const payload = { sha256: sha256Of(address), address }
    await app.db.transaction().execute((trx) => jobs.enqueue(trx, 'purge', payload, { dedupeKey: `purge:${address}` }))
    await remove()
  }
}
