/** Sources: external locations whose files become documents of the owner. */

import { sql } from 'kysely'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { databaseNow } from '../db/clock.ts'
import { keyset, type RowWithCursorKey } from '../db/keyset.ts'
import type { Db, Trx } from '../db/pool.ts'
import type { Role, Row } from '../db/schema.ts'
import type { SplitMode } from '../db/schema-documents.ts'
import { allowLongStatements } from '../db/statements.ts'
import * as documents from '../documents/documents.ts'
import { assertDeletable } from '../documents/retention.ts'
import { resolveOwner } from '../documents/store-document.ts'
import { discardDocuments } from '../documents/trash/trash.ts'
import { AppError, invalid, validateTogether } from '../errors.ts'
import { countRows, type FetchedPage, fetchSlice, fetchWhole, type WholeInput } from '../http/pages.ts'
import { decryptReplaced, encryptCredentials, noCredentials } from './credentials.ts'
import { validatePatterns } from './globs.ts'
import { assertTypeAllowed, originOf, type SourceTarget, validateAddress } from './open-source.ts'
import { cancelSyncs } from './sync/cancel-syncs.ts'
import * as folderTags from './sync/folder-tags.ts'
import * as ledger from './sync/ledger.ts'
import * as runs from './sync/run-records.ts'

export interface Source extends Row<'sources'> {
  document_count: number
  is_syncing: boolean
}

export interface NewSource extends SourceTarget {
  name: string
  sync_interval?: number | undefined
  file_patterns: readonly string[]
  /** null: as configured */
  split?: SplitMode | null | undefined
  /** id or name of the owner (admins only) */
  owner?: string | undefined
}

export interface SourceChanges extends Partial<Omit<NewSource, 'owner'>> {
  status?: 'active' | 'disabled' | undefined
}

const byName = keyset({ by: sql`lower(sources.name)`, type: 'text', order: 'asc' }, { by: 'sources.id', type: 'id', order: 'asc' })

/** Lists own sources, for an admin all, by name. Throws VALIDATION_ERROR for a cursor of another list. */
export const list = (app: App, actor: Actor, page: WholeInput = {}): Promise<FetchedPage<Source & RowWithCursorKey>> =>
  fetchWhole(page, byName, 'sources', (slice) => {
    const visible = select(app.db).$if(!isAdmin(actor), (query) => query.where('sources.owner_id', '=', actor.id))
    return fetchSlice(visible, byName, slice)
  })

/** Returns a source. Throws SOURCE_NOT_FOUND. */
export async function get(app: App, actor: Actor, id: string, db: Db = app.db): Promise<Source> {
  const source = await select(db).where('sources.id', '=', id).executeTakeFirst()
  if (!source || !canSee(actor, source)) throw new AppError('SOURCE_NOT_FOUND')
  return source
}

/** Limits what the schedule of all sources examines. Admins have no limit. */
const maxSourcesPerUser = 100

/** Creates a source. The schedule starts its first sync. Throws VALIDATION_ERROR, FORBIDDEN, CONFLICT if a user has too many. */
export async function create(app: App, actor: Actor, { owner, username, password, ...fields }: NewSource): Promise<Source> {
  assertTypeAllowed(actor, fields.type)
  return app.db.transaction().execute(async (trx) => {
    const ownerId = await resolveOwner(app, trx, actor, owner)
    const ownerRole = await readRole(trx, ownerId)
    if (!isAdmin(actor)) await requireFewSources(trx, ownerId)
    await validateTogether([validateAddress(app, { ...fields, username, password }, ownerRole), validatePatterns(fields.file_patterns)])
    const sync_interval = fields.sync_interval ?? Math.round(app.config.sources.default_interval / 1000)
    const at = await databaseNow(trx)
    const { id } = await trx
      .insertInto('sources')
      .values({
        ...fields,
        file_patterns: [...fields.file_patterns],
        owner_id: ownerId,
        sync_interval,
        next_sync: sync_interval === 0 ? null : at,
        totals: '{}',
        ...folderGrant(actor, fields.type, ownerRole),
        created_at: at,
        updated_at: at,
      })
      .returning('id')
      .executeTakeFirstOrThrow()
    const credentials = await encryptCredentials(app, trx, id, { username: username || null, password: password || null })
    await trx.updateTable('sources').set({ credentials }).where('id', '=', id).execute()
    return get(app, actor, id, trx)
  })
}

