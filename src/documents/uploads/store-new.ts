/** Stores several uploads in one transaction, with one statement for each table. */
import type { App } from '../../app.ts'
import { mapConcurrently } from '../../concurrency.ts'
import type { Trx } from '../../db/pool.ts'
import { insertDocuments, type NewUpload } from '../store-document.ts'
import { lockOrCreateAll } from '../stored-files.ts'
import type { Document } from '../view.ts'

/**
 * Stores the uploads whose bytes are not stored yet and returns their documents. Leaves empty files, and all but one upload of the same bytes, to
 * storeDocument(). Call `staged.confirm()` after the commit. Throws like storeDocument().
 */
export async function storeNew(app: App, trx: Trx, uploads: readonly NewUpload[]): Promise<Map<NewUpload, Document>> {
  const bySum = new Map<string, NewUpload>()
  for (const upload of uploads) if (upload.staged.size > 0 && !bySum.has(upload.staged.sha256)) bySum.set(upload.staged.sha256, upload)
  if (bySum.size === 0) return new Map()
  const addresses = await lockOrCreateAll(
    trx,
    Array.from(bySum.values(), ({ staged }) => staged),
  )
  const stored = [...bySum.values()].filter(({ staged }) => addresses.get(staged.sha256) === staged.address)
  if (stored.length === 0) return new Map()
  // The files get their names while the rows are written. After an error both are waited for: each member is then stored alone, and must not be
  // committed twice at once.
  const committing = mapConcurrently(stored, stored.length, ({ staged }) => staged.commit())
  // Its error counts when the rows are written.
  committing.catch(() => {})
  const documents = await insertDocuments(app, trx, stored).finally(() => committing)
  return new Map(documents.map((document) => [bySum.get(document.sha256) as NewUpload, document]))
}
