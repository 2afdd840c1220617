/** Storing one staged file as a document. */
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import type { Db, Trx } from '../db/pool.ts'
import { AppError, invalid } from '../errors.ts'
import { publish } from '../events.ts'
import { detectType } from '../extract/detect.ts'
import { parseUserIdentifier } from '../http/user-identifier.ts'
import * as jobs from '../jobs/queue.ts'
import type { StagedFile } from '../ports/file-store.ts'
import { setLabels } from './document-labels.ts'
import { mergeMetadata } from './documents.ts'
import { defaultTitle, sanitizeFilename } from './file-names.ts'
import { ensureBytes, lockOrCreate } from './stored-files.ts'
import { enqueueIndex } from './versions.ts'
import { type Document, excerptLength, selectDocuments } from './view.ts'

export interface StoreOptions {
  filename: string
  title?: string | undefined
  labelIds?: readonly string[]
  /** keys with null are dropped */
  metadata?: Record<string, unknown>
  ocr: boolean
  language: string
  onDuplicate: 'allow' | 'reject' | 'return'
}

export interface StoreResult {
  document: Document
  /** false: the owner had the same bytes, and `document` is the existing one */
  created: boolean
}

/**
 * Creates a document from a staged file: commits the bytes, then inserts row, jobs and event in the caller's transaction. Call
 * `staged.confirm()` after the commit: from then on the document survives a power cut. Without a commit the bytes stay uncommitted. Throws
 * VALIDATION_ERROR, DUPLICATE_RESOURCE.
 */
export async function storeDocument(app: App, trx: Trx, ownerId: string, staged: StagedFile, options: StoreOptions): Promise<StoreResult> {
  if (staged.size === 0) throw invalid('file', 'the file is empty')
  const address = await lockOrCreate(trx, staged)
  const duplicate = await lockDuplicate(trx, ownerId, staged.sha256)
  if (duplicate && options.onDuplicate === 'reject')
    throw new AppError('DUPLICATE_RESOURCE', { document_id: duplicate.id }, 'The owner has a document with these bytes already.')
  await ensureBytes(app, trx, staged, address, duplicate !== undefined)
  if (duplicate && options.onDuplicate === 'return') return { document: await readDocument(trx, duplicate.id), created: false }

  const filename = sanitizeFilename(options.filename)
  const title = options.title?.trim() || defaultTitle(filename)
  const at = app.now()
  const { id } = await trx
    .insertInto('documents')
    .values({
      owner_id: ownerId,
      title,
      filename,
      mime_type: await detectType(staged.head, filename, staged.size),
      size: staged.size,
      sha256: staged.sha256,
      ocr_enabled: options.ocr,
      language: options.language,
      metadata: JSON.stringify(mergeMetadata({}, options.metadata ?? {})),
      duplicate_of: duplicate?.id ?? null,
      created_at: at,
      updated_at: at,
    })
    .returning('id')
    .executeTakeFirstOrThrow()
  await setLabels(trx, id, options.labelIds ?? [])
  await jobs.enqueue(
    trx,
    options.ocr ? 'ocr' : 'extract',
    { language: options.language },
    { documentId: id, maxAttempts: app.config.ocr.max_attempts },
  )
  await enqueueIndex(trx, [id])
  await publish(trx, 'document_created', ownerId, { document_id: id, title, source: null })
  return { document: await readDocument(trx, id), created: true }
}

/** Returns the owner's first document with the same bytes. Locks it, because the new row refers to it. */
const lockDuplicate = (trx: Trx, ownerId: string, sha256: string) =>
  trx
    .selectFrom('documents')
    .select('id')
    .where('sha256', '=', sha256)
    .where('owner_id', '=', ownerId)
    .orderBy('created_at')
    .orderBy('id')
    .forKeyShare()
    .executeTakeFirst()

/** Returns the SHA-256 sums (hex) that the owner has already, each with the first document. Throws FORBIDDEN, VALIDATION_ERROR. */
export async function findDuplicates(
  app: App,
  actor: Actor,
  sums: readonly string[],
  owner: string | undefined,
): Promise<{ sha256: string; id: string }[]> {
  const ownerId = await resolveOwner(app, app.db, actor, owner)
  return app.db
    .selectFrom('documents')
    .distinctOn('sha256')
    .select(['sha256', 'id'])
    .where('owner_id', '=', ownerId)
    .where('sha256', 'in', sums)
    .orderBy('sha256')
    .orderBy('created_at')
    .orderBy('id')
    .execute()
}

/** Returns the id of the user who owns an upload. Throws FORBIDDEN, VALIDATION_ERROR. */
export async function resolveOwner(app: App, db: Db, actor: Actor, owner: string | undefined): Promise<string> {
  if (actor.id && !owner) return actor.id
  if (actor.role !== 'admin') throw new AppError('FORBIDDEN')
  const name = owner ?? app.config.auth.admin_username
  const { column, value } = parseUserIdentifier(name)
  const user = await db.selectFrom('users').select('id').where(column, '=', value).executeTakeFirst()
  if (!user) throw invalid('owner', `no user ${JSON.stringify(name)}`)
  return user.id
}

const readDocument = (trx: Trx, id: string): Promise<Document> =>
  selectDocuments(trx, excerptLength).where('documents.id', '=', id).executeTakeFirstOrThrow()