/**
 * Updates a source. Keeps the stored password, except when the URL moves to another origin, which must not receive it. Throws SOURCE_NOT_FOUND,
 * VALIDATION_ERROR, FORBIDDEN.
 */
export async function update(
  app: App,
  actor: Actor,
  id: string,
  { username, password, type, file_patterns, ...changes }: SourceChanges,
): Promise<Source> {
  return app.db.transaction().execute(async (trx) => {
    // Before the lock of the source: the end of a run locks in this order too.
    const isCancelled = await cancelOutdatedSyncs(trx, await get(app, actor, id, trx), { ...changes, file_patterns })
    const source = await lockSource(trx, actor, id)
    if (type !== undefined && type !== source.type) throw invalid('type', 'the type of a source cannot change')
    const { url = source.url, recursive = source.recursive, sync_interval = source.sync_interval } = changes
    const isUrlChanged = url !== source.url
    const isOriginChanged = originOf(url) !== originOf(source.url)
    const hasNewCredentials = username !== undefined || password !== undefined || isOriginChanged
    if (isUrlChanged) assertTypeAllowed(actor, source.type)
    const existing = isOriginChanged ? noCredentials : await decryptReplaced(app, source, { username, password })
    const credentials = {
      username: username === undefined ? existing.username : username || null,
      password: password === undefined ? existing.password : password || null,
    }
    const address = { type: source.type, url, recursive, ...credentials }
    await validateTogether([
      isUrlChanged || hasNewCredentials ? validateAddress(app, address, await readRole(trx, source.owner_id)) : undefined,
      validatePatterns(file_patterns ?? []),
    ])
    // A client may send an active source as it read it.
    const isActivated = changes.status === 'active' && source.status !== 'active'
    const grant = isUrlChanged || isActivated ? folderGrant(actor, source.type, await readRole(trx, source.owner_id)) : {}
    // The change may have fixed the last error, so the source is synced at once.
    const isDue = isUrlChanged || hasNewCredentials || isActivated || (isCancelled && changes.status !== 'disabled')
    const at = await databaseNow(trx)
    const isRescheduled = sync_interval !== source.sync_interval
    const next = isDue ? at : isRescheduled ? addSeconds(source.last_sync ?? at, sync_interval) : source.next_sync
    await trx
      .updateTable('sources')
      .set({
        ...changes,
        ...(file_patterns ? { file_patterns: [...file_patterns] } : {}),
        ...(hasNewCredentials ? { credentials: await encryptCredentials(app, trx, id, credentials) } : {}),
        ...grant,
        next_sync: sync_interval === 0 ? null : next,
        updated_at: at,
      })
      .where('id', '=', id)
      .execute()
    if (takesOtherFiles(source, { ...changes, file_patterns })) await folderTags.deleteTags(trx, id)
    if (isUrlChanged) await ledger.resetVersions(trx, id)
    return get(app, actor, id, trx)
  })
}

/** Cancels syncs if a change disables the source, or changes its address or which files it takes. Returns whether there were any. */
async function cancelOutdatedSyncs(trx: Trx, source: Source, changes: SourceChanges): Promise<boolean> {
  if (changes.status !== 'disabled' && !takesOtherFiles(source, changes)) return false
  const { jobIds, runCount } = await cancelSyncs(trx, source.id)
  return runCount + jobIds.length > 0
}

/** Tells if changes give a source another address, or another choice of files. */
const takesOtherFiles = ({ url, recursive, file_patterns }: Row<'sources'>, changes: SourceChanges): boolean =>
  (changes.url ?? url) !== url ||
  (changes.recursive ?? recursive) !== recursive ||
  JSON.stringify(changes.file_patterns ?? file_patterns) !== JSON.stringify(file_patterns)

