/** Who may see a document. */
import type { Actor } from '../actor.ts'
import { isAdmin } from '../actor.ts'
import { compileStatement } from '../db/compiled-query.ts'
import type { Db } from '../db/pool.ts'
import { AppError, type Code } from '../errors.ts'
import { type Document, headLength, select } from './view.ts'

const byId = compileStatement((db: Db, id: string) => select(db, headLength).where('documents.id', '=', id))

/** The document with the head of its text, if the actor may know of it; to everybody else it does not exist: throws `missing`. */
export async function visible(db: Db, actor: Actor, id: string, missing: Code = 'DOCUMENT_NOT_FOUND'): Promise<Document> {
  const [document] = await byId(db, id)
  if (!document || !maySee(actor, document.owner_id)) throw new AppError(missing)
  return document
}

/** Whose document it is and how it is called, without its text and what hangs on it. Throws `missing` as visible() does. */
export async function visibleName(
  db: Db,
  actor: Actor,
  id: string,
  missing: Code = 'DOCUMENT_NOT_FOUND',
): Promise<{ id: string; owner_id: string; filename: string }> {
  const document = await db.selectFrom('documents').select(['id', 'owner_id', 'filename']).where('id', '=', id).executeTakeFirst()
  if (!document || !maySee(actor, document.owner_id)) throw new AppError(missing)
  return document
}

/** A user sees own documents, an admin all. */
const maySee = (actor: Actor, ownerId: string): boolean => isAdmin(actor) || ownerId === actor.id
