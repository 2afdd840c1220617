/** After failed and broken-off uploads: has stored bytes looked at that perhaps no document has. */
import type { App } from '../app.ts'
import * as jobs from '../jobs.ts'

/** Queues a purge for all of them, which removes only what is not needed. */
export async function settle(app: App): Promise<void> {
  for (const { sha256, remove } of await app.files.unsettled()) {
    await app.db.transaction().execute((trx) => jobs.enqueue(trx, 'purge', { sha256 }, { dedupe: `purge:${sha256}` }))
    await remove()
  }
}
