import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import * as reading from '../documents/extraction-result.ts'
import type { Job, JobProblem } from '../jobs/queue.ts'
import { notify } from '../notifications/notifications.ts'

/** Notifies the owner of how OCR of a document ended, for good; `problem` null: well. Reading without OCR is nobody's news. */
export async function tellOwner(app: App, trx: Trx, job: Job, problem: JobProblem | null): Promise<void> {
  if (job.kind !== 'ocr') return
  const document = await reading.findReadable(trx, job.document_id ?? '')
  if (!document) return
  const { id, owner_id, filename } = document
  const data = { document_id: id }
  if (problem === null)
    return notify(app, trx, owner_id, 'ocr_completed', { title: 'OCR completed', message: `${filename} has been read.`, data })
  const message = `${filename} could not be read: ${problem.message}`
  return notify(app, trx, owner_id, 'ocr_failed', { title: 'OCR failed', message, data: { ...data, code: problem.code } })
}
