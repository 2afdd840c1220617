/** Documents that nobody is going to read, as after a crash or a restore, although they say that somebody will. */
import { sql } from 'kysely'
import type { App } from '../app.ts'
import type { Db } from '../db/pool.ts'
import * as reading from '../documents/extraction-result.ts'
import * as claims from '../jobs/leases.ts'
import * as jobs from '../jobs/queue.ts'

export interface Stranded {
  id: string
  status: 'pending' | 'processing'
  language: string
  ocr_enabled: boolean
}

/** Documents that wait to be read, or are said to be read, while no job lives that would do it; at most `most`, or this one. */
export async function stranded(db: Db, most: number, id: string | null = null): Promise<Stranded[]> {
  const { rows } = await sql<Stranded>`
    select id, status, language, ocr_enabled from documents d
    where status in ('pending', 'processing') and (${id}::uuid is null or id = ${id}::uuid) and not exists (
      select from jobs where document_id = d.id and kind in ('ocr', 'extract') and status in ('pending', 'processing'))
    order by id limit ${most}`.execute(db)
  return rows
}

/** Gives such a document a job; its id, or null where it has one by now. */
export const queueStranded = (app: App, id: string): Promise<string | null> =>
  app.db.transaction().execute(async (trx) => {
    await claims.lockDocument(trx, { document_id: id })
    const [document] = await stranded(trx, 1, id)
    if (!document) return null
    const { status, language, ocr_enabled } = document
    if (status === 'processing') await reading.resetToPending(app, trx, id)
    const options = { documentId: id, maxAttempts: app.config.ocr.max_attempts }
    return jobs.enqueue(trx, ocr_enabled ? 'ocr' : 'extract', { language }, options)
  })

export interface Recovered {
  document_id: string
  job_id: string
}

/** Of one call: the caller asks again until nothing is left. */
const most = 1000

/** Gives every such document a job, and lets the jobs of workers that fell silent long ago wait again. */
export async function recover(app: App): Promise<Recovered[]> {
  const recovered: Recovered[] = []
  for (const { id } of await stranded(app.db, most)) {
    const job_id = await queueStranded(app, id)
    if (job_id !== null) recovered.push({ document_id: id, job_id })
  }
  for (const job of await claims.loadAbandoned(app.db, most)) {
    const { id, kind, document_id } = job
    if (document_id === null || (kind !== 'ocr' && kind !== 'extract')) continue
    if (await claims.requeue(app.db, job)) recovered.push({ document_id, job_id: id })
  }
  return recovered
}
