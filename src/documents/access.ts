/** Access to documents: users see their own, admins see all. */
import type { Actor } from '../actor.ts'
import { isAdmin } from '../actor.ts'
import type { Db } from '../db/pool.ts'
import { compileStatement } from '../db/statements.ts'
import { AppError, type Code } from '../errors.ts'
import { matchesEtag } from '../http/files.ts'
import { type Document, etag, headLength, selectAllDocuments } from './view.ts'

const byId = compileStatement((db: Db, id: string) => selectAllDocuments(db, headLength).where('documents.id', '=', id))

export interface AccessOptions {
  /** finds documents in the trash too */
  inTrash?: boolean
  /** code of the error */
  missing?: Code
}

/**
 * Returns the document with the beginning of its text. Throws DOCUMENT_NOT_FOUND if it does not exist or is in the trash, or if the actor cannot see
 * it.
 */
export async function requireDocument(db: Db, actor: Actor, id: string, options: AccessOptions = {}): Promise<Document> {
  const [document] = await byId(db, id)
  return requireVisible(actor, document, options)
}

/** Returns id, owner and file name of the document. Throws like requireDocument(). */
export async function requireDocumentName(
  db: Db,
  actor: Actor,
  id: string,
  options: AccessOptions = {},
): Promise<{ id: string; owner_id: string; filename: string }> {
  const columns = ['id', 'owner_id', 'filename', 'deleted_at'] as const
  const document = await db.selectFrom('documents').select(columns).where('id', '=', id).executeTakeFirst()
  return requireVisible(actor, document, options)
}

function requireVisible<T extends { owner_id: string; deleted_at: Date | null }>(
  actor: Actor,
  document: T | undefined,
  { inTrash = false, missing = 'DOCUMENT_NOT_FOUND' }: AccessOptions,
): T {
  if (!document || !(isAdmin(actor) || document.owner_id === actor.id)) throw new AppError(missing)
  if (!inTrash && document.deleted_at !== null)
    throw new AppError(
      missing,
      {},
      'The document is in the trash. Restore it with dms documents undelete (POST /api/documents/{id}/undelete).',
    )
  return document
}

/** Throws DOCUMENT_NOT_FOUND with the first of the ids that is not among the `existing` ones. */
export function requireAll(ids: readonly string[], existing: readonly string[]): void {
  const known = new Set(existing)
  const missing = ids.find((id) => !known.has(id))
  if (missing !== undefined) throw new AppError('DOCUMENT_NOT_FOUND', { document_id: missing }, `The document ${missing} does not exist.`)
}

/** Throws PRECONDITION_FAILED unless `ifMatch`, the If-Match header, is null or has the ETag of the document. */
export function requireMatch(document: Document, ifMatch: string | null): void {
  if (ifMatch !== null && !matchesEtag(ifMatch, etag(document))) throw new AppError('PRECONDITION_FAILED')
}
