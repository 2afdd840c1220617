/** Upload requests: parts come in as streams, become staged files, and are stored or forgotten together with the request. */
import { z } from 'zod'
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import { AppError, invalid } from '../errors.ts'
import { type Done, once } from '../http/idempotency.ts'
import { check, commaSeparated, flag, jsonObject } from '../http/input.ts'
import type { Fields, Part } from '../http/multipart.ts'
import type { StagedFile } from '../ports/files.ts'
import { checkLanguage } from '../settings/ocr-language.ts'
import * as settings from '../settings/settings.ts'
import { labelIds } from './labelling.ts'
import { ownerOf, store } from './upload.ts'
import { DocumentAnswer, view } from './view.ts'

export interface Incoming {
  filename: string
  staged: StagedFile
}

const options = {
  ocr_enabled: flag.default(true),
  language: z
    .string()
    .regex(/^\w{2,20}(\+\w{2,20}){0,9}$/, 'a language code such as "eng", or several joined by "+"')
    .optional(),
  on_duplicate: z.enum(['allow', 'reject', 'return']).optional(),
  owner: z.string().max(200).optional(),
  metadata: jsonObject.prefault('{}'),
}
export const OneForm = z.object({ ...options, title: z.string().trim().max(1000).optional(), labels: commaSeparated.default([]) })
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

/** One file: its answer, or the failure of the whole request. `key`: of a request that may come twice. */
export async function storeOne(
  app: App,
  actor: Actor,
  { filename, staged }: Incoming,
  fields: unknown,
  key: string | null,
): Promise<Done<z.infer<typeof UploadAnswer>>> {
  const { title, labels, owner, metadata, ...given } = check(OneForm, fields)
  const options = await chosen(app, actor, given)
  const done = await app.db.transaction().execute((trx) =>
    once(app, trx, actor, key, async () => {
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
  await staged.keep()
  return done
}

type BulkResult = z.infer<typeof BulkAnswer>['documents'][number]

/** Several files, each in a transaction of its own: one that cannot be kept does not take the others with it. */
export async function storeAll(app: App, actor: Actor, files: readonly Incoming[], fields: unknown): Promise<z.infer<typeof BulkAnswer>> {
  const { default_labels, owner, metadata, ...given } = check(ManyForm, fields)
  const ownerId = await ownerOf(app, app.db, actor, owner)
  await labelIds(app.db, default_labels, 'default_labels')
  const options = await chosen(app, actor, given)
  const documents: BulkResult[] = []
  for (const { filename, staged } of files) {
    try {
      const { document, created } = await app.db.transaction().execute(async (trx) => {
        const labels = await labelIds(trx, default_labels, 'default_labels')
        return store(app, trx, ownerId, staged, { filename, metadata, labelIds: labels, ...options })
      })
      await staged.keep()
      const { id, title, sha256 } = document
      documents.push({ filename, status: 'uploaded', id, title, sha256, created, ocr_queued: created && options.ocr })
    } catch (error) {
      const isOurs = !(error instanceof AppError) || error.status >= 500
      // With nothing stored the whole request failed; what is stored already must be told of, whatever happens to the rest.
      if (isOurs && !documents.some(({ status }) => status === 'uploaded')) throw error
      if (isOurs) app.log.error({ err: error, filename }, 'a file of a bulk upload could not be stored')
      documents.push({ filename, status: 'failed', error: reasonOf(error) })
    }
  }
  const uploaded = documents.filter(({ status }) => status === 'uploaded').length
  return { uploaded, failed: documents.length - uploaded, documents }
}

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
