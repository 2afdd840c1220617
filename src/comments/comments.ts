/** Comments on documents, readable and writable by everyone who can see the document. Replies are one level deep. */
import { sql } from 'kysely'
import { jsonArrayFrom } from 'kysely/helpers/postgres'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { byCreation, type Keyset } from '../db/keyset.ts'
import { type Db, isForeignKeyViolation, type Trx } from '../db/pool.ts'
import type { Role, Row } from '../db/schema.ts'
import { requireDocumentName } from '../documents/access.ts'
import { AppError, invalid } from '../errors.ts'
import { countRows, type FetchedPage, fetchPage, fetchSlice, type Query } from '../http/pages.ts'
import { countHit } from '../http/rate-limit.ts'
import { isId } from '../id.ts'
import { notify } from '../notifications/notifications.ts'

export interface Comment extends Omit<Row<'comments'>, 'deleted_username'> {
  /** of a deleted author: the name at that time */
  username: string
  /** null: the author was deleted */
  user_role: Role | null
}

/** A top-level comment. */
export interface Thread extends Comment {
  reply_count: number
  /** the first replies, oldest first; times as ISO strings */
  replies: (Omit<Comment, 'created_at' | 'updated_at'> & { created_at: string; updated_at: string })[]
}

interface NewComment {
  content: string
  /** comment that this one replies to */
  parent_id?: string | null | undefined
}

export interface Span {
  limit: number
  offset: number
  /** `next_cursor` of the previous page */
  cursor?: string | undefined
}

const newestFirst = byCreation('comments', 'desc')
const oldestFirst = byCreation('comments', 'asc')

/** Maximum length of a comment, in code points. */
const maxLength = 10_000
/** Maximum number of replies in a list of comments. */
const maxInlineReplies = 3
const total = sql<number>`count(*)`.as('total')
/** Maximum length of an excerpt in a notification, in code points. */
const excerptLength = 200

/** Returns top-level comments, newest first, each with its first replies. Throws COMMENT_DOCUMENT_NOT_FOUND. */
export async function list(app: App, actor: Actor, documentId: string, span: Span): Promise<FetchedPage<Thread>> {
  await requireReadable(app.db, actor, documentId, { inTrash: true })
  const threads = selectComments(app.db).where('comments.document_id', '=', documentId).where('comments.parent_id', 'is', null)
  const withReplies = threads
    .select((eb) => [
      eb.selectFrom('comments as reply').whereRef('reply.parent_id', '=', 'comments.id').select(total).$asScalar().as('reply_count'),
      jsonArrayFrom(
        eb
          .selectFrom('comments as reply')
          .leftJoin('users as replier', 'replier.id', 'reply.user_id')
          .whereRef('reply.parent_id', '=', 'comments.id')
          .selectAll('reply')
          .select([sql<string>`coalesce(replier.username, reply.deleted_username)`.as('username'), 'replier.role as user_role'])
          .orderBy('reply.created_at')
          .orderBy('reply.id')
          .limit(maxInlineReplies),
      ).as('replies'),
    ])
    .$castTo<Thread>()
  const all = app.db.selectFrom('comments').where('document_id', '=', documentId).where('parent_id', 'is', null)
  return fetchSpan(span, newestFirst, ['comments', documentId], withReplies, all)
}

/** Returns replies to a comment, oldest first. Throws COMMENT_DOCUMENT_NOT_FOUND, COMMENT_NOT_FOUND. */
export async function replies(app: App, actor: Actor, documentId: string, id: string, span: Span): Promise<FetchedPage<Comment>> {
  await requireReadable(app.db, actor, documentId, { inTrash: true })
  await getComment(app.db, documentId, id)
  const listed = selectComments(app.db).where('comments.parent_id', '=', id)
  return fetchSpan(span, oldestFirst, ['replies', id], listed, app.db.selectFrom('comments').where('parent_id', '=', id))
}

/** Fetches a page that begins at an offset of entries. `all`: query that counts the entries. */
function fetchSpan<Row>(
  { limit, offset, cursor }: Span,
  order: Keyset,
  filters: unknown,
  listed: Query<Row>,
  all: Query<object>,
): Promise<FetchedPage<Row>> {
  if (cursor !== undefined && offset > 0) throw invalid('offset', 'cannot be combined with cursor')
  const page = { page: 1, per_page: limit, cursor }
  return fetchPage(
    page,
    order,
    filters,
    (slice) => fetchSlice(listed, order, { ...slice, offset }),
    () => countRows(all),
  )
}

/** Returns the number of comments on a document, including replies. Throws COMMENT_DOCUMENT_NOT_FOUND. */
export async function count(app: App, actor: Actor, documentId: string): Promise<number> {
  await requireReadable(app.db, actor, documentId, { inTrash: true })
  return countRows(app.db.selectFrom('comments').where('document_id', '=', documentId))
}

