/** From staged bytes to a document. */
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import type { Db, Trx } from '../db/pool.ts'
import { AppError, invalid } from '../errors.ts'
import { publish } from '../events.ts'
import { detectType } from '../extract/detect.ts'
import { parseUserIdentifier } from '../http/user-identifier.ts'
import * as jobs from '../jobs/queue.ts'
import type { StagedFile } from '../ports/file-store.ts'
import { cleanFilename, titleOf } from './file-names.ts'
import { setLabels } from './label-names.ts'
import { merge } from './metadata.ts'
import { ensureBytes, lockStored } from './stored-files.ts'
import { type Document, excerptLength, select } from './view.ts'

export interface NewDocument {
  filename: string
  title?: string | undefined
  labelIds?: readonly string[]
  /** nulls are left out */
  metadata?: Record<string, unknown>
  ocr: boolean
  language: string
  onDuplicate: 'allow' | 'reject' | 'return'
}

export interface Stored {
  document: Document
  /** false: the same bytes were there already and the existing document is given back */
  created: boolean
}

/**
 * Makes a document of a staged file: bytes get their name, then row, job and event follow in the caller's transaction. Once that is committed,
 * all of it survives a power cut (say so by `staged.keep()`); when it is not, the bytes are unsettled. Throws VALIDATION_ERROR, DUPLICATE_RESOURCE.
 */
export async function store(app: App, trx: Trx, ownerId: string, staged: StagedFile, given: NewDocument): Promise<Stored> {
  if (staged.size === 0) throw invalid('file', 'the file is empty')
  const address = await lockStored(trx, staged)
  const twin = await twinOf(trx, ownerId, staged.sha256)
  if (twin && given.onDuplicate === 'reject')
    throw new AppError('DUPLICATE_RESOURCE', { document_id: twin.id }, 'The same file is already here.')
  await ensureBytes(app, trx, staged, address, twin !== undefined)
  if (twin && given.onDuplicate === 'return') return { document: await reread(trx, twin.id), created: false }

  const filename = cleanFilename(given.filename)
  const title = given.title?.trim() || titleOf(filename)
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
      ocr_enabled: given.ocr,
      language: given.language,
      metadata: JSON.stringify(merge({}, given.metadata ?? {})),
      duplicate_of: twin?.id ?? null,
      created_at: at,
      updated_at: at,
    })
    .returning('id')
    .executeTakeFirstOrThrow()
  await setLabels(trx, id, given.labelIds ?? [])
  await jobs.enqueue(
    trx,
    given.ocr ? 'ocr' : 'extract',
    { language: given.language },
    { documentId: id, maxAttempts: app.config.ocr.max_attempts },
  )
  await jobs.enqueue(trx, 'index', { document_id: id }, { dedupeKey: `index:${id}` })
  await publish(trx, 'document_created', ownerId, { document_id: id, title, source: null })
  return { document: await reread(trx, id), created: true }
}

/** The owner's first document with the same bytes; locked, because a deletion of it would pull it away from under the new one. */
const twinOf = (trx: Trx, ownerId: string, sha256: string) =>
  trx
    .selectFrom('documents')
    .select('id')
    .where('sha256', '=', sha256)
    .where('owner_id', '=', ownerId)
    .orderBy('created_at')
    .orderBy('id')
    .forKeyShare()
    .executeTakeFirst()

/** Which of these bytes the owner of an upload has already: each SHA-256 (hex) with the first document of it. Throws FORBIDDEN, VALIDATION_ERROR. */
export async function known(
  app: App,
  actor: Actor,
  sums: readonly string[],
  owner: string | undefined,
): Promise<{ sha256: string; id: string }[]> {
  const ownerId = await ownerOf(app, app.db, actor, owner)
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

/** The user that an upload belongs to; the operator at the shell must say whose it is. Throws FORBIDDEN, VALIDATION_ERROR. */
export async function ownerOf(app: App, db: Db, actor: Actor, owner: string | undefined): Promise<string> {
  if (actor.id && !owner) return actor.id
  if (actor.role !== 'admin') throw new AppError('FORBIDDEN')
  const name = owner ?? app.config.auth.admin_username
  const { column, value } = parseUserIdentifier(name)
  const user = await db.selectFrom('users').select('id').where(column, '=', value).executeTakeFirst()
  if (!user) throw invalid('owner', `no user ${JSON.stringify(name)}`)
  return user.id
}

const reread = (trx: Trx, id: string): Promise<Document> =>
  select(trx, excerptLength).where('documents.id', '=', id).executeTakeFirstOrThrow()
