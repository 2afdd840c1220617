/** Sources: places that documents are pulled from. Each belongs to a user; its run is in run-sync.ts. */
import { sql } from 'kysely'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import { keyset, type RowWithCursorKey } from '../db/keyset.ts'
import type { Db, Trx } from '../db/pool.ts'
import type { Role, Row } from '../db/schema.ts'
import * as documents from '../documents/documents.ts'
import { resolveOwner } from '../documents/store-document.ts'
import { AppError, invalid } from '../errors.ts'
import { type FetchedPage, fetchWhole, type WholeInput } from '../http/pages.ts'
import * as jobs from '../jobs/queue.ts'
import { type Address, check, checkType, originOf } from './address.ts'
import { compileGlobs } from './globs.ts'
import { type Credentials, seal, unseal } from './secrets.ts'
import { liveJobs } from './sync/enqueue-sync.ts'
import * as folders from './sync/folder-tags.ts'
import * as ledger from './sync/ledger.ts'
import * as runs from './sync/run-records.ts'

export interface Source extends Row<'sources'> {
  document_count: number
  is_syncing: boolean
}

export interface Fields extends Address {
  name: string
  sync_interval?: number | undefined
  file_patterns: readonly string[]
  /** admins: whose it becomes */
  owner?: string | undefined
}

export interface Changes extends Partial<Omit<Fields, 'owner'>> {
  status?: 'active' | 'disabled' | undefined
}

const byName = keyset({ by: sql`lower(sources.name)`, type: 'text', order: 'asc' }, { by: 'sources.id', type: 'id', order: 'asc' })

/** What the actor may see, all of it or a page: own sources, an admin all; by name. Throws VALIDATION_ERROR for a cursor of another list. */
export const list = (app: App, actor: Actor, wanted: WholeInput = {}): Promise<FetchedPage<Source & RowWithCursorKey>> =>
  fetchWhole(wanted, byName, 'sources', ({ limit, after }) => {
    const all = select(app.db).$if(!isAdmin(actor), (query) => query.where('sources.owner_id', '=', actor.id))
    return byName
      .orderBy(after ? all.where(byName.isAfter(after)) : all)
      .select(byName.key)
      .limit(limit)
      .$castTo<Source & RowWithCursorKey>()
      .execute()
  })

/** One source. Throws SOURCE_NOT_FOUND. */
export async function get(app: App, actor: Actor, id: string, db: Db = app.db): Promise<Source> {
  const source = await select(db).where('sources.id', '=', id).executeTakeFirst()
  if (!source || !maySee(actor, source)) throw new AppError('SOURCE_NOT_FOUND')
  return source
}

/** Makes one; it is synced first when the schedule comes by. Throws VALIDATION_ERROR, FORBIDDEN. */
export async function create(app: App, actor: Actor, { owner, username, password, ...fields }: Fields): Promise<Source> {
  checkType(actor, fields.type)
  return app.db.transaction().execute(async (trx) => {
    const ownerId = await resolveOwner(app, trx, actor, owner)
    const ownerRole = await roleOf(trx, ownerId)
    await check(app, { ...fields, username, password }, ownerRole)
    checkPatterns(fields.file_patterns)
    const sync_interval = fields.sync_interval ?? Math.round(app.config.sources.default_interval / 1000)
    const at = app.now()
    const { id } = await trx
      .insertInto('sources')
      .values({
        ...fields,
        file_patterns: [...fields.file_patterns],
        owner_id: ownerId,
        sync_interval,
        next_sync: sync_interval === 0 ? null : at,
        totals: '{}',
        ...grantBy(actor, fields.type, ownerRole),
        created_at: at,
        updated_at: at,
      })
      .returning('id')
      .executeTakeFirstOrThrow()
    const credentials = await seal(app, trx, id, { username: username || null, password: password || null })
    await trx.updateTable('sources').set({ credentials }).where('id', '=', id).execute()
    return get(app, actor, id, trx)
  })
}

/**
 * Changes one. A password that is not given stays, unless the source moves to another server, which must not get it. Throws SOURCE_NOT_FOUND,
 * VALIDATION_ERROR, FORBIDDEN.
 */
