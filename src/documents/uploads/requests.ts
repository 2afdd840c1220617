/** Upload requests: stages the file parts of a multipart body and stores a file as a document. */
import type { z } from 'zod'
import type { Actor } from '../../actor.ts'
import type { App } from '../../app.ts'
import { AppError, invalid, validateTogether } from '../../errors.ts'
import type { TakeTurn } from '../../http/event-context.ts'
import { findAnswer, fingerprint, type IdempotentRequest, runOnce, type StoredAnswer } from '../../http/idempotency.ts'
import { parseInput } from '../../http/input.ts'
import type { Fields, Part } from '../../http/multipart.ts'
import type { StagedFile } from '../../ports/file-store.ts'
import { resolveLabelIds } from '../document-labels.ts'
import { sanitizeFilename } from '../file-names.ts'
import { resolveOwner, type StoreResult, storeDocument } from '../store-document.ts'
import { compareLargeFiles, repairStored } from '../stored-files.ts'
import { view } from '../view.ts'
import { OneForm, resolveOptions, type UploadAnswer } from './forms.ts'
import type { StoreInGroup } from './group-commit.ts'

export interface UploadedFile {
  filename: string
  staged: StagedFile
}

export interface UploadRequest {
  /** fields of the form and of the query */
  readonly fields: unknown
  /** Idempotency-Key */
  readonly key: string | null
  /** for transactions that are not shared with other uploads */
  readonly takeTurn: TakeTurn
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
      const file = stagePart(app, part)
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

/** Stages the file of a part. The error of a file that is too large names it. */
async function stagePart(app: App, { field, filename, source }: Part): Promise<UploadedFile> {
  try {
    return { filename, staged: await app.files.stage(source, app.config.limits.max_upload_size) }
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== 'PAYLOAD_TOO_LARGE') throw error
    const name = sanitizeFilename(filename)
    throw new AppError(error.code, { ...error.details, field, filename: name }, `The file ${JSON.stringify(name)} is too large.`)
  }
}

/** Returns the Idempotency-Key of a request with a fingerprint of its content, null without a key. */
export function idempotentRequest(route: string, files: readonly UploadedFile[], { fields, key }: UploadRequest): IdempotentRequest | null {
  if (key === null) return null
  const parts = files.map(({ filename, staged: { sha256, size } }) => [filename, sha256, size])
  return { key, fingerprint: fingerprint(route, fields, ...parts) }
}

/** Stores one file. Throws an error that makes the whole request fail. */
export async function storeOne(
  app: App,
  storeInGroup: StoreInGroup,
  actor: Actor,
  file: UploadedFile,
  upload: UploadRequest,
): Promise<StoredAnswer<z.infer<typeof UploadAnswer>>> {
  const { filename, staged } = file
  const { title, labels, owner, metadata, ...formOptions } = parseInput(OneForm, upload.fields)
  const request = idempotentRequest('upload', [file], upload)
  const first = await findAnswer<z.infer<typeof UploadAnswer>>(app.db, actor, request)
  if (first) return first
  const [{ missing, ...options }, ownerId, labelIds] = await validateTogether([
    resolveOptions(app, actor, formOptions),
    resolveOwner(app, app.db, actor, owner),
    resolveLabelIds(app.db, labels),
  ])
  const note = missing === null ? '' : ` The OCR language of the settings, ${missing}, is not installed: ${options.language} is used.`
  const answerOf = ({ document, created }: StoreResult): StoredAnswer<z.infer<typeof UploadAnswer>> => {
    const message = created ? `Document uploaded.${note}` : 'This file is stored already.'
    const answer = { id: document.id, message, ocr_queued: created && options.ocr, document: view(document) }
    return { status: created ? 201 : 200, answer }
  }
  if (!request) {
    const document = await storeInGroup({ ownerId, staged, filename, title, metadata, labelIds, ...options })
    if (document) return answerOf({ document, created: true })
  }
  await compareLargeFiles(app, ownerId, [staged])
  const storing = upload.takeTurn(() =>
    app.db.transaction().execute((trx) =>
      runOnce(trx, actor, request, async () => {
        const ownerId = await resolveOwner(app, trx, actor, owner)
        const stored = await storeDocument(app, trx, ownerId, staged, {
          filename,
          title,
          metadata,
          labelIds: await resolveLabelIds(trx, labels),
          ...options,
        })
        return answerOf(stored)
      }),
    ),
  )
  const done = await storing.catch((error) => repairAndRethrow(app, staged, error))
  await staged.confirm()
  return done
}

/** Rethrows the error. For a duplicate, first repairs the stored bytes from this upload if they are damaged. */
export async function repairAndRethrow(app: App, staged: StagedFile, error: unknown): Promise<never> {
  if (error instanceof AppError && error.code === 'DUPLICATE_RESOURCE') await repairStored(app, staged)
  throw error
}
