/** The index job: one document, as it is when the job runs. */
import type { Handler } from '../jobs.ts'

export const index: Handler<'index'> = {
  async run(app, job) {
    await app.search.refresh([job.payload.document_id])
    return undefined
  },
}
