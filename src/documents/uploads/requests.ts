/** Upload requests: stages the file parts of a multipart body and stores them as documents. */
import type { z } from 'zod'
import type { Actor } from '../../actor.ts'
import type { App } from '../../app.ts'
import type { Trx } from '../../db/pool.ts'
import { inSavepoint } from '../../db/statements.ts'
import { AppError, invalid } from '../../errors.ts'
import { findAnswer, fingerprint, type IdempotentRequest, runOnce, type StoredAnswer } from '../../http/idempotency.ts'
import { parseInput } from '../../http/input.ts'
import type { Fields, Part } from '../../http/multipart.ts'
import type { StagedFile } from '../../ports/file-store.ts'
import * as settings from '../../settings/settings.ts'
import { resolveLabelIds } from '../document-labels.ts'
import { type NewUpload, resolveOwner, storeDocument } from '../store-document.ts'
import { compareLargeFiles, repairStored } from '../stored-files.ts'
import { type Document, view } from '../view.ts'
import { type BulkAnswer, ManyForm, OneForm, type UploadAnswer } from './forms.ts'
import { type StoreInGroup, storeNew } from './store-new.ts'

export interface UploadedFile {
  filename: string
  staged: StagedFile
}

/** Stages the file parts named `field` while `read` runs and passes them to `store`. Removes temporary files in any case. */
export async function withStagedFiles<T>(
  app: App,
  field: string,
  read: (take: (part: Part) => Promise<void>) => Promise<Fields>,
  store: (staged: UploadedFile[], fields: Fields) => Promise<T>,
): Promise<T> {
  const staged: Promise<UploadedFile>[] = []
  try {
    const fields = await read(async (part) => {
      if (part.field !== field) throw invalid(part.field, `files must be in the field "${field}"`)
      const file = app.files.stage(part.source, app.config.limits.max_upload_size).then((staged) => ({ filename: part.filename, staged }))
      staged.push(file)
      await file
    })
    if (staged.length === 0) throw invalid(field, 'required: at least one file')
    return await store(await Promise.all(staged), fields)
  } finally {
    const settled = await Promise.allSettled(staged)
    await Promise.all(settled.map((result) => result.status === 'fulfilled' && result.value.staged.discard()))
  }
}

/** Returns the Idempotency-Key of a request with a fingerprint of its content, null without a key. */
function idempotentRequest(key: string | null, route: string, files: readonly UploadedFile[], fields: unknown): IdempotentRequest | null {
  if (key === null) return null
  const parts = files.map(({ filename, staged: { sha256, size } }) => [filename, sha256, size])
  return { key, fingerprint: fingerprint(route, fields, ...parts) }
}

/** Stores one file. `key` is the Idempotency-Key of the request. Throws an error that makes the whole request fail. */
export async function storeOne(
  app: App,
  actor: Actor,
  file: UploadedFile,
  fields: unknown,
  key: string | null,
  storeInGroup: StoreInGroup,
): Promise<StoredAnswer<z.infer<typeof UploadAnswer>>> {
  const { filename, staged } = file
  const { title, labels, owner, metadata, ...formOptions } = parseInput(OneForm, fields)
  const request = idempotentRequest(key, 'upload', [file], fields)
  const first = await findAnswer<z.infer<typeof UploadAnswer>>(app.db, actor, request)
  if (first) return first
  const options = await resolveOptions(app, actor, formOptions)
  const answerOf = (document: Document, created: boolean): StoredAnswer<z.infer<typeof UploadAnswer>> => {
    const message = created ? 'Document uploaded.' : 'This file is stored already.'
    const answer = { id: document.id, message, ocr_queued: created && options.ocr, document: view(document) }
    return { status: created ? 201 : 200, answer }
  }
  const ownerId = await resolveOwner(app, app.db, actor, owner)
  if (!request) {
    const labelIds = await resolveLabelIds(app.db, labels)
    const document = await storeInGroup({ ownerId, staged, filename, title, metadata, labelIds, ...options })
    if (document) return answerOf(document, true)
  }
  await compareLargeFiles(app, ownerId, [staged])
  const storing = app.db.transaction().execute((trx) =>
    runOnce(trx, actor, request, async () => {
      const ownerId = await resolveOwner(app, trx, actor, owner)
      const { document, created } = await storeDocument(app, trx, ownerId, staged, {
        filename,
        title,
        metadata,
        labelIds: await resolveLabelIds(trx, labels),
        ...options,
      })
      return answerOf(document, created)
    }),
  )
  const done = await storing.catch((error) => repairAndRethrow(app, staged, error))
  await staged.confirm()
  return done
}

