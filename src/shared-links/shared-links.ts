/** Shared links, as their creators manage them. visits.ts serves their visitors. */
import { randomBytes } from 'node:crypto'
import { type RawBuilder, sql } from 'kysely'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { databaseNow } from '../db/clock.ts'
import { byCreation } from '../db/keyset.ts'
import type { Db, Trx } from '../db/pool.ts'
import type { Row } from '../db/schema.ts'
import { type DeletionOptions, deleteInBatches } from '../db/statements.ts'
import { requireDocument } from '../documents/access.ts'
import { AppError, invalid } from '../errors.ts'
import { countRows, type FetchedPage, fetchPage, fetchSlice, type PageRequest, type Slice } from '../http/pages.ts'
import { countHit } from '../http/rate-limit.ts'

export const linkStatuses = ['usable', 'expired', 'revoked', 'exhausted'] as const

/** A link with the columns of its document. */
export interface SharedLink extends Row<'shared_links'>, Pick<Row<'documents'>, 'title' | 'filename' | 'size' | 'mime_type' | 'sha256'> {
  owner_id: string
  document_created_at: Date
  file_replaced_at: Date | null
  /** the document is in the trash */
  is_trashed: boolean
  creator: string
  /** true while its creator can see the document */
  is_creator_authorized: boolean
  /** by the database clock */
  is_expired: boolean
}

export interface LinkOptions {
  password?: string | null | undefined
  expires_at?: Date | null | undefined
  max_views?: number | null | undefined
}

/** Creates a link. Throws DOCUMENT_NOT_FOUND, VALIDATION_ERROR for an expiry in the past, SHARED_LINK_RATE_LIMITED. */
export async function create(app: App, actor: Actor, documentId: string, terms: LinkOptions): Promise<SharedLink> {
  const { password, expires_at = null, max_views = null } = terms
  if (expires_at && expires_at <= (await databaseNow(app.db))) throw invalid('expires_at', 'must be in the future')
  const document = await requireDocument(app.db, actor, documentId)
  const creation = { max: app.config.limits.shared_links_per_hour, windowSeconds: 3600 }
  if (actor.id !== null) await countHit(app, `shared-link:${actor.id}`, creation, 'SHARED_LINK_RATE_LIMITED')
  const password_hash = password ? await app.passwords.hash(password) : null
  return app.db.transaction().execute(async (trx) => {
    // Locks the document before the user, as every transaction does. The document then exists until the commit.
    const locked = await trx.selectFrom('live_documents').select('id').where('id', '=', document.id).forKeyShare().executeTakeFirst()
    if (!locked) throw new AppError('DOCUMENT_NOT_FOUND')
    const { id } = await trx
      .insertInto('shared_links')
      .values({
        document_id: document.id,
        // The operator is no user: the link belongs to the owner of the document.
        created_by: actor.id ?? document.owner_id,
        token: newToken(),
        password_hash,
        expires_at,
        max_views,
        created_at: app.now(),
      })
      .returning('id')
      .executeTakeFirstOrThrow()
    return selectLinks(trx).where('shared_links.id', '=', id).executeTakeFirstOrThrow()
  })
}

const newestFirst = byCreation('shared_links', 'desc')

/**
 * Returns one page of the actor's links, newest first. An admin gets the links of all users. Throws VALIDATION_ERROR for a cursor of another list.
 */
export const list = (app: App, actor: Actor, page: PageRequest): Promise<FetchedPage<SharedLink>> =>
  pageOfLinks(
    app,
    page,
    null,
    isAdmin(actor) ? sql<boolean>`true` : sql<boolean>`shared_links.created_by = ${actor.id} and documents.owner_id = ${actor.id}`,
  )

/** Returns one page of the links to a document, newest first. Throws DOCUMENT_NOT_FOUND, VALIDATION_ERROR for a cursor of another list. */
export async function listOfDocument(app: App, actor: Actor, documentId: string, page: PageRequest): Promise<FetchedPage<SharedLink>> {
  const { id } = await requireDocument(app.db, actor, documentId)
  return pageOfLinks(app, page, id, sql<boolean>`shared_links.document_id = ${id}`)
}

