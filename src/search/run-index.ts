/** The index job: one document, as it is when the job runs. */
import type { Handler } from '../jobs.ts'
import { follow } from './reindex.ts'

export const index: Handler<'index'> = {
  async run(app, job) {
    await follow(app, job.payload.document_id)
    return undefined
  },
}
