/** Applies and reverts migrations: one transaction per migration, one migrator at a time. */
import { readdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import { AppError } from '../errors.ts'
import { dms } from '../log/fix.ts'
import { Busy, withLock } from './lock.ts'
import type { Database, Db, Trx } from './pool.ts'
import { allowLongStatements } from './statements.ts'

interface Migration {
  up(db: Kysely<unknown>): Promise<void>
  /** Reverts the migration, if that is possible. */
  down?(db: Kysely<unknown>): Promise<void>
  /** description of the data that down() deletes */
  loses?: string
}

/** A migration that can be reverted. */
export interface RevertStep {
  name: string
  /** description of the data that is deleted */
  loses: string
}

/** The wait for another migration, and for transactions that use the tables. */
export interface LockWait {
  lockTimeoutMs: number
  /** ends the wait, and starts no further migration */
  signal?: AbortSignal | undefined
}

/** The newest `steps` migrations, or all after `to`. */
export type RevertGoal = { steps: number } | { to: string }

export interface MigrationState {
  name: string
  /** null: pending */
  applied_at: Date | null
  /** applied by a newer version of dms */
  unknown: boolean
}

/** Extension of the migrations: .ts in the source, .js in the build. Recorded names have none. */
const extension = import.meta.url.slice(import.meta.url.lastIndexOf('.'))
const folder = new URL(extension === '.ts' ? '../../migrations/' : './migrations/', import.meta.url)

/** The lock for every change of the schema. */
const migrateLock = 'migrate'

/** Maximum wait for the lock of a table, because requests for the table wait behind it. They run before the next attempt. */
const tableLockTimeoutMs = 1000
const tableRetryMs = 1000

/** Applies pending migrations, up to `to`, and returns their names. Throws Busy (after `wait.lockTimeoutMs`, also for each migration), UnknownMigration, NewerSchema. */
export function migrate(database: Database, wait: LockWait, onApplied?: (name: string) => void, to?: string): Promise<string[]> {
  return withMigrateLock(database, wait, async () => {
    const { db } = database
    const pending = await pendingUpTo(db, to)
    for (const name of pending) {
      wait.signal?.throwIfAborted()
      await whenTablesAreFree(database, wait, () =>
        db.transaction().execute(async (trx) => {
          await limitTableLocks(trx)
          await applyMigration(trx, name)
        }),
      )
      onApplied?.(name)
    }
    return pending
  })
}

/** Applies pending migrations in one transaction and rolls it back, to verify that they work on this data. Holds their table locks meanwhile. */
export function verifyPending(database: Database, wait: LockWait): Promise<string[]> {
  return withMigrateLock(database, wait, async () => {
    const pending = await pendingUpTo(database.db)
    await whenTablesAreFree(database, wait, async () => {
      const trx = await database.db.startTransaction().execute()
      try {
        await limitTableLocks(trx)
        for (const name of pending) {
          wait.signal?.throwIfAborted()
          await applyMigration(trx, name)
        }
      } finally {
        await trx.rollback().execute()
      }
    })
    return pending
  })
}

/** Applies and records one migration in the caller's transaction. Throws UnknownMigration. */
export async function applyMigration(trx: Trx, name: string): Promise<void> {
  if (!(await listMigrations()).includes(name)) throw new UnknownMigration(name)
  const { up } = await loadMigration(name)
  await sql`create table if not exists migrations (name text primary key, applied_at timestamptz not null default now())`.execute(trx)
  await allowLongStatements(trx)
  await up(trx as unknown as Kysely<unknown>)
  await sql`insert into migrations (name) values (${name})`.execute(trx)
}

/** Reverts `steps` (of planRevert) in one transaction. Throws Busy (after `wait.lockTimeoutMs`), and AppError CONFLICT if the schema has changed. */
export function revert(database: Database, wait: LockWait, goal: RevertGoal, steps: readonly RevertStep[]): Promise<void> {
  const revertAll = async (trx: Trx) => {
    const names = (await planRevert(trx, goal)).map(({ name }) => name)
    if (names.join() !== steps.map(({ name }) => name).join())
      throw new AppError('CONFLICT', {}, 'the schema was changed meanwhile: start again')
    await limitTableLocks(trx)
    await allowLongStatements(trx)
    for (const name of names) {
      wait.signal?.throwIfAborted()
      await (await loadMigration(name)).down?.(trx as unknown as Kysely<unknown>)
      await sql`delete from migrations where name = ${name}`.execute(trx)
    }
  }
  return withMigrateLock(database, wait, () => whenTablesAreFree(database, wait, () => database.db.transaction().execute(revertAll)))
}

const limitTableLocks = (trx: Trx) => sql`set local lock_timeout = ${sql.lit(tableLockTimeoutMs)}`.execute(trx)

/** Runs a transaction with limitTableLocks(), again while a table is locked, as by a backup. Throws Busy after `wait.lockTimeoutMs`. */
async function whenTablesAreFree<T>({ db }: Database, { lockTimeoutMs, signal }: LockWait, run: () => Promise<T>): Promise<T> {
  for (const deadline = performance.now() + lockTimeoutMs; ; ) {
    try {
      return await run()
    } catch (error) {
      if ((error as { code?: unknown }).code !== '55P03') throw error
      if (performance.now() >= deadline) throw await describeOldestTransaction(db)
    }
    await sleep(tableRetryMs, undefined, { signal }).catch(() => {})
    signal?.throwIfAborted()
  }
}

async function describeOldestTransaction(db: Db): Promise<Busy> {
  const { rows } = await sql<{ name: string; since: Date }>`
    select application_name as name, xact_start as since from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and xact_start is not null order by xact_start limit 1`.execute(db)
  const [oldest] = rows
  const busy = new Busy(migrateLock, oldest?.name ?? 'holder unknown', oldest?.since ?? null)
  busy.message = `${migrateLock}: a table is in use (${busy.holder}${oldest ? ` since ${oldest.since.toISOString()}` : ''})`
  return busy
}

/** Runs `work` while no other process changes the schema. Throws Busy (after `wait.lockTimeoutMs`). */
export const withMigrateLock = <T>(
  database: Pick<Database, 'connect'>,
  { lockTimeoutMs, signal }: LockWait,
  work: () => Promise<T>,
): Promise<T> => withLock(database, migrateLock, lockTimeoutMs, work, { signal })

/** Returns the migrations to revert, newest first. Throws NewerSchema, UnknownMigration, and AppError CONFLICT if one cannot be reverted. */
export async function planRevert(db: Db, goal: RevertGoal): Promise<RevertStep[]> {
  const states = await loadStates(db)
  rejectNewer(states)
  const applied = states.filter(({ applied_at }) => applied_at !== null).map(({ name }) => name)
  if ('to' in goal) {
    if (!states.some(({ name }) => name === goal.to)) throw new UnknownMigration(goal.to)
    if (!applied.includes(goal.to)) throw new AppError('CONFLICT', {}, `${goal.to} is not applied`)
  }
  const names = 'to' in goal ? applied.filter((name) => name > goal.to) : applied.slice(Math.max(0, applied.length - goal.steps))
  const steps: RevertStep[] = []
  for (const name of names.reverse()) {
    const { down, loses } = await loadMigration(name)
    if (!down || loses === undefined)
      throw Object.assign(new AppError('CONFLICT', { name }, `${name} cannot be reverted`), {
        fix: ['restore a backup that was made before it into an empty database: ', dms`restore`],
      })
    steps.push({ name, loses })
  }
  return steps
}

/** Returns the pending migrations in order, up to `to`. Throws NewerSchema, UnknownMigration. */
export async function pendingUpTo(db: Db, to?: string): Promise<string[]> {
  const states = await loadStates(db)
  rejectNewer(states)
  if (to !== undefined && !states.some(({ name }) => name === to)) throw new UnknownMigration(to)
  return states.filter(({ name, applied_at }) => applied_at === null && (to === undefined || name <= to)).map(({ name }) => name)
}

function rejectNewer(states: readonly MigrationState[]): void {
  const newer = states.filter((state) => state.unknown)
  if (newer.length > 0) throw new NewerSchema(newer.map(({ name }) => name))
}

/** Returns every migration, applied or pending, in order. */
export async function loadStates(db: Db): Promise<MigrationState[]> {
  const { rows } = await sql<{ exists: boolean }>`select to_regclass('migrations') is not null as exists`.execute(db)
  const applied = rows[0]?.exists
    ? (await sql<{ name: string; applied_at: Date }>`select name, applied_at from migrations order by name`.execute(db)).rows
    : []
  const appliedAt = new Map(applied.map((row) => [row.name, row.applied_at]))
  const names = await listMigrations()
  const unknown = applied.filter(({ name }) => !names.includes(name))
  return [
    ...names.map((name) => ({ name, applied_at: appliedAt.get(name) ?? null, unknown: false })),
    ...unknown.map(({ name, applied_at }) => ({ name, applied_at, unknown: true })),
  ]
}

/** A newer dms has migrated the database. The command line exits with 78. */
export class NewerSchema extends Error {
  constructor(names: string[]) {
    super(`the database schema is newer than this dms: it does not know ${names.join(', ')}`)
    this.name = 'NewerSchema'
  }
}

/** This dms has no migration of that name. */
class UnknownMigration extends Error {
  constructor(name: string) {
    super(`this dms knows no migration ${JSON.stringify(name)}`)
    this.name = 'UnknownMigration'
  }
}

/** The database schema is older than this dms. The command line exits with 8. */
export class PendingMigrations extends Error {
  readonly fix = dms`migrate`

  constructor(names: string[]) {
    super(`migrations are pending: ${names.length === 1 ? names[0] : `${names[0]} to ${names.at(-1)} (${names.length})`}`)
    this.name = 'PendingMigrations'
  }
}

const loadMigration = async (name: string): Promise<Migration> => import(new URL(`${name}${extension}`, folder).href)

/** Returns the names of all migrations of this version, in order. */
export async function listMigrations(): Promise<string[]> {
  const files = await readdir(folder)
  const pattern = new RegExp(`^\\d{4}_\\w+\\${extension}$`)
  return files
    .filter((file) => pattern.test(file))
    .map((file) => file.slice(0, -extension.length))
    .sort()
}
