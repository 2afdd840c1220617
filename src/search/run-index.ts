/** The index job: one document, and those that wait, as they are when the job runs. */
import { AppError } from '../errors.ts'
import type { Handler } from '../jobs.ts'
import { finishRiders, riders } from '../riders.ts'
import { follow } from './reindex.ts'

/** Documents that are done with one; the others of the queue wait for so long. */
const most = 100

export const index: Handler<'index'> = {
  async run(app, job) {
    const { document_id } = job.payload
    const others = await riders(app.db, job, most)
    try {
      await follow(app, [document_id, ...others.map(({ payload }) => payload.document_id)])
    } catch (error) {
      // What is wrong with another is no reason not to do this one.
      if (others.length === 0 || error instanceof AppError) throw error
      await follow(app, [document_id])
      return undefined
    }
    return others.length === 0 ? undefined : (trx) => finishRiders(trx, others)
  },
}
