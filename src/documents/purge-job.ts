/** The job that removes stored bytes which no document has any more. */
import type { Handler } from '../jobs/queue.ts'
import * as jobs from '../jobs/queue.ts'
import { forgetUncommitted, forgetUnused, removeFiles } from './file-removals.ts'

/** Milliseconds until the next look at whether a backup still needs the bytes. */
const retryMs = 60_000

export const purge: Handler<'purge'> = {
  async run(app, { payload: { sha256, address } }) {
    await app.db.transaction().execute((trx) => (address === undefined ? forgetUnused(trx, sha256) : forgetUncommitted(trx, address)))
    const { isWaiting } = await removeFiles(app, sha256)
    if (!isWaiting) return undefined
    return async (trx) => {
      const runAt = new Date(app.now().getTime() + retryMs)
      await jobs.enqueue(trx, 'purge', { sha256 }, { dedupeKey: `purge:${sha256}`, runAt })
    }
  },
}
