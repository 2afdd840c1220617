/** Sources: places that documents are pulled from. Each belongs to a user; its run is in run-sync.ts. */
import { sql } from 'kysely'
import { type Actor, isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import type { Db, Trx } from '../db/db.ts'
import type { Role, Row } from '../db/schema.ts'
import * as documents from '../documents/documents.ts'
import { ownerOf } from '../documents/upload.ts'
import { AppError, invalid } from '../errors.ts'
import * as jobs from '../jobs.ts'
import { type SourceConnection, SourceFailure } from '../ports/sources.ts'
import * as folders from './folders.ts'
import { wanted } from './globs.ts'
import * as ledger from './ledger.ts'
import * as runs from './runs.ts'
import { type Credentials, seal, unseal } from './secrets.ts'
import { types } from './types/all.ts'

export type Type = Row<'sources'>['type']

export interface Source extends Row<'sources'> {
  document_count: number
  is_syncing: boolean
}

export interface Address {
  type: Type
  url: string
  username?: string | null | undefined
  password?: string | null | undefined
  recursive: boolean
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

export interface Tested {
  ok: boolean
  checks: { name: string; ok: boolean; message: string }[]
  sample: string[]
}

/** Milliseconds that a test may take. */
const testPatience = 30_000

/** What the actor may see: own sources, an admin all; by name. */
export const list = (app: App, actor: Actor): Promise<Source[]> =>
  select(app.db)
    .$if(!isAdmin(actor), (query) => query.where('sources.owner_id', '=', actor.id))
    .orderBy(sql`lower(sources.name)`)
    .orderBy('sources.id')
    .execute()

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
    const ownerId = await ownerOf(app, trx, actor, owner)
    check(app, { ...fields, username, password }, await roleOf(trx, ownerId))
    checkPatterns(fields.file_patterns)
    const sync_interval = fields.sync_interval ?? Math.round(app.config.sources.default_interval / 1000)
    const { id } = await trx
      .insertInto('sources')
      .values({
        ...fields,
        file_patterns: [...fields.file_patterns],
        owner_id: ownerId,
        sync_interval,
        next_sync: sync_interval === 0 ? null : app.now(),
        totals: '{}',
        created_at: app.now(),
        updated_at: app.now(),
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
    if (isMoved || isNewKey) check(app, { type: source.type, url, recursive, ...credentials }, await roleOf(trx, source.owner_id))
    // What was refused or out of reach may not be so any more.
    const isDue = isMoved || isNewKey || changes.status === 'active'
    const next = isDue
      ? app.now()
      : changes.sync_interval === undefined
        ? source.next_sync
        : after(source.last_sync ?? app.now(), sync_interval)
    await trx
      .updateTable('sources')
      .set({
        ...changes,
        ...(file_patterns ? { file_patterns: [...file_patterns] } : {}),
        ...(isNewKey ? { credentials: await seal(app, trx, id, credentials) } : {}),
        next_sync: sync_interval === 0 ? null : next,
        updated_at: app.now(),
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
    if (andDocuments) await documents.removeFrom(trx, id)
    const { numDeletedRows } = await trx.deleteFrom('sources').where('id', '=', id).executeTakeFirst()
    if (numDeletedRows === 0n) throw new AppError('SOURCE_NOT_FOUND')
  })
}

/** Tries to get in. Throws SOURCE_NOT_FOUND. */
export async function test(app: App, actor: Actor, id: string): Promise<Tested> {
  await get(app, actor, id)
  return tested(async () => connected(app, (await withOwner(app.db, id)) as OwnedSource, app.config.sources.concurrency))
}

/** The same for one that is not made yet. Throws FORBIDDEN. */
export async function testAddress(app: App, actor: Actor, address: Address): Promise<Tested> {
  checkType(actor, address.type)
  return tested(async () => open(app, address, actor.role, app.config.sources.concurrency))
}

async function tested(connect: () => Promise<SourceConnection>): Promise<Tested> {
  let connection: SourceConnection
  try {
    connection = await connect()
  } catch (error) {
    if (!(error instanceof SourceFailure)) throw error
    return { ok: false, checks: [{ name: 'address', ok: false, message: error.message }], sample: [] }
  }
  try {
    const { checks, sample } = await connection.test(AbortSignal.timeout(testPatience))
    return { ok: checks.every(({ ok }) => ok), checks, sample }
  } finally {
    await connection.close()
  }
}

/** Asks for a sync; its job's id. Throws SOURCE_NOT_FOUND, SOURCE_SYNC_IN_PROGRESS, CONFLICT where the source is disabled. */
export async function startSync(app: App, actor: Actor, id: string, full: boolean): Promise<string> {
  return app.db.transaction().execute(async (trx) => {
    const source = await locked(trx, actor, id)
    if (source.status === 'disabled') throw new AppError('CONFLICT', { status: 'disabled' }, 'The source is disabled.')
    const { is_syncing } = await get(app, actor, id, trx)
    const [live] = await liveJobs(trx, id)
    // One that failed and waits for its next try is run now.
    const isWaiting = live?.status === 'pending' && live.attempts > 0 && !is_syncing
    if (isWaiting) await jobs.cancel(trx, [live.id])
    else if (live || is_syncing) {
      const job_id = live?.id ?? (await runs.latest(trx, id))?.id
      throw new AppError('SOURCE_SYNC_IN_PROGRESS', { job_id })
    }
    return enqueue(trx, id, full)
  })
}

/** Ends a sync that waits or runs; its id. Throws SOURCE_NOT_FOUND, CONFLICT where there is none. */
export async function cancelSync(app: App, actor: Actor, id: string): Promise<string> {
  return app.db.transaction().execute(async (trx) => {
    await get(app, actor, id, trx)
    const latest = await runs.latest(trx, id)
    const ended = await runs.cancel(app, trx, id)
    const live = await jobs.cancel(
      trx,
      (await liveJobs(trx, id)).map((job) => job.id),
    )
    const [job = ended > 0 ? latest?.id : undefined] = live
    if (job === undefined) throw new AppError('CONFLICT', {}, 'No sync of this source is going on.')
    return job
  })
}

export interface SyncStatus extends Omit<Row<'source_syncs'>, 'id' | 'holder' | 'state' | 'started_at'> {
  job_id: string | null
  state: 'idle' | 'queued' | 'running' | 'completed' | 'failed' | 'cancelled'
  started_at: Date | null
  processed: number
}

/** How far the sync is that waits or runs, or what came of the last one. Throws SOURCE_NOT_FOUND. */
export async function syncStatus(app: App, actor: Actor, id: string): Promise<SyncStatus> {
  const { is_syncing } = await get(app, actor, id)
  const [live] = await liveJobs(app.db, id)
  const latest = await runs.latest(app.db, id)
  const nothing = { ...runs.none(), total: 0, current_file: null, errors: [], error_code: null, error_message: null }
  // Whoever holds the source may not have begun the run yet: what is told then must not be how the one before it ended.
  const isOther = is_syncing && latest?.state === 'running'
  if (live && live.id !== latest?.id && !isOther)
    return { ...nothing, source_id: id, job_id: live.id, state: 'queued', processed: 0, started_at: null, finished_at: null }
  if (!latest) return { ...nothing, source_id: id, job_id: null, state: 'idle', processed: 0, started_at: null, finished_at: null }
  const { id: job_id, holder, ...run } = latest
  // Whoever was at it is gone without a word, or gave it back to the queue.
  const isLeft = run.state === 'running' && !is_syncing && live?.status !== 'processing'
  const state = isLeft ? (live ? 'queued' : 'failed') : run.state
  if (isLeft) Object.assign(run, { current_file: null }, live ? {} : runs.interrupted)
  return { ...run, job_id, state, processed: runs.processed(run), total: Math.max(run.total, runs.processed(run)) }
}

/** Queues a sync of every source whose time has come. */
export async function enqueueDue(app: App): Promise<void> {
  for (const { id } of await due(app.db, app.now()).execute()) {
    await app.db.transaction().execute(async (trx) => {
      // Workers on other hosts look at the same moment.
      const source = await due(trx, app.now()).where('id', '=', id).forUpdate().skipLocked().executeTakeFirst()
      if (source && (await liveJobs(trx, id)).length === 0) await enqueue(trx, id, false)
    })
  }
}

/** Sources whose time has come, and that nobody syncs. */
export const due = (db: Db, now: Date) =>
  db
    .selectFrom('sources')
    .select('id')
    .where('status', 'in', ['active', 'error'])
    .where('next_sync', '<=', now)
    .where((eb) => eb.not(runs.isSyncing('sources.id')))
    .orderBy('next_sync')

const enqueue = (trx: Trx, id: string, full: boolean): Promise<string> =>
  jobs.enqueue(trx, 'sync', { source_id: id, full }, { dedupe: `sync:${id}` })

const liveJobs = (db: Db, id: string) =>
  db
    .selectFrom('jobs')
    .select(['id', 'status', 'attempts'])
    .where('kind', '=', 'sync')
    .where('status', 'in', ['pending', 'processing'])
    .where(sql<boolean>`payload ->> 'source_id' = ${id}`)
    .orderBy('status', 'desc')
    .execute()

export type OwnedSource = Row<'sources'> & { owner_role: Role }

/** The source as whoever syncs it needs it; undefined where it is gone. */
export const withOwner = (db: Db, id: string): Promise<OwnedSource | undefined> =>
  db
    .selectFrom('sources')
    .innerJoin('users', 'users.id', 'sources.owner_id')
    .selectAll('sources')
    .select('users.role as owner_role')
    .where('sources.id', '=', id)
    .executeTakeFirst()

/** Opens a source; what it may reach depends on whose it is. Throws SourceFailure. */
export async function connected(app: App, source: OwnedSource, concurrency: number): Promise<SourceConnection> {
  const credentials = await unseal(app, source.id, source.credentials)
  return open(app, { ...source, ...credentials }, source.owner_role, concurrency)
}

function open(
  app: App,
  { type, url, username = null, password = null, recursive }: Address,
  role: Role,
  concurrency: number,
): SourceConnection {
  const { timeout, max_file_size, allow_private_networks, local_roots, ca_file } = app.config.sources
  return types[type].open(
    { url, username, password, recursive },
    {
      concurrency,
      timeout,
      maxFileSize: max_file_size,
      allowPrivateNetworks: role === 'admin' || allow_private_networks,
      localRoots: local_roots,
      caFile: ca_file,
    },
  )
}

function checkType(actor: Actor, type: Type): void {
  if (type === 'local_folder' && !isAdmin(actor)) throw new AppError('FORBIDDEN', {}, 'Folders of the server are for admins.')
}

/** Looks at the address as its type does. Throws VALIDATION_ERROR. */
function check(app: App, address: Address, role: Role): void {
  try {
    void open(app, address, role, 1).close()
  } catch (error) {
    if (error instanceof SourceFailure) throw invalid('url', error.message)
    throw error
  }
}

function checkPatterns(patterns: readonly string[]): void {
  for (const [index, pattern] of patterns.entries()) {
    try {
      wanted([pattern])
    } catch (error) {
      throw invalid(`file_patterns.${index}`, (error as Error).message)
    }
  }
}

/** Whose server an address is on; a folder is on ours. */
function originOf(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : ''
}

const after = (time: Date, seconds: number): Date => new Date(time.getTime() + seconds * 1000)

/** Nothing where they cannot be opened any more: whoever changes the source gives them again. */
const unsealOr = (app: App, source: Row<'sources'>): Promise<Credentials> =>
  unseal(app, source.id, source.credentials).catch(() => ({ username: null, password: null }))

async function locked(trx: Trx, actor: Actor, id: string): Promise<Row<'sources'>> {
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
