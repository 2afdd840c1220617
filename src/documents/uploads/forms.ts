/** Forms and answers of the upload routes. */
import { z } from 'zod'
import type { Actor } from '../../actor.ts'
import type { App } from '../../app.ts'
import type { AppError } from '../../errors.ts'
import { booleanText, calendarDate, commaSeparated, jsonObject, listOf } from '../../http/input.ts'
import { visibleLine } from '../../http/visible-text.ts'
import * as settings from '../../settings/settings.ts'
import { maxLabels } from '../document-labels.ts'
import { mergeMetadata } from '../documents.ts'
import { splitModes } from '../store-document.ts'
import { DocumentAnswer } from '../view.ts'

const labels = commaSeparated.pipe(z.array(z.string().max(200)).max(maxLabels)).default([])
const options = {
  ocr_enabled: booleanText.default(true),
  language: settings.OcrLanguage.optional(),
  split: z.enum(splitModes).optional().describe('How to split a PDF or TIFF into documents. Default: `ocr.split` of the server.'),
  on_duplicate: z.enum(['allow', 'reject', 'return']).optional(),
  owner: z.string().max(200).optional(),
  metadata: jsonObject.prefault('{}').transform(removeNulls),
  document_date: calendarDate.optional(),
}
export const OneForm = z.object({
  ...options,
  title: z.string().max(10_000, { abort: true }).overwrite(visibleLine).trim().max(1000).optional(),
  labels,
})
export const ManyForm = z.object({ ...options, default_labels: labels })

export const UploadAnswer = z.object({ id: z.uuid(), message: z.string(), ocr_queued: z.boolean(), document: DocumentAnswer })

/** Returns metadata without null values. Reports metadata beyond the limits beside the problems of other fields. */
function removeNulls(metadata: Record<string, unknown>, context: z.RefinementCtx): Record<string, unknown> {
  try {
    return mergeMetadata({}, metadata)
  } catch (error) {
    for (const { message } of (error as AppError).details.issues as { message: string }[]) context.addIssue({ code: 'custom', message })
    return z.NEVER
  }
}

/** `created` is false if the owner had the same bytes (`on_duplicate=return`). */
const StoredView = z.object({ id: z.uuid(), title: z.string(), sha256: z.string(), created: z.boolean(), ocr_queued: z.boolean() })

export const BulkAnswer = z.object({
  uploaded: z.int(),
  failed: z.int(),
  documents: z.array(
    z.union([
      z.object({ filename: z.string(), status: z.literal('uploaded'), ...StoredView.shape }),
      z.object({ filename: z.string(), status: z.literal('failed'), error: z.object({ code: z.string(), message: z.string() }) }),
    ]),
  ),
})

/** A field of the form with the same name has precedence. */
export const UploadQuery = z.object({ on_duplicate: options.on_duplicate, owner: options.owner })

/** Shapes of the upload routes. */
const shared = {
  headers: {
    'Idempotency-Key': 'Key of a request. A retry within 24 hours returns the first response; a different request returns 422.',
  },
  scope: 'upload',
  query: UploadQuery,
  status: 201,
} as const
export const uploadOne = {
  ...shared,
  form: { fields: OneForm, file: 'file', many: false },
  answer: UploadAnswer,
  otherAnswers: { 200: UploadAnswer },
  errors: ['FORBIDDEN', 'DUPLICATE_RESOURCE', 'IDEMPOTENCY_KEY_REUSED', 'STORAGE_UNAVAILABLE'],
} as const
export const uploadMany = {
  ...shared,
  form: { fields: ManyForm, file: 'files', many: true },
  answer: BulkAnswer,
  errors: ['FORBIDDEN', 'IDEMPOTENCY_KEY_REUSED', 'STORAGE_UNAVAILABLE'],
} as const

const Sha256 = z
  .string()
  .regex(/^[0-9a-f]{64}$/i, 'a SHA-256 in hexadecimal digits')
  .toLowerCase()
export const DuplicatesBody = z.object({ sha256: listOf(Sha256, 1000, 1), owner: z.string().max(200).optional() })
export const DuplicatesAnswer = z.object({
  documents: z.array(z.object({ sha256: z.string(), id: z.uuid() })),
  max_upload_size: z.int().describe('Maximum size of an uploaded file in bytes.'),
})

type OptionFields = Pick<z.infer<typeof OneForm>, 'ocr_enabled' | 'language' | 'split' | 'on_duplicate' | 'document_date'>

/**
 * Returns how the files of an upload are stored. `missing` is the OCR language of the settings if another one replaces it. Throws VALIDATION_ERROR
 * for an OCR language that is not installed.
 */
export async function resolveOptions(
  app: App,
  actor: Actor,
  { ocr_enabled, language: asked, split, on_duplicate, document_date }: OptionFields,
) {
  if (asked !== undefined) await settings.checkLanguage(app, asked)
  const { language, missing } = asked === undefined ? await settings.defaultLanguage(app, actor) : { language: asked, missing: null }
  const onDuplicate = on_duplicate ?? app.config.documents.on_duplicate
  const reading = { ocr: ocr_enabled && app.ocr !== null, language, missing, split: split ?? app.config.ocr.split }
  return { ...reading, onDuplicate, date: document_date, createdBy: actor.id }
}
