/** Upload requests: parts come in as streams, become staged files, and are stored or forgotten together with the request. */
import { z } from 'zod'
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import { inSavepoint } from '../db/savepoint.ts'
import { AppError, invalid } from '../errors.ts'
import { fingerprint, type IdempotentRequest, runOnce, type StoredAnswer } from '../http/idempotency.ts'
import { booleanText, commaSeparated, jsonObject, parseInput } from '../http/input.ts'
import type { Fields, Part } from '../http/multipart.ts'
import { visibleLine } from '../http/visible-text.ts'
import type { StagedFile } from '../ports/file-store.ts'
import { checkLanguage } from '../settings/ocr-language.ts'
import * as settings from '../settings/settings.ts'
import { labelIds } from './label-names.ts'
import { ownerOf, store } from './store-document.ts'
import { compareLarge, repairStored } from './stored-files.ts'
import { DocumentAnswer, view } from './view.ts'

export interface Incoming {
  filename: string
  staged: StagedFile
}

const options = {
  ocr_enabled: booleanText.default(true),
  language: z
    .string()
    .regex(/^\w{2,20}(\+\w{2,20}){0,9}$/, 'a language code such as "eng", or several joined by "+"')
    .optional(),
  on_duplicate: z.enum(['allow', 'reject', 'return']).optional(),
  owner: z.string().max(200).optional(),
  metadata: jsonObject.prefault('{}'),
}
export const OneForm = z.object({
  ...options,
  title: z.string().max(10_000, { abort: true }).overwrite(visibleLine).trim().max(1000).optional(),
  labels: commaSeparated.default([]),
})
export const ManyForm = z.object({ ...options, default_labels: commaSeparated.default([]) })

export const UploadAnswer = z.object({ id: z.uuid(), message: z.string(), ocr_queued: z.boolean(), document: DocumentAnswer })

/** `created` false: the same bytes were there already (`on_duplicate=return`). */
const Kept = z.object({ id: z.uuid(), title: z.string(), sha256: z.string(), created: z.boolean(), ocr_queued: z.boolean() })

export const BulkAnswer = z.object({
  uploaded: z.int(),
  failed: z.int(),
  documents: z.array(
    z.union([
      z.object({ filename: z.string(), status: z.literal('uploaded'), ...Kept.shape }),
      z.object({ filename: z.string(), status: z.literal('failed'), error: z.object({ code: z.string(), message: z.string() }) }),
    ]),
  ),
})

/** Stages the file parts named `field` while `read` runs, hands all of them to `keep`, and in any case leaves no temporary file. */
export async function receive<T>(
  app: App,
  field: string,
  read: (take: (part: Part) => Promise<void>) => Promise<Fields>,
  keep: (staged: Incoming[], fields: Fields) => Promise<T>,
): Promise<T> {
  const staged: Promise<Incoming>[] = []
  try {
    const fields = await read(async (part) => {
      if (part.field !== field) throw invalid(part.field, `files go into the field "${field}"`)
      const file = stageOne(app, part)
      staged.push(file)
      await file
    })
    const incoming = await Promise.all(staged)
    if (incoming.length === 0) throw invalid(field, 'a file is required')
    return await keep(incoming, fields)
  } finally {
    const done = await Promise.allSettled(staged)
    await Promise.all(done.map((result) => result.status === 'fulfilled' && result.value.staged.discard()))
  }
}

async function stageOne(app: App, { filename, source }: Part): Promise<Incoming> {
  return { filename, staged: await app.files.stage(source, app.config.limits.max_upload_size) }
}

/** What tells one upload request from another, for its Idempotency-Key; null where it has none. */
const repeatable = (
  key: string | null,
  route: 'upload' | 'bulk-upload',
  files: readonly Incoming[],
  fields: unknown,
): IdempotentRequest | null =>
  key === null
    ? null
    : { key, fingerprint: fingerprint(route, fields, ...files.map(({ filename, staged: { sha256, size } }) => [filename, sha256, size])) }

/** One file: its answer, or the failure of the whole request. `key`: of a request that may come twice. */
export async function storeOne(
  app: App,
  actor: Actor,
  file: Incoming,
  fields: unknown,
  key: string | null,
): Promise<StoredAnswer<z.infer<typeof UploadAnswer>>> {
  const { filename, staged } = file
  const { title, labels, owner, metadata, ...given } = parseInput(OneForm, fields)
  const request = repeatable(key, 'upload', [file], fields)
  const options = await chosen(app, actor, given)
  await compareLarge(app, await ownerOf(app, app.db, actor, owner), [staged])
  const storing = app.db.transaction().execute((trx) =>
    runOnce(trx, actor, request, async () => {
      const ownerId = await ownerOf(app, trx, actor, owner)
      const { document, created } = await store(app, trx, ownerId, staged, {
        filename,
        title,
        metadata,
        labelIds: await labelIds(trx, labels),
        ...options,
      })
      const message = created ? 'Document uploaded.' : 'The same file is already here.'
      const answer = { id: document.id, message, ocr_queued: created && options.ocr, document: view(document) }
      return { status: created ? 201 : 200, answer }
    }),
  )
  const done = await storing.catch((error) => refuseRepaired(app, staged, error))
  await staged.confirm()
  return done
}