/** Rethrows the error. For a duplicate, first repairs the stored bytes from this upload if they are damaged. */
async function repairAndRethrow(app: App, staged: StagedFile, error: unknown): Promise<never> {
  if (error instanceof AppError && error.code === 'DUPLICATE_RESOURCE') await repairStored(app, staged)
  throw error
}

type BulkResult = z.infer<typeof BulkAnswer>['documents'][number]

/**
 * Stores several files; a failure of one does not affect the others. With an Idempotency-Key all share one transaction: the answer is recorded if and
 * only if the files are stored.
 */
export async function storeAll(
  app: App,
  actor: Actor,
  files: readonly UploadedFile[],
  fields: unknown,
  key: string | null,
  storeInGroup: StoreInGroup,
): Promise<z.infer<typeof BulkAnswer>> {
  const request = idempotentRequest(key, 'bulk-upload', files, fields)
  const first = await findAnswer<z.infer<typeof BulkAnswer>>(app.db, actor, request)
  if (first) return first.answer
  const { default_labels, owner, metadata, ...formOptions } = parseInput(ManyForm, fields)
  const ownerId = await resolveOwner(app, app.db, actor, owner)
  const labelIds = await resolveLabelIds(app.db, default_labels, 'default_labels')
  const options = await resolveOptions(app, actor, formOptions)
  const allStaged = files.map(({ staged }) => staged)
  await compareLargeFiles(app, ownerId, allStaged)
  const uploads = new Map(files.map((file) => [file, { ownerId, metadata, labelIds, ...file, ...options }]))
  const resultOf = (filename: string, { id, title, sha256 }: Document, created: boolean): BulkResult => ({
    ...{ filename, status: 'uploaded', id, title, sha256, created },
    ocr_queued: created && options.ocr,
  })
  const storeIn = async (trx: Trx, { filename, staged }: UploadedFile): Promise<BulkResult> => {
    const labels = await resolveLabelIds(trx, default_labels, 'default_labels')
    const { document, created } = await storeDocument(app, trx, ownerId, staged, { filename, metadata, labelIds: labels, ...options })
    return resultOf(filename, document, created)
  }
  if (!request) {
    const grouped = new Map(Array.from(uploads, ([file, upload]) => [file, storeInGroup(upload)]))
    const settled = await Promise.allSettled(grouped.values())
    const isAnyStored = settled.some((result) => result.status === 'fulfilled' && result.value !== null)
    return storeEach(app, files, isAnyStored, async (file) => {
      const document = await grouped.get(file)
      if (document) return resultOf(file.filename, document, true)
      const result = await app.db
        .transaction()
        .execute((trx) => storeIn(trx, file))
        .catch((error) => repairAndRethrow(app, file.staged, error))
      await file.staged.confirm()
      return result
    })
  }
  const storeAllNew = async (trx: Trx) => {
    const stored = await storeNew(app, trx, [...uploads.values()])
    return new Map(
      files.flatMap((file) => {
        const document = stored.get(uploads.get(file) as NewUpload)
        return document ? [[file, resultOf(file.filename, document, true)] as const] : []
      }),
    )
  }
  const { answer } = await app.db.transaction().execute((trx) =>
    runOnce(trx, actor, request, async () => {
      const stored = await inSavepoint(trx, () => storeAllNew(trx)).catch(emptyIfRefused)
      return { status: 201, answer: await storeTogether(trx, files, stored, storeIn) }
    }),
  )
  for (const [index, { staged }] of files.entries()) {
    const result = answer.documents[index]
    if (result?.status === 'uploaded') await staged.confirm()
    else if (result?.error.code === 'DUPLICATE_RESOURCE') await repairStored(app, staged)
  }
  return answer
}

