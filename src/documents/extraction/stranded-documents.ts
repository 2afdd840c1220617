/** Documents in status `pending` or `processing` without a job. A crash or a restore can leave them. */
import { sql } from 'kysely'
import type { App } from '../../app.ts'
import type { Db, Trx } from '../../db/pool.ts'
import * as leases from '../../jobs/leases.ts'
import * as jobs from '../../jobs/queue.ts'
import * as extraction from './result.ts'

interface StrandedDocument {
  id: string
  status: 'pending' | 'processing'
  language: string
  ocr_enabled: boolean
}

/** Maximum number of documents, and of jobs, that one call of recover() handles. */
const maxRecovered = 1000

/** Returns at most `limit` stranded documents, among all or among the given ids. Leaves out documents in the trash. */
export async function listStranded(db: Db, limit: number, ids: readonly string[] | null = null): Promise<StrandedDocument[]> {
  const { rows } = await sql<StrandedDocument>`
    select id, status, language, ocr_enabled from live_documents d
    where status in ('pending', 'processing') and (${ids}::uuid[] is null or id = any(${ids}::uuid[])) and not exists (
      select from jobs where document_id = d.id and kind in ('ocr', 'extract') and status in ('pending', 'processing'))
    order by id limit ${limit}`.execute(db)
  return rows
}

/** Enqueues jobs for the stranded ones of some documents. The caller has locked the documents. Returns the ids of the jobs. */
export async function queueStranded(app: App, trx: Trx, ids: readonly string[]): Promise<string[]> {
  const documents = await listStranded(trx, ids.length, ids)
  for (const { id, status } of documents) if (status === 'processing') await extraction.resetToPending(app, trx, id)
  const newJobs = documents.map(({ id, language, ocr_enabled }) => {
    const kind = ocr_enabled ? ('ocr' as const) : ('extract' as const)
    return { kind, payload: { language }, documentId: id, maxAttempts: app.config.ocr.max_attempts }
  })
  return jobs.enqueueAll(trx, newJobs)
}

/** Enqueues a job for a stranded document. Returns the id of the job, null if the document has a job by now. */
export const requeueDocument = (app: App, id: string): Promise<string | null> =>
  app.db.transaction().execute(async (trx) => {
    await leases.lockDocument(trx, { document_id: id })
    const [job = null] = await queueStranded(app, trx, [id])
    return job
  })

/** Enqueues jobs for stranded documents and requeues abandoned jobs. The caller repeats it until nothing is returned. */
export async function recover(app: App): Promise<{ document_id: string; job_id: string }[]> {
  const recovered: { document_id: string; job_id: string }[] = []
  for (const { id } of await listStranded(app.db, maxRecovered)) {
    const job_id = await requeueDocument(app, id)
    if (job_id !== null) recovered.push({ document_id: id, job_id })
  }
  for (const job of await leases.loadAbandoned(app.db, maxRecovered)) {
    const { id, kind, document_id } = job
    if (document_id === null || (kind !== 'ocr' && kind !== 'extract')) continue
    if (await leases.requeue(app.db, job)) recovered.push({ document_id, job_id: id })
  }
  return recovered
}
