/** Bulk uploads: stores the files of one request as documents. */
import type { z } from 'zod'
import type { Actor } from '../../actor.ts'
import type { App } from '../../app.ts'
import type { Trx } from '../../db/pool.ts'
import { inSavepoint } from '../../db/statements.ts'
import { AppError, validateTogether } from '../../errors.ts'
import { findAnswer, type IdempotentRequest, runOnce } from '../../http/idempotency.ts'
import { parseInput } from '../../http/input.ts'
import { resolveLabelIds } from '../document-labels.ts'
import { type NewUpload, resolveOwner, type StoreResult, storeDocument } from '../store-document.ts'
import { compareLargeFiles, repairStored } from '../stored-files.ts'
import type { Document } from '../view.ts'
import { type BulkAnswer, ManyForm, resolveOptions } from './forms.ts'
import type { StoreInGroup } from './group-commit.ts'
import { idempotentRequest, repairAndRethrow, type UploadedFile, type UploadRequest } from './requests.ts'
import { storeNew } from './store-new.ts'

type Bulk = z.infer<typeof BulkAnswer>
type BulkResult = Bulk['documents'][number]
type StoreIn = (trx: Trx, upload: NewUpload) => Promise<BulkResult>

/**
 * Stores several files; a failure of one does not affect the others. With an Idempotency-Key all share one transaction: the answer is recorded if and
 * only if the files are stored.
 */
export async function storeAll(
  app: App,
  storeInGroup: StoreInGroup,
  actor: Actor,
  files: readonly UploadedFile[],
  upload: UploadRequest,
): Promise<Bulk> {
  const request = idempotentRequest('bulk-upload', files, upload)
  const first = await findAnswer<Bulk>(app.db, actor, request)
  if (first) return first.answer
  const { default_labels, owner, metadata, ...formOptions } = parseInput(ManyForm, upload.fields)
  const [{ missing: _, ...options }, ownerId, labelIds] = await validateTogether([
    resolveOptions(app, actor, formOptions),
    resolveOwner(app, app.db, actor, owner),
    resolveLabelIds(app.db, default_labels, 'default_labels'),
  ])
  const uploads = files.map((file): NewUpload => ({ ownerId, metadata, labelIds, ...file, ...options }))
  await compareLargeFiles(
    app,
    ownerId,
    files.map(({ staged }) => staged),
  )
  const storeIn: StoreIn = async (trx, upload) => {
    const labelIds = await resolveLabelIds(trx, default_labels, 'default_labels')
    return bulkResult(upload, await storeDocument(app, trx, ownerId, upload.staged, { ...upload, labelIds }))
  }
  const { takeTurn } = upload
  if (request) return takeTurn(() => storeAtomically(app, actor, request, uploads, storeIn))
  return storeSeparately(app, storeInGroup, uploads, (upload) =>
    takeTurn(() => app.db.transaction().execute((trx) => storeIn(trx, upload))),
  )
}

async function storeSeparately(
  app: App,
  storeInGroup: StoreInGroup,
  uploads: readonly NewUpload[],
  storeAlone: (upload: NewUpload) => Promise<BulkResult>,
): Promise<Bulk> {
  const grouped = new Map(uploads.map((upload) => [upload, storeInGroup(upload)]))
  const settled = await Promise.allSettled(grouped.values())
  const hasStored = settled.some((result) => result.status === 'fulfilled' && result.value !== null)
  return storeEach(app, uploads, { hasStored }, async (upload) => {
    const document = await grouped.get(upload)
    if (document) return bulkResult(upload, { document, created: true })
    const result = await storeAlone(upload).catch((error) => repairAndRethrow(app, upload.staged, error))
    await upload.staged.confirm()
    return result
  })
}

