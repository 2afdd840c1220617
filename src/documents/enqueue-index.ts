/** The search index follows what happens to documents. */
import type { Trx } from '../db/pool.ts'
import * as jobs from '../jobs/queue.ts'

/** Documents that one statement is for. */
const together = 500

/** Has the index follow documents, in the order of their ids: two of these at once must not wait for each other. */
export async function reindexAll(trx: Trx, ids: readonly string[]): Promise<void> {
  const sorted = ids.toSorted()
  for (let from = 0; from < sorted.length; from += together) {
    const some = sorted.slice(from, from + together)
    await jobs.enqueueMany(
      trx,
      'index',
      some.map((id) => ({ payload: { document_id: id }, dedupe: `index:${id}` })),
    )
  }
}
