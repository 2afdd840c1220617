/** Notifications of owners about the results of OCR. */
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import type { JobProblem } from '../jobs/queue.ts'
import { notify } from '../notifications/notifications.ts'

interface OwnedDocument {
  id: string
  owner_id: string
  filename: string
}

/** Notifies the owner that the text of documents is complete. `documents`: all of one owner; the last one is named. */
export async function notifyCompleted(app: App, trx: Trx, documents: readonly OwnedDocument[]): Promise<void> {
  const last = documents.at(-1)
  if (!last) return
  await notify(app, trx, last.owner_id, 'ocr_completed', {
    title: 'OCR completed',
    message: `${last.filename} has been read.`,
    batchMessage: (count) => `${count} documents have been read; the last one is ${last.filename}.`,
    count: documents.length,
    data: { document_id: last.id },
  })
}

/** Notifies the owner that a document could not be read. */
export async function notifyFailed(app: App, trx: Trx, { id, owner_id, filename }: OwnedDocument, problem: JobProblem): Promise<void> {
  const message = `${filename} could not be read: ${problem.message}`
  await notify(app, trx, owner_id, 'ocr_failed', {
    title: 'OCR failed',
    message,
    batchMessage: (count) => `${count} documents could not be read. The last one: ${message}`,
    data: { document_id: id, code: problem.code },
  })
}