/** Stores the files that can be stored and the answer in one transaction. */
async function storeAtomically(
  app: App,
  actor: Actor,
  request: IdempotentRequest,
  uploads: readonly NewUpload[],
  storeIn: StoreIn,
): Promise<Bulk> {
  const { answer } = await app.db.transaction().execute((trx) =>
    runOnce(trx, actor, request, async () => {
      const documents = await inSavepoint(trx, () => storeNew(app, trx, uploads)).catch((error) => undoIfRefused(uploads, error))
      return { status: 201, answer: await storeTogether(trx, uploads, documents, storeIn) }
    }),
  )
  for (const [index, { staged }] of uploads.entries()) {
    const result = answer.documents[index]
    if (result?.status === 'uploaded') await staged.confirm()
    else if (result?.error.code === 'DUPLICATE_RESOURCE') await repairStored(app, staged)
  }
  return answer
}

/** Returns no documents after a refusal. Each file is then stored alone, and a refused one gets its own reason. */
function undoIfRefused(uploads: readonly NewUpload[], error: unknown): Map<NewUpload, Document> {
  if (!(error instanceof AppError) || error.status >= 500) throw error
  for (const { staged } of uploads) staged.rollback()
  return new Map()
}

/** Stores the files one after the other. `hasStored`: whether one of them is stored already. */
async function storeEach(
  app: App,
  uploads: readonly NewUpload[],
  { hasStored }: { hasStored: boolean },
  store: (upload: NewUpload) => Promise<BulkResult>,
): Promise<Bulk> {
  const documents: BulkResult[] = []
  for (const upload of uploads) {
    try {
      documents.push(await store(upload))
    } catch (error) {
      const isServerError = !(error instanceof AppError) || error.status >= 500
      // After one file is stored, the answer must list it even if another file fails.
      if (isServerError && !hasStored && !documents.some(({ status }) => status === 'uploaded')) throw error
      if (isServerError) app.log.error({ err: error, filename: upload.filename }, 'a file of a bulk upload could not be stored')
      documents.push(failed(upload, error))
    }
  }
  return bulkAnswer(documents)
}

/** Stores the files without a document in one transaction. Sorts by checksum: two requests with the same files cannot deadlock. */
async function storeTogether(
  trx: Trx,
  uploads: readonly NewUpload[],
  stored: ReadonlyMap<NewUpload, Document>,
  storeIn: StoreIn,
): Promise<Bulk> {
  const results = new Map(Array.from(stored, ([upload, document]) => [upload, bulkResult(upload, { document, created: true })]))
  const remaining = uploads.filter((upload) => !stored.has(upload))
  for (const upload of remaining.sort((a, b) => (a.staged.sha256 < b.staged.sha256 ? -1 : Number(a.staged.sha256 > b.staged.sha256)))) {
    try {
      results.set(upload, await inSavepoint(trx, () => storeIn(trx, upload)))
    } catch (error) {
      if (!(error instanceof AppError) || error.status >= 500) throw error
      results.set(upload, failed(upload, error))
    }
  }
  return bulkAnswer(uploads.flatMap((upload) => results.get(upload) ?? []))
}

const bulkResult = ({ filename, ocr }: NewUpload, { document: { id, title, sha256 }, created }: StoreResult): BulkResult => ({
  filename,
  status: 'uploaded',
  id,
  title,
  sha256,
  created,
  ocr_queued: created && ocr,
})

function bulkAnswer(documents: BulkResult[]): Bulk {
  const uploaded = documents.filter(({ status }) => status === 'uploaded').length
  return { uploaded, failed: documents.length - uploaded, documents }
}

/** Returns the result of a file that was not stored. Its first issue is more specific than the message of the error. */
function failed({ filename }: NewUpload, error: unknown): BulkResult {
  const { code, message, details } = error instanceof AppError ? error : new AppError('SERVICE_UNAVAILABLE')
  const [issue] = (details.issues ?? []) as { message: string }[]
  return { filename, status: 'failed', error: { code, message: issue?.message ?? message } }
}
