/** Replacement of a document's file. Id, title, labels, comments and shared links stay. */
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import { publish } from '../events.ts'
import { detectType } from '../extract/detect.ts'
import * as jobs from '../jobs/queue.ts'
import type { StagedFile } from '../ports/file-store.ts'
import { ensureBytes, lockOrCreate } from './stored-files.ts'
import { writeVersion } from './versions.ts'

export interface Replacement {
  staged: StagedFile
  ocr: boolean
  language: string
}

/**
 * Replaces the file of a document with staged bytes, deletes its text and pages, and queues the extraction of the new ones. Call
 * `staged.confirm()` after the commit, as for storeDocument(). Returns false if the document does not exist.
 */
export async function replaceFile(app: App, trx: Trx, id: string, { staged, ocr, language }: Replacement): Promise<boolean> {
  const document = await trx
    .selectFrom('documents')
    .select(['owner_id', 'filename', 'sha256'])
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
  if (!document) return false
  await jobs.cancelByDocument(trx, id)
  const address = await lockOrCreate(trx, staged)
  const ownDuplicate = await trx
    .selectFrom('documents')
    .select('id')
    .where('sha256', '=', staged.sha256)
    .where('owner_id', '=', document.owner_id)
    .limit(1)
    .executeTakeFirst()
  await ensureBytes(app, trx, staged, address, ownDuplicate !== undefined)
  await trx.deleteFrom('document_pages').where('document_id', '=', id).execute()
  await writeVersion(app, trx, id, {
    sha256: staged.sha256,
    file_replaced_at: app.now(),
    size: staged.size,
    mime_type: await detectType(staged.head, document.filename, staged.size),
    status: 'pending',
    content: '',
    ocr_confidence: null,
    page_count: null,
    error_code: null,
    error_message: null,
    processed_at: null,
    duplicate_of: null,
    ocr_enabled: ocr,
    language,
  })
  await jobs.enqueue(trx, ocr ? 'ocr' : 'extract', { language }, { documentId: id, maxAttempts: app.config.ocr.max_attempts })
  await jobs.enqueue(trx, 'purge', { sha256: document.sha256 }, { dedupeKey: `purge:${document.sha256}` })
  await publish(trx, 'document_updated', document.owner_id, { document_id: id, changes: ['file', 'content', 'status'] })
  return true
}