/** Deletes a source, and with `withDocuments` moves its documents to the trash. Throws SOURCE_NOT_FOUND, RETENTION. */
export async function remove(app: App, actor: Actor, id: string, { withDocuments }: { withDocuments: boolean }): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    await allowLongStatements(trx)
    await get(app, actor, id, trx)
    await runs.preventStarts(trx, [id])
    await runs.cancelActiveJobs(trx, id)
    // A running sync locks this row for each write. After the deletion it finds no row and stops.
    await trx.deleteFrom('source_syncs').where('source_id', '=', id).execute()
    const ids = await documents.lockOfSource(trx, id, { isDeletion: withDocuments })
    if (withDocuments) await assertDeletable(trx, ids)
    else await documents.detachFromSource(trx, id)
    const { numDeletedRows } = await trx.deleteFrom('sources').where('id', '=', id).executeTakeFirst()
    if (numDeletedRows === 0n) throw new AppError('SOURCE_NOT_FOUND')
    if (withDocuments) await discardDocuments(app, trx, actor, ids)
  })
}

/**
 * Deletes the syncs of a user's sources, before the user is deleted. A running sync locks its row before all others: a transaction that waits for it
 * first cannot deadlock with it. Without its row the sync stops.
 */
export async function deleteSyncs(trx: Trx, ownerId: string): Promise<void> {
  const owned = trx.selectFrom('sources').select('id').where('owner_id', '=', ownerId)
  const ids = (await owned.execute()).map(({ id }) => id)
  await runs.preventStarts(trx, ids)
  await trx.deleteFrom('source_syncs').where('source_id', 'in', owned).execute()
}

/** Disables all sources of a user and cancels their syncs. Returns the number of sources that were enabled. */
export async function disableAll(app: App, trx: Trx, ownerId: string): Promise<number> {
  const enabled = trx.selectFrom('sources').select('id').where('owner_id', '=', ownerId).where('status', '!=', 'disabled').orderBy('id')
  const ids = (await enabled.execute()).map(({ id }) => id)
  // Before the sources: a running sync locks its own row first.
  for (const id of ids) await cancelSyncs(trx, id)
  if (ids.length > 0) await trx.updateTable('sources').set({ status: 'disabled', updated_at: app.now() }).where('id', 'in', ids).execute()
  return ids.length
}

/** Returns the columns that grant a server folder to a non-admin owner; none if no grant is needed or the actor is no admin. */
function folderGrant(actor: Actor, type: Row<'sources'>['type'], ownerRole: Role) {
  if (type !== 'local_folder' || ownerRole === 'admin' || !isAdmin(actor)) return {}
  return { granted_by: actor.id, is_granted_by_operator: actor.id === null }
}

const addSeconds = (time: Date, seconds: number): Date => new Date(time.getTime() + seconds * 1000)

/** Locks the row of a source until the transaction ends. Throws SOURCE_NOT_FOUND. */
export async function lockSource(trx: Trx, actor: Actor, id: string): Promise<Row<'sources'>> {
  const source = await trx.selectFrom('sources').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
  if (!source || !canSee(actor, source)) throw new AppError('SOURCE_NOT_FOUND')
  return source
}

/** Returns the role of a user. Throws USER_NOT_FOUND. */
async function readRole(db: Db, userId: string): Promise<Role> {
  const users = db.selectFrom('users').select('role').where('id', '=', userId)
  return (await users.executeTakeFirstOrThrow(() => new AppError('USER_NOT_FOUND'))).role
}

/** Throws CONFLICT if the user has the maximum number of sources. */
async function requireFewSources(trx: Trx, userId: string): Promise<void> {
  if ((await countRows(trx.selectFrom('sources').where('owner_id', '=', userId))) >= maxSourcesPerUser)
    throw new AppError('CONFLICT', {}, `A user can have at most ${maxSourcesPerUser} sources. Delete unused ones first.`)
}

const canSee = (actor: Actor, source: { owner_id: string }): boolean => isAdmin(actor) || source.owner_id === actor.id

const select = (db: Db) =>
  db
    .selectFrom('sources')
    .selectAll('sources')
    .select((eb) => [
      eb
        .selectFrom('live_documents as documents')
        .whereRef('documents.source_id', '=', 'sources.id')
        .select(sql<number>`count(*)`.as('total'))
        .$asScalar()
        .as('document_count'),
      runs.isSyncing.as('is_syncing'),
    ])
    .$castTo<Source>()
