/** Applies and reverts migrations: one transaction per migration, one migrator at a time. */
import { readdir } from 'node:fs/promises'
import { type Kysely, sql } from 'kysely'
import { AppError } from '../errors.ts'
import { withLock } from './lock.ts'
import type { Database, Db, Trx } from './pool.ts'

interface Migration {
  up(db: Kysely<unknown>): Promise<void>
  /** Reverts the migration, if that is possible. */
  down?(db: Kysely<unknown>): Promise<void>
  /** the data that down() deletes, in words */
  loses?: string
}

/** A migration that can be reverted. */
export interface RevertStep {
  name: string
  /** the data that is deleted, in words */
  loses: string
}

/** The newest `steps` migrations, or all after `to`. */
export type RevertGoal = { steps: number } | { to: string }

export interface MigrationState {
  name: string
  /** null: pending */
  applied_at: Date | null
  /** applied here, but not known to this version of dms */
  unknown: boolean
}

/** Source and build differ in extension and folder. The recorded name has neither. */
const extension = import.meta.url.slice(import.meta.url.lastIndexOf('.'))
const folder = new URL(extension === '.ts' ? '../../migrations/' : './migrations/', import.meta.url)

/** The lock for every change of the schema. */
export const migrateLock = 'migrate'

/** Applies what is pending and returns its names; throws Busy when another migrator is not done within `lockTimeout` milliseconds, UnknownMigration (`to`), NewerSchema. */
export function migrate(database: Database, lockTimeout: number, onApplied?: (name: string) => void, to?: string): Promise<string[]> {
  return withLock(database, migrateLock, lockTimeout, async () => {
    const { db } = database
    const pending = await pendingUpTo(db, to)
    for (const name of pending) {
      await db.transaction().execute((trx) => applyMigration(trx, name))
      onApplied?.(name)
    }
    return pending
  })
}

/** Applies pending migrations in one transaction and rolls it back, to verify that they work on this data. Holds their locks meanwhile. */
export function verifyPending(database: Database, lockTimeout: number): Promise<string[]> {
  return withLock(database, migrateLock, lockTimeout, async () => {
    const pending = await pendingUpTo(database.db)
    const done = new Error('rehearsed')
    await database.db
      .transaction()
      .execute(async (trx) => {
        for (const name of pending) await applyMigration(trx, name)
        throw done
      })
      .catch((error) => {
        if (error !== done) throw error
      })
    return pending
  })
}

/** Applies and records one migration in the caller's transaction. Throws UnknownMigration. */
export async function applyMigration(trx: Trx, name: string): Promise<void> {
  if (!(await listMigrations()).includes(name)) throw new UnknownMigration(name)
  const { up } = await loadMigration(name)
  await sql`create table if not exists migrations (name text primary key, applied_at timestamptz not null default now())`.execute(trx)
  await sql`set local statement_timeout = 0`.execute(trx)
  await up(trx as unknown as Kysely<unknown>)
  await sql`insert into migrations (name) values (${name})`.execute(trx)
}

/** Takes `way` (of wayBack) back, all or nothing. Throws Busy as migrate() does, and AppError CONFLICT where the schema has changed since. */
export function revert(database: Database, lockTimeout: number, goal: RevertGoal, steps: readonly RevertStep[]): Promise<void> {
  return withLock(database, migrateLock, lockTimeout, () =>
    database.db.transaction().execute(async (trx) => {
      const names = (await planRevert(trx, goal)).map(({ name }) => name)
      if (names.join() !== steps.map(({ name }) => name).join()) throw new AppError('CONFLICT', {}, 'the schema was changed meanwhile')
      await sql`set local statement_timeout = 0`.execute(trx)
      for (const name of names) {
        await (await loadMigration(name)).down?.(trx as unknown as Kysely<unknown>)
        await sql`delete from migrations where name = ${name}`.execute(trx)
      }
    }),
  )
}

/** Returns the migrations to revert, newest first. Throws NewerSchema, UnknownMigration, and AppError CONFLICT where one cannot be reverted. */
export async function planRevert(db: Db, goal: RevertGoal): Promise<RevertStep[]> {
  const states = await loadStates(db)
  rejectNewer(states)
  const applied = states.filter(({ applied_at }) => applied_at !== null).map(({ name }) => name)
  if ('to' in goal) {
    if (!states.some(({ name }) => name === goal.to)) throw new UnknownMigration(goal.to)
    if (!applied.includes(goal.to)) throw new AppError('CONFLICT', {}, `${goal.to} is not applied`)
  }
  const names = 'to' in goal ? applied.filter((name) => name > goal.to) : applied.slice(Math.max(0, applied.length - goal.steps))
  const way: RevertStep[] = []
  for (const name of names.reverse()) {
    const { down, loses } = await loadMigration(name)
    if (!down || loses === undefined)
      throw Object.assign(new AppError('CONFLICT', { name }, `there is no way back over ${name}`), {
        fix: 'restore a backup that was made before it, into an empty place: dms restore',
      })
    way.push({ name, loses })
  }
  return way
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
  const { rows: exists } = await sql<{ found: boolean }>`select to_regclass('migrations') is not null as found`.execute(db)
  const applied = exists[0]?.found
    ? (await sql<{ name: string; applied_at: Date }>`select name, applied_at from migrations order by name`.execute(db)).rows
    : []
  const when = new Map(applied.map((row) => [row.name, row.applied_at]))
  const ours = await listMigrations()
  const unknown = applied.filter(({ name }) => !ours.includes(name))
  return [
    ...ours.map((name) => ({ name, applied_at: when.get(name) ?? null, unknown: false })),
    ...unknown.map(({ name, applied_at }) => ({ name, applied_at, unknown: true })),
  ]
}

/** The database was migrated by a newer dms; the shell exits 78. */
export class NewerSchema extends Error {
  constructor(names: string[]) {
    super(`the database schema is newer than this dms: it does not know ${names.join(', ')}`)
    this.name = 'NewerSchema'
  }
}

/** There is no migration of that name in this dms. */
export class UnknownMigration extends Error {
  constructor(name: string) {
    super(`this dms knows no migration ${JSON.stringify(name)}`)
    this.name = 'UnknownMigration'
  }
}

/** The database is older than this dms; the shell exits 8. */
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
  const wanted = new RegExp(`^\\d{4}_\\w+\\${extension}$`)
  return files
    .filter((file) => wanted.test(file))
    .map((file) => file.slice(0, -extension.length))
    .sort()
}
