/** Applies and reverts migrations: one transaction per migration, one migrator at a time. */
import { readdir } from 'node:fs/promises'
import { type Kysely, sql } from 'kysely'
import { AppError } from '../errors.ts'
import { withLock } from './lock.ts'
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

/** The wait for another migration. */
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
export const migrateLock = 'migrate'

/** Applies pending migrations, up to `to`, and returns their names. Throws Busy (after `wait.lockTimeoutMs`), UnknownMigration, NewerSchema. */
export function migrate(database: Database, wait: LockWait, onApplied?: (name: string) => void, to?: string): Promise<string[]> {
  return withMigrateLock(database, wait, async () => {
    const { db } = database
    const pending = await pendingUpTo(db, to)
    for (const name of pending) {
      wait.signal?.throwIfAborted()
      await db.transaction().execute((trx) => applyMigration(trx, name))
      onApplied?.(name)
    }
    return pending
  })
}

/** Applies pending migrations in one transaction and rolls it back, to verify that they work on this data. Holds their table locks meanwhile. */
export function verifyPending(database: Database, wait: LockWait): Promise<string[]> {
  return withMigrateLock(database, wait, async () => {
    const pending = await pendingUpTo(database.db)
    const trx = await database.db.startTransaction().execute()
    try {
      for (const name of pending) {
        wait.signal?.throwIfAborted()
        await applyMigration(trx, name)
      }
    } finally {
      await trx.rollback().execute()
    }
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
  return withMigrateLock(database, wait, () =>
    database.db.transaction().execute(async (trx) => {
      const names = (await planRevert(trx, goal)).map(({ name }) => name)
      if (names.join() !== steps.map(({ name }) => name).join())
        throw new AppError('CONFLICT', {}, 'the schema was changed meanwhile: start again')
      await sql`set local statement_timeout = 0`.execute(trx)
      for (const name of names) {
        wait.signal?.throwIfAborted()
        await (await loadMigration(name)).down?.(trx as unknown as Kysely<unknown>)
        await sql`delete from migrations where name = ${name}`.execute(trx)
      }
    }),
  )
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
        fix: 'restore a backup that was made before it into an empty database: dms restore',
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
export class UnknownMigration extends Error {
  constructor(name: string) {
    super(`this dms knows no migration ${JSON.stringify(name)}`)
    this.name = 'UnknownMigration'
  }
}

/** The database schema is older than this dms. The command line exits with 8. */
export class PendingMigrations extends Error {
  readonly fix = 'dms migrate'

  constructor(names: string[]) {
    super(`migrations are pending: ${names.join(', ')}`)
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
