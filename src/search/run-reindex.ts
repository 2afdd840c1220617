/** The job that makes the index whole where it is not, as after a restore, or anew where that was asked for. */
import { Busy } from '../db/lock.ts'
import type { Handler } from '../jobs.ts'
import { enqueueReindex } from './reindex.ts'
import * as search from './search.ts'

/** Milliseconds until it is looked again whether somebody else has done it. */
const pause = 60_000

export const reindex: Handler<'reindex'> = {
  async run(app, { payload: { anew = false } }, signal) {
    try {
      await search.reindex(app, { ifNeeded: !anew, signal })
      return undefined
    } catch (error) {
      if (!(error instanceof Busy)) throw error
      const runAt = new Date(app.now().getTime() + pause)
      return async (trx) => {
        await enqueueReindex(trx, { anew }, runAt)
      }
    }
  },
}