/** Creates a comment and notifies the document's owner. Throws FORBIDDEN for the operator, COMMENT_* otherwise. */
export async function create(app: App, actor: Actor, documentId: string, { content, parent_id = null }: NewComment): Promise<Comment> {
  const { id: userId, username } = actor
  if (userId === null) throw new AppError('FORBIDDEN', {}, 'Only users can comment. The operator has no user account.')
  const document = await requireReadable(app.db, actor, documentId)
  checkContent(content)
  if (parent_id !== null) await requireThread(app.db, documentId, parent_id)
  const max = app.config.limits.comments_per_minute
  if (max > 0) await countHit(app, `comment:${userId}`, { max, windowSeconds: 60 }, 'COMMENT_RATE_LIMITED')
  return app.db.transaction().execute(async (trx) => {
    const at = app.now()
    const values = { document_id: document.id, parent_id, user_id: userId, content, created_at: at, updated_at: at }
    const insert = trx.insertInto('comments').values(values).returning('id').executeTakeFirstOrThrow()
    const { id } = await insert.catch((error) => {
      // The document or the parent was deleted meanwhile.
      if (isForeignKeyViolation(error)) throw new AppError(parent_id === null ? 'COMMENT_DOCUMENT_NOT_FOUND' : 'COMMENT_NOT_FOUND')
      throw error
    })
    if (document.owner_id !== userId) {
      const message = `${username} commented on ${document.filename}: ${excerptOf(content)}`
      const data = { document_id: document.id, comment_id: id }
      await notify(app, trx, document.owner_id, 'comment_added', { title: 'New comment', message, data })
    }
    return readComment(trx, id)
  })
}

/** Updates a comment; only its author may. Throws COMMENT_*. */
export async function update(app: App, actor: Actor, documentId: string, id: string, content: string): Promise<Comment> {
  await requireReadable(app.db, actor, documentId)
  const { user_id } = await getComment(app.db, documentId, id)
  // The operator has no id either.
  if (user_id === null || user_id !== actor.id) throw new AppError('COMMENT_PERMISSION_DENIED')
  checkContent(content)
  return app.db.transaction().execute(async (trx) => {
    await trx.updateTable('comments').set({ content, is_edited: true, updated_at: app.now() }).where('id', '=', id).execute()
    return readComment(trx, id)
  })
}

/** Deletes a comment and its replies; only its author and admins may. Throws COMMENT_*. */
export async function remove(app: App, actor: Actor, documentId: string, id: string): Promise<void> {
  await requireReadable(app.db, actor, documentId)
  const { user_id } = await getComment(app.db, documentId, id)
  if (user_id !== actor.id && !isAdmin(actor)) throw new AppError('COMMENT_PERMISSION_DENIED')
  const { numDeletedRows } = await app.db.deleteFrom('comments').where('id', '=', id).executeTakeFirst()
  if (numDeletedRows === 0n) throw new AppError('COMMENT_NOT_FOUND')
}

const requireReadable = (db: Db, actor: Actor, documentId: string, { inTrash = false } = {}) =>
  requireDocumentName(db, actor, documentId, { inTrash, missing: 'COMMENT_DOCUMENT_NOT_FOUND' })

/** Finds a comment of this document only. */
const getComment = (db: Db, documentId: string, id: string): Promise<Pick<Row<'comments'>, 'user_id' | 'parent_id'>> =>
  db
    .selectFrom('comments')
    .select(['user_id', 'parent_id'])
    .where('id', '=', id)
    .where('document_id', '=', documentId)
    .executeTakeFirstOrThrow(() => new AppError('COMMENT_NOT_FOUND'))

async function requireThread(db: Db, documentId: string, id: string): Promise<void> {
  if (!isId(id)) throw new AppError('COMMENT_NOT_FOUND')
  if ((await getComment(db, documentId, id)).parent_id !== null) throw new AppError('COMMENT_NESTING_TOO_DEEP')
}

function checkContent(content: string): void {
  if (content.trim() === '') throw new AppError('COMMENT_CONTENT_EMPTY')
  // A string has at most two code units per code point, so most long texts need not be split.
  if (content.length > 2 * maxLength || [...content].length > maxLength)
    throw new AppError('COMMENT_CONTENT_TOO_LONG', { max_length: maxLength })
}

function excerptOf(content: string): string {
  const characters = [...content.trim().replaceAll(/\s+/g, ' ')]
  return characters.length > excerptLength ? `${characters.slice(0, excerptLength - 1).join('')}…` : characters.join('')
}

/** Returns the comment. Throws COMMENT_NOT_FOUND if it was deleted meanwhile. */
const readComment = (trx: Trx, id: string): Promise<Comment> =>
  selectComments(trx)
    .where('comments.id', '=', id)
    .executeTakeFirstOrThrow(() => new AppError('COMMENT_NOT_FOUND'))

const selectComments = (db: Db) =>
  db
    .selectFrom('comments')
    .leftJoin('users', 'users.id', 'comments.user_id')
    .selectAll('comments')
    .select([sql<string>`coalesce(users.username, comments.deleted_username)`.as('username'), 'users.role as user_role'])
