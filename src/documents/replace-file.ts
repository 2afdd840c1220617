/** A new version of a document: other bytes, the same id, title, labels, comments and links. */
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import { publish } from '../events.ts'
import { detectType } from '../extract/detect.ts'
import * as jobs from '../jobs/queue.ts'
import type { StagedFile } from '../ports/file-store.ts'
import { touch } from './documents.ts'
import { ensureBytes, lockStored } from './stored-files.ts'

export interface NewVersion {
  staged: StagedFile
  ocr: boolean
  language: string
}

/**
 * Puts staged bytes in the place of those that the document has. Its text and pages were those of the old bytes: they are gone, and the new ones
 * are read. Once the transaction is committed: `staged.keep()`, as after store(). False where the document is gone.
 */
export async function replace(app: App, trx: Trx, id: string, { staged, ocr, language }: NewVersion): Promise<boolean> {
  const document = await trx
    .selectFrom('documents')
    .select(['owner_id', 'filename', 'sha256'])
    .where('id', '=', id)
    .forUpdate()
    .executeTakeFirst()
  if (!document) return false
  await jobs.cancelByDocument(trx, id)
  const address = await lockStored(trx, staged)
  const own = await trx
    .selectFrom('documents')
    .select('id')
    .where('sha256', '=', staged.sha256)
    .where('owner_id', '=', document.owner_id)
    .limit(1)
    .executeTakeFirst()
  await ensureBytes(app, trx, staged, address, own !== undefined)
  await trx.deleteFrom('document_pages').where('document_id', '=', id).execute()
  await touch(app, trx, id, {
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