export async function update(
  app: App,
  actor: Actor,
  id: string,
  { username, password, type, file_patterns, ...changes }: Changes,
): Promise<Source> {
  return app.db.transaction().execute(async (trx) => {
    const source = await locked(trx, actor, id)
    if (type !== undefined && type !== source.type) throw invalid('type', 'the type of a source cannot change')
    const { url = source.url, recursive = source.recursive, sync_interval = source.sync_interval } = changes
    const isMoved = url !== source.url
    const isElsewhere = originOf(url) !== originOf(source.url)
    const isNewKey = username !== undefined || password !== undefined || isElsewhere
    if (isMoved) checkType(actor, source.type)
    if (file_patterns) checkPatterns(file_patterns)
    const kept = isElsewhere ? { username: null, password: null } : await unsealOr(app, source)
    const credentials = {
      username: username === undefined ? kept.username : username || null,
      password: password === undefined ? kept.password : password || null,
    }
    if (isMoved || isNewKey) await check(app, { type: source.type, url, recursive, ...credentials }, await roleOf(trx, source.owner_id))
    const grant = isMoved || changes.status === 'active' ? grantBy(actor, source.type, await roleOf(trx, source.owner_id)) : {}
    // What was refused or out of reach may not be so any more.
    const isDue = isMoved || isNewKey || changes.status === 'active'
    const at = app.now()
    const next = isDue ? at : changes.sync_interval === undefined ? source.next_sync : after(source.last_sync ?? at, sync_interval)
    await trx
      .updateTable('sources')
      .set({
        ...changes,
        ...(file_patterns ? { file_patterns: [...file_patterns] } : {}),
        ...(isNewKey ? { credentials: await seal(app, trx, id, credentials) } : {}),
        ...grant,
        next_sync: sync_interval === 0 ? null : next,
        updated_at: at,
      })
      .where('id', '=', id)
      .execute()
    if (isMoved || file_patterns || recursive !== source.recursive) await folders.forget(trx, id)
    if (isMoved) await ledger.doubt(trx, id)
    return get(app, actor, id, trx)
  })
}

/** Removes one, and with `andDocuments` all that came from it; else the documents stay. Throws SOURCE_NOT_FOUND. */
export async function remove(app: App, actor: Actor, id: string, andDocuments: boolean): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    await get(app, actor, id, trx)
    // Whoever syncs it holds this row whenever it writes: we pass before that or after, and it finds nothing more to write to.
    await trx.deleteFrom('source_syncs').where('source_id', '=', id).execute()
    await jobs.cancel(
      trx,
      (await liveJobs(trx, id)).map((job) => job.id),
    )
    if (andDocuments) await documents.removeOfSource(trx, id)
    const { numDeletedRows } = await trx.deleteFrom('sources').where('id', '=', id).executeTakeFirst()
    if (numDeletedRows === 0n) throw new AppError('SOURCE_NOT_FOUND')
  })
}

/** Disables all sources of a user and cancels their syncs; returns how many were not disabled before. */
export async function disableAll(app: App, trx: Trx, ownerId: string): Promise<number> {
  const disabled = await trx
    .updateTable('sources')
    .set({ status: 'disabled', updated_at: app.now() })
    .where('owner_id', '=', ownerId)
    .where('status', '!=', 'disabled')
    .returning('id')
    .execute()
  for (const { id } of disabled) {
    const live = await liveJobs(trx, id)
    await jobs.cancel(
      trx,
      live.map((job) => job.id),
    )
  }
  return disabled.length
}

/** What says that an admin lets a normal user have a folder of the server; nothing where the owner needs no leave, or the actor cannot give it. */
function grantBy(actor: Actor, type: Row<'sources'>['type'], ownerRole: Role) {
  if (type !== 'local_folder' || ownerRole === 'admin' || !isAdmin(actor)) return {}
  return { granted_by: actor.id, is_granted_by_operator: actor.id === null }
}

/** Throws VALIDATION_ERROR at the first glob that is none, or at the field where all of them together are too long. */
function checkPatterns(patterns: readonly string[]): void {
  const check = (path: string, some: readonly string[]) => {
    try {
      compileGlobs(some)
    } catch (error) {
      throw invalid(path, (error as Error).message)
    }
  }
  for (const [index, pattern] of patterns.entries()) check(`file_patterns.${index}`, [pattern])
  check('file_patterns', patterns)
}

const after = (time: Date, seconds: number): Date => new Date(time.getTime() + seconds * 1000)

/** Nothing where they cannot be opened any more: whoever changes the source gives them again. */
const unsealOr = (app: App, source: Row<'sources'>): Promise<Credentials> =>
  unseal(app, source.id, source.credentials).catch(() => ({ username: null, password: null }))

/** The source, kept from others until the transaction ends. Throws SOURCE_NOT_FOUND. */
export async function locked(trx: Trx, actor: Actor, id: string): Promise<Row<'sources'>> {
  const source = await trx.selectFrom('sources').selectAll().where('id', '=', id).forUpdate().executeTakeFirst()
  if (!source || !maySee(actor, source)) throw new AppError('SOURCE_NOT_FOUND')
  return source
}

async function roleOf(db: Db, userId: string): Promise<Role> {
  return (await db.selectFrom('users').select('role').where('id', '=', userId).executeTakeFirstOrThrow()).role
}

const maySee = (actor: Actor, source: { owner_id: string }): boolean => isAdmin(actor) || source.owner_id === actor.id

const select = (db: Db) =>
  db
    .selectFrom('sources')
    .selectAll('sources')
    .select((eb) => [
      eb
        .selectFrom('documents')
        .whereRef('documents.source_id', '=', 'sources.id')
        .select(sql<number>`count(*)`.as('total'))
        .$asScalar()
        .as('document_count'),
      runs.isSyncing('sources.id').as('is_syncing'),
    ])
    .$castTo<Source>()
