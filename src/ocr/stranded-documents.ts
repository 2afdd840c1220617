/** Documents in status `pending` or `processing` without a job, as after a crash or a restore. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Db } from '../db/pool.ts'
import * as extraction from '../documents/extraction/result.ts'
import * as leases from '../jobs/leases.ts'
import * as jobs from '../jobs/queue.ts'

interface StrandedDocument {
  id: string
  status: 'pending' | 'processing'
  language: string
  ocr_enabled: boolean
}

/** Maximum number of documents, and of jobs, that one call of recover() handles. */
const maxRecovered = 1000

/** Returns at most `limit` stranded documents, or the one with this id if it is stranded. */
export async function listStranded(db: Db, limit: number, id: string | null = null): Promise<StrandedDocument[]> {
  const { rows } = await sql<StrandedDocument>`
    select id, status, language, ocr_enabled from documents d
    where status in ('pending', 'processing') and (${id}::uuid is null or id = ${id}::uuid) and not exists (
      select from jobs where document_id = d.id and kind in ('ocr', 'extract') and status in ('pending', 'processing'))
    order by id limit ${limit}`.execute(db)
  return rows
}

/** Enqueues a job for a stranded document. Returns the id of the job, null if the document has a job by now. */
export const queueStranded = (app: App, id: string): Promise<string | null> =>
  app.db.transaction().execute(async (trx) => {
    await leases.lockDocument(trx, { document_id: id })
    const [document] = await listStranded(trx, 1, id)
    if (!document) return null
    const { status, language, ocr_enabled } = document
    if (status === 'processing') await extraction.resetToPending(app, trx, id)
    const options = { documentId: id, maxAttempts: app.config.ocr.max_attempts }
    return jobs.enqueue(trx, ocr_enabled ? 'ocr' : 'extract', { language }, options)
  })

/** Enqueues jobs for stranded documents and requeues abandoned jobs. The caller repeats it until nothing is returned. */
export async function recover(app: App): Promise<{ document_id: string; job_id: string }[]> {
  const recovered: { document_id: string; job_id: string }[] = []
  for (const { id } of await listStranded(app.db, maxRecovered)) {
    const job_id = await queueStranded(app, id)
    if (job_id !== null) recovered.push({ document_id: id, job_id })
  }
  for (const job of await leases.loadAbandoned(app.db, maxRecovered)) {
    const { id, kind, document_id } = job
    if (document_id === null || (kind !== 'ocr' && kind !== 'extract')) continue
    if (await leases.requeue(app.db, job)) recovered.push({ document_id, job_id: id })
  }
  return recovered
}