type StoreIn = (trx: Trx, file: UploadedFile) => Promise<BulkResult>

/** Returns no results after a refusal: each file is tried alone then, and has its own reason. */
function emptyIfRefused(error: unknown): Map<UploadedFile, BulkResult> {
  if (!(error instanceof AppError) || error.status >= 500) throw error
  return new Map()
}

/** Stores the files one after the other. `isAnyStored`: whether one of them is stored already. */
async function storeEach(
  app: App,
  files: readonly UploadedFile[],
  isAnyStored: boolean,
  store: (file: UploadedFile) => Promise<BulkResult>,
): Promise<z.infer<typeof BulkAnswer>> {
  const documents: BulkResult[] = []
  for (const file of files) {
    try {
      documents.push(await store(file))
    } catch (error) {
      const isServerError = !(error instanceof AppError) || error.status >= 500
      // After one file is stored, the answer must list it even if another file fails.
      if (isServerError && !isAnyStored && !documents.some(({ status }) => status === 'uploaded')) throw error
      if (isServerError) app.log.error({ err: error, filename: file.filename }, 'a file of a bulk upload could not be stored')
      documents.push(failed(file, error))
    }
  }
  return bulkAnswer(documents)
}

/** Stores the files without a result in one transaction. Sorts by checksum: two requests with the same files cannot deadlock. */
async function storeTogether(
  trx: Trx,
  files: readonly UploadedFile[],
  stored: ReadonlyMap<UploadedFile, BulkResult>,
  storeIn: StoreIn,
): Promise<z.infer<typeof BulkAnswer>> {
  const results = new Map(stored)
  const remaining = files.filter((file) => !stored.has(file))
  for (const file of remaining.sort((a, b) => (a.staged.sha256 < b.staged.sha256 ? -1 : Number(a.staged.sha256 > b.staged.sha256)))) {
    try {
      results.set(file, await inSavepoint(trx, () => storeIn(trx, file)))
    } catch (error) {
      if (!(error instanceof AppError) || error.status >= 500) throw error
      results.set(file, failed(file, error))
    }
  }
  return bulkAnswer(files.flatMap((file) => results.get(file) ?? []))
}

function bulkAnswer(documents: BulkResult[]): z.infer<typeof BulkAnswer> {
  const uploaded = documents.filter(({ status }) => status === 'uploaded').length
  return { uploaded, failed: documents.length - uploaded, documents }
}

/** Returns the result of a file that was not stored. Its first issue is more specific than the message of the error. */
function failed({ filename }: UploadedFile, error: unknown): BulkResult {
  const { code, message, details } = error instanceof AppError ? error : new AppError('SERVICE_UNAVAILABLE')
  const [issue] = (details.issues ?? []) as { message: string }[]
  return { filename, status: 'failed', error: { code, message: issue?.message ?? message } }
}

type OptionFields = Pick<z.infer<typeof OneForm>, 'ocr_enabled' | 'language' | 'split' | 'on_duplicate' | 'document_date'>

async function resolveOptions(app: App, actor: Actor, { ocr_enabled, language, split, on_duplicate, document_date }: OptionFields) {
  const code = language ?? (await settings.get(app, actor)).ocr_default_language
  if (language || ocr_enabled) await settings.checkLanguage(app, code)
  const onDuplicate = on_duplicate ?? app.config.documents.on_duplicate
  const reading = { ocr: ocr_enabled && app.ocr !== null, language: code, split: split ?? app.config.ocr.split }
  return { ...reading, onDuplicate, date: document_date, createdBy: actor.id }
}
