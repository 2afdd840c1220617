/**
 * Group commit of uploads: files of concurrent requests are stored by one transaction with one statement for each table. A round trip takes
 * longer than its statement, and each commit waits for the disk: bench/upload.ts, "400 × 10 kB".
 */
import type { App } from '../../app.ts'
import { mapConcurrently } from '../../concurrency.ts'
import { isRolledBack, type Trx } from '../../db/pool.ts'
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

/** Uploads stored by one transaction. */
const maxGroupSize = 100

interface Waiting {
  upload: NewUpload
  done: PromiseWithResolvers<Document | null>
}

/**
 * Stores an upload with others that arrive while a group is being committed. Returns null if the upload has to be stored alone: its bytes are
 * stored already, or a member of its group failed. Throws if the answer of COMMIT is lost.
 */
export type StoreInGroup = (upload: NewUpload) => Promise<Document | null>

/** Opens the group commit. */
export function openGroupCommit(app: App): StoreInGroup {
  let waiting: Waiting[] = []
  let isRunning = false

  const storeGroup = async (group: readonly Waiting[]): Promise<void> => {
    let isCommitting = false
    try {
      const uploads = group.map(({ upload }) => upload)
      const documents = await app.db.transaction().execute(async (trx) => {
        const stored = await storeNew(app, trx, uploads)
        isCommitting = true
        return stored
      })
      await Promise.all(uploads.map((upload) => documents.has(upload) && upload.staged.confirm()))
      for (const { upload, done } of group) done.resolve(documents.get(upload) ?? null)
    } catch (error) {
      // If the answer of COMMIT is lost, the transaction may have been committed: storing its members again could store them twice.
      const canRetry = !isCommitting || isRolledBack(error)
      for (const { done } of group) {
        if (canRetry) done.resolve(null)
        else done.reject(error)
      }
    }
  }
  const run = async (): Promise<void> => {
    isRunning = true
    // Requests that arrived together join the first group.
    await new Promise(setImmediate)
    while (waiting.length > 0) {
      const group = waiting.slice(0, maxGroupSize)
      waiting = waiting.slice(maxGroupSize)
      await storeGroup(group)
    }
    isRunning = false
  }
  return (upload) => {
    const done = Promise.withResolvers<Document | null>()
    waiting.push({ upload, done })
    if (!isRunning) void run()
    return done.promise
  }
}
