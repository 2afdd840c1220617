/** The job that makes the index whole where it is not, as after a restore. */
import { Busy } from '../db/lock.ts'
import type { Handler } from '../jobs.ts'
import * as jobs from '../jobs.ts'
import * as search from './search.ts'

/** Milliseconds until it is looked again whether somebody else has done it. */
const pause = 60_000

export const reindex: Handler<'reindex'> = {
  async run(app, _job, signal) {
    try {
      await search.reindex(app, { ifNeeded: true, signal })
      return undefined
    } catch (error) {
      if (!(error instanceof Busy)) throw error
      const runAt = new Date(app.now().getTime() + pause)
      return async (trx) => {
        await jobs.enqueue(trx, 'reindex', {}, { dedupe: 'reindex', runAt })
      }
    }
  },
}