/** Revokes a link. Idempotent. Returns the id of its document. Throws SHARED_LINK_NOT_FOUND. */
export async function revoke(app: App, actor: Actor, id: string): Promise<string> {
  const link = await selectLinks(app.db).where('shared_links.id', '=', id).executeTakeFirst()
  if (!link || !(isAdmin(actor) || link.owner_id === actor.id)) throw new AppError('SHARED_LINK_NOT_FOUND')
  await app.db.updateTable('shared_links').set({ revoked_at: app.now() }).where('id', '=', id).where('revoked_at', 'is', null).execute()
  return link.document_id
}

/** Revokes all links that a user created. Returns the number of links that were not revoked before. */
export async function revokeAll(app: App, trx: Trx, userId: string): Promise<number> {
  const { numUpdatedRows } = await trx
    .updateTable('shared_links')
    .set({ revoked_at: app.now() })
    .where('created_by', '=', userId)
    .where('revoked_at', 'is', null)
    .executeTakeFirst()
  return Number(numUpdatedRows)
}

/** Revokes the links of a user to documents that were transferred to another user, who owns them from now on: visitors get 410 SHARED_LINK_REVOKED. */
export async function revokeTransferred(app: App, trx: Trx, from: string, to: string): Promise<void> {
  await sql`
    update shared_links set created_by = ${to}, revoked_at = coalesce(revoked_at, ${app.now()})
    from documents where documents.id = document_id and created_by = ${from} and owner_id = ${to}`.execute(trx)
}

/** Deletes links that expired or were revoked more than `ageMs` ago. Returns their number. */
export const deleteEnded = (db: Db, ageMs: number, options?: DeletionOptions): Promise<number> =>
  deleteInBatches(
    db,
    'shared_links',
    sql`select id from shared_links where least(expires_at, revoked_at) < now() - ${ageMs} * interval '1 ms'`,
    options,
  )

/** Returns the status of a link. The first of several reasons counts, in this order. */
export function statusOf(link: SharedLink): (typeof linkStatuses)[number] {
  if (link.revoked_at !== null || link.is_trashed || !link.is_creator_authorized) return 'revoked'
  if (link.is_expired) return 'expired'
  return link.max_views !== null && link.view_count >= link.max_views ? 'exhausted' : 'usable'
}

/** Condition that the creator of a link may see its document, which is joined with the user. */
const isCreatorAuthorized = sql<boolean>`not users.disabled and (users.role = 'admin' or documents.owner_id = users.id)`

/** Condition that the document of a link is not in the trash, and that the creator of the link may see it. */
export const isDocumentOpen = sql<boolean>`exists (
  select from documents join users on users.id = shared_links.created_by
  where documents.id = shared_links.document_id and documents.deleted_at is null and ${isCreatorAuthorized})`

/** Selects links with the columns of their documents. */
export const selectLinks = (db: Db | Trx) =>
  joinTables(db)
    .selectAll('shared_links')
    .select([
      'documents.title',
      'documents.filename',
      'documents.size',
      'documents.mime_type',
      'documents.sha256',
      'documents.owner_id',
      'documents.created_at as document_created_at',
      'documents.file_replaced_at',
      'users.username as creator',
    ])
    .select(isCreatorAuthorized.as('is_creator_authorized'))
    .select(sql<boolean>`documents.deleted_at is not null`.as('is_trashed'))
    .select(sql<boolean>`coalesce(shared_links.expires_at <= clock_timestamp(), false)`.as('is_expired'))

function pageOfLinks({ db }: App, page: PageRequest, documentId: string | null, condition: RawBuilder<boolean>) {
  const visible = sql<boolean>`documents.deleted_at is null and ${condition}`
  const fetch = (slice: Slice) => fetchSlice(selectLinks(db).where(visible), newestFirst, slice)
  return fetchPage(page, newestFirst, ['shared links', documentId], fetch, () => countRows(joinTables(db).where(visible)))
}

const joinTables = (db: Db | Trx) =>
  db
    .selectFrom('shared_links')
    .innerJoin('documents', 'documents.id', 'shared_links.document_id')
    .innerJoin('users', 'users.id', 'shared_links.created_by')

/** Returns 43 URL-safe characters that do not start like a command line option. */
function newToken(): string {
  const token = randomBytes(32).toString('base64url')
  return token.startsWith('-') ? newToken() : token
}
