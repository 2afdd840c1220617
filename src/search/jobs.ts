/** The jobs of the search index: index changed documents, and rebuild the index. */
import { Busy } from '../db/lock.ts'
import { AppError } from '../errors.ts'
import { deferBatch, finishBatch, loadBatch, retryBatchNow } from '../jobs/batch.ts'
import type { Handler } from '../jobs/queue.ts'
import { SearchFailure } from '../ports/search-engine.ts'
import { enqueueReindex, follow, reindex as runReindex } from './reindex.ts'

/** Documents that are done with one; the others of the queue wait for so long. */
const most = 100
/** As of a job that failed because the engine was out of reach. */
const outOfReach = 'SERVICE_UNAVAILABLE'

export const index: Handler<'index'> = {
  async run(app, job) {
    const { document_id } = job.payload
    const others = await loadBatch(app.db, job, most)
    try {
      await follow(app, [document_id, ...others.map(({ payload }) => payload.document_id)])
    } catch (error) {
      // What is wrong with another is no reason not to do this one.
      if (others.length === 0 || (error instanceof AppError && !(error instanceof SearchFailure))) throw error
      await follow(app, [document_id])
      return (trx) => retryBatchNow(trx, job, outOfReach)
    }
    return async (trx) => {
      await finishBatch(trx, others)
      await retryBatchNow(trx, job, outOfReach)
    }
  },
  async failed(_app, trx, job, { code }) {
    if (code === outOfReach) await deferBatch(trx, job, most)
  },
}

/** Milliseconds until it is looked again whether somebody else has done it. */
const pause = 60_000

export const reindex: Handler<'reindex'> = {
  async run(app, { payload: { anew = false } }, signal) {
    try {
      await runReindex(app, { ifNeeded: !anew, signal })
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
