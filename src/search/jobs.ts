/** The jobs of the search index: index changed documents, and rebuild the index. */
import { Busy } from '../db/lock.ts'
import { AppError } from '../errors.ts'
import { deferBatch, finishBatch, loadBatch, retryBatchNow } from '../jobs/batch.ts'
import type { Handler } from '../jobs/queue.ts'
import { SearchFailure } from '../ports/search-engine.ts'
import { enqueueReindex, indexDocuments, reindex as runReindex } from './reindex.ts'

/** Maximum number of other documents that one job indexes. Other jobs of the queue wait meanwhile. */
const batchSize = 400
/** Error code of jobs that failed because the engine was unavailable. */
const engineUnavailable = 'SERVICE_UNAVAILABLE'

export const index: Handler<'index'> = {
  async run(app, job) {
    const { document_id } = job.payload
    const others = await loadBatch(app.db, job, batchSize)
    try {
      await indexDocuments(app, [document_id, ...others.map(({ payload }) => payload.document_id)])
    } catch (error) {
      // The failure may be about another document of the batch.
      if (others.length === 0 || (error instanceof AppError && !(error instanceof SearchFailure))) throw error
      await indexDocuments(app, [document_id])
      return (trx) => retryBatchNow(trx, job, engineUnavailable)
    }
    return async (trx) => {
      await finishBatch(trx, others)
      await retryBatchNow(trx, job, engineUnavailable)
    }
  },
  async failed(_app, trx, job, { code }) {
    if (code === engineUnavailable) await deferBatch(trx, job, batchSize)
  },
}

/** Delay of the next attempt while another process rebuilds the index. */
const retryMs = 60_000

export const reindex: Handler<'reindex'> = {
  async run(app, { payload: { anew = false } }, signal) {
    try {
      await runReindex(app, { ifNeeded: !anew, signal })
      return undefined
    } catch (error) {
      if (!(error instanceof Busy)) throw error
      return async (trx) => {
        await enqueueReindex(trx, { anew }, retryMs)
      }
    }
  },
}
