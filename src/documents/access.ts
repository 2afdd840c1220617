/** Access to documents: users see their own, admins see all. */
import type { Actor } from '../actor.ts'
import { isAdmin } from '../actor.ts'
import type { Db } from '../db/pool.ts'
import { compileStatement } from '../db/statements.ts'
import { AppError, type Code } from '../errors.ts'
import { type Document, headLength, selectDocuments } from './view.ts'

const byId = compileStatement((db: Db, id: string) => selectDocuments(db, headLength).where('documents.id', '=', id))

/** Returns the document with the beginning of its text. Throws `missing` if it does not exist or the actor cannot see it. */
export async function requireDocument(db: Db, actor: Actor, id: string, missing: Code = 'DOCUMENT_NOT_FOUND'): Promise<Document> {
  const [document] = await byId(db, id)
  if (!document || !canSee(actor, document.owner_id)) throw new AppError(missing)
  return document
}

/** Returns id, owner and file name of the document. Throws `missing` if it does not exist or the actor cannot see it. */
export async function requireDocumentName(
  db: Db,
  actor: Actor,
  id: string,
  missing: Code = 'DOCUMENT_NOT_FOUND',
): Promise<{ id: string; owner_id: string; filename: string }> {
  const document = await db.selectFrom('documents').select(['id', 'owner_id', 'filename']).where('id', '=', id).executeTakeFirst()
  if (!document || !canSee(actor, document.owner_id)) throw new AppError(missing)
  return document
}

const canSee = (actor: Actor, ownerId: string): boolean => isAdmin(actor) || ownerId === actor.id
