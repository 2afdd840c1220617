/** From staged bytes to a document. */
import type { Actor } from '../actor.ts'
import type { App } from '../app.ts'
import type { Trx } from '../db/db.ts'
import { AppError, invalid } from '../errors.ts'
import { publish } from '../events.ts'
import { detectType } from '../extract/detect.ts'
import * as jobs from '../jobs.ts'
import type { StagedFile } from '../ports.ts'
import { setLabels } from './labelling.ts'
import { cleanFilename, titleOf } from './names.ts'
import { type Document, select } from './view.ts'

export interface NewDocument {
  filename: string
  title?: string | undefined
  labelIds?: readonly string[]
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
 * Makes a document of a staged file: bytes get their name, then row, job and event are committed in one transaction. When this returns, all of
 * it survives a power cut; when it throws, nothing of it is there. Throws VALIDATION_ERROR, DUPLICATE_RESOURCE.
 */
export async function store(app: App, trx: Trx, ownerId: string, staged: StagedFile, given: NewDocument): Promise<Stored> {
  if (staged.size === 0) throw invalid('file', 'the file is empty')
  // The lock on this row lets a removal of the same bytes, and another upload of them, pass either before us or after.
  await trx
    .insertInto('stored_files')
    .values({ sha256: staged.sha256, size: staged.size })
    .onConflict((conflict) => conflict.column('sha256').doUpdateSet({ size: staged.size }))
    .execute()
  const twin = await trx
    .selectFrom('documents')
    .select('id')
    .where('sha256', '=', staged.sha256)
    .where('owner_id', '=', ownerId)
    .orderBy('created_at')
    .orderBy('id')
    .limit(1)
    .executeTakeFirst()
  if (twin && given.onDuplicate === 'reject')
    throw new AppError('DUPLICATE_RESOURCE', { document_id: twin.id }, 'The same file is already here.')
  if (twin && given.onDuplicate === 'return') return { document: await reread(trx, twin.id), created: false }

  await staged.commit()
  const filename = cleanFilename(given.filename)
  const title = given.title?.trim() || titleOf(filename)
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
      metadata: '{}',
      duplicate_of: twin?.id ?? null,
      created_at: app.now(),
      updated_at: app.now(),
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
  await jobs.enqueue(trx, 'index', { document_id: id }, { dedupe: `index:${id}` })
  await publish(trx, 'document_created', ownerId, { document_id: id, title, source: null })
  return { document: await reread(trx, id), created: true }
}

/** The user that an upload belongs to; the operator at the shell must say whose it is. */
export async function ownerOf(app: App, actor: Actor, owner: string | undefined): Promise<string> {
  if (actor.id && !owner) return actor.id
  if (actor.role !== 'admin') throw new AppError('FORBIDDEN')
  const name = owner ?? app.config.auth.admin_username
  const user = await app.db
    .selectFrom('users')
    .select('id')
    .where((eb) =>
      eb.or([
        eb('username_key', '=', name.toLowerCase()),
        eb('email_key', '=', name.toLowerCase()),
        eb(eb.cast<string>('id', 'text'), '=', name.toLowerCase()),
      ]),
    )
    .executeTakeFirst()
  if (!user) throw invalid('owner', `no user ${JSON.stringify(name)}`)
  return user.id
}

/** Throws VALIDATION_ERROR naming the languages that are there, when one of `language` (codes joined by +) is not. */
export function checkLanguage(app: App, language: string): void {
  if (!app.ocr) return
  const installed = [...app.ocr.languages.keys()].filter((code) => code !== 'osd').sort()
  const missing = language.split('+').filter((code) => !installed.includes(code))
  if (missing.length > 0) throw invalid('language', `not installed: ${missing.join(', ')}; installed are ${installed.join(', ')}`)
}

const reread = (trx: Trx, id: string): Promise<Document> => select(trx).where('documents.id', '=', id).executeTakeFirstOrThrow()