/** Throws the error; where the same file is already here, its stored bytes are those of this upload then, even if they had been damaged. */
async function refuseRepaired(app: App, staged: StagedFile, error: unknown): Promise<never> {
  if (error instanceof AppError && error.code === 'DUPLICATE_RESOURCE') await repairStored(app, staged)
  throw error
}

type BulkResult = z.infer<typeof BulkAnswer>['documents'][number]

/**
 * Several files, each in a transaction of its own: one that cannot be kept does not take the others with it. `key`: of a request that may come
 * twice; then all share one transaction, so that the answer is kept exactly when the files are.
 */
export async function storeAll(
  app: App,
  actor: Actor,
  files: readonly Incoming[],
  fields: unknown,
  key: string | null,
): Promise<z.infer<typeof BulkAnswer>> {
  const request = repeatable(key, 'bulk-upload', files, fields)

  const { default_labels, owner, metadata, ...given } = parseInput(ManyForm, fields)
  const ownerId = await ownerOf(app, app.db, actor, owner)
  await labelIds(app.db, default_labels, 'default_labels')
  const options = await chosen(app, actor, given)
  await compareLarge(
    app,
    ownerId,
    files.map(({ staged }) => staged),
  )
  const storeIn = async (trx: Trx, { filename, staged }: Incoming): Promise<BulkResult> => {
    const labels = await labelIds(trx, default_labels, 'default_labels')
    const { document, created } = await store(app, trx, ownerId, staged, { filename, metadata, labelIds: labels, ...options })
    const { id, title, sha256 } = document
    return { filename, status: 'uploaded', id, title, sha256, created, ocr_queued: created && options.ocr }
  }
  if (!request) return storeEach(app, files, storeIn)
  const { answer } = await app.db
    .transaction()
    .execute((trx) => runOnce(trx, actor, request, async () => ({ status: 201, answer: await storeTogether(trx, files, storeIn) })))
  for (const [index, { staged }] of files.entries()) {
    const result = answer.documents[index]
    if (result?.status === 'uploaded') await staged.confirm()
    else if (result?.error.code === 'DUPLICATE_RESOURCE') await repairStored(app, staged)
  }
  return answer
}

type StoreIn = (trx: Trx, file: Incoming) => Promise<BulkResult>

async function storeEach(app: App, files: readonly Incoming[], storeIn: StoreIn): Promise<z.infer<typeof BulkAnswer>> {
  const documents: BulkResult[] = []
  for (const file of files) {
    try {
      const result = await app.db
        .transaction()
        .execute((trx) => storeIn(trx, file))
        .catch((error) => refuseRepaired(app, file.staged, error))
      await file.staged.confirm()
      documents.push(result)
    } catch (error) {
      const isOurs = !(error instanceof AppError) || error.status >= 500
      // With nothing stored the whole request failed; what is stored already must be told of, whatever happens to the rest.
      if (isOurs && !documents.some(({ status }) => status === 'uploaded')) throw error
      if (isOurs) app.log.error({ err: error, filename: file.filename }, 'a file of a bulk upload could not be stored')
      documents.push(failed(file, error))
    }
  }
  return counted(documents)
}

/** In one transaction. By checksum, not in their order: two requests with the same files must lock them one after the other. */
async function storeTogether(trx: Trx, files: readonly Incoming[], storeIn: StoreIn): Promise<z.infer<typeof BulkAnswer>> {
  const results = new Map<Incoming, BulkResult>()
  for (const file of files.toSorted((a, b) => (a.staged.sha256 < b.staged.sha256 ? -1 : Number(a.staged.sha256 > b.staged.sha256)))) {
    try {
      results.set(file, await inSavepoint(trx, () => storeIn(trx, file)))
    } catch (error) {
      if (!(error instanceof AppError) || error.status >= 500) throw error
      results.set(file, failed(file, error))
    }
  }
  return counted(files.flatMap((file) => results.get(file) ?? []))
}

function counted(documents: BulkResult[]): z.infer<typeof BulkAnswer> {
  const uploaded = documents.filter(({ status }) => status === 'uploaded').length
  return { uploaded, failed: documents.length - uploaded, documents }
}

const failed = ({ filename }: Incoming, error: unknown): BulkResult => ({ filename, status: 'failed', error: reasonOf(error) })

async function chosen(
  app: App,
  actor: Actor,
  { ocr_enabled, language, on_duplicate }: Pick<z.infer<typeof OneForm>, 'ocr_enabled' | 'language' | 'on_duplicate'>,
) {
  const code = language ?? (await settings.of(app, actor)).ocr_default_language
  if (language || ocr_enabled) checkLanguage(app, code)
  return { ocr: ocr_enabled && app.ocr !== null, language: code, onDuplicate: on_duplicate ?? app.config.documents.on_duplicate }
}

/** What a bulk answer says of one file: the first issue says more than "not valid". */
function reasonOf(error: unknown): { code: string; message: string } {
  const known = error instanceof AppError ? error : new AppError('SERVICE_UNAVAILABLE')
  const [issue] = (known.details.issues ?? []) as { message: string }[]
  return { code: known.code, message: issue?.message ?? known.message }
}
