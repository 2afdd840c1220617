/** Brings the schema forward, one transaction a migration, one migrator at a time. */
import { readdir } from 'node:fs/promises'
import { type Kysely, sql } from 'kysely'
import type { Database, Db, Trx } from './db.ts'
import { withLock } from './lock.ts'

interface Migration {
  up(db: Kysely<unknown>): Promise<void>
}

export interface MigrationState {
  name: string
  /** null: pending */
  applied_at: Date | null
  /** applied here, but not known to this version of dms */
  unknown: boolean
}

const folder = new URL('../../migrations/', import.meta.url)

/** The lock that a migrator holds, and whoever else changes the schema. */
export const migrateLock = 'migrate'

/** Applies what is pending and returns its names; throws Busy when another migrator is not done within `lockTimeout` milliseconds, UnknownMigration (`to`), NewerSchema. */
export function migrate(database: Database, lockTimeout: number, applied?: (name: string) => void, to?: string): Promise<string[]> {
  return withLock(database, migrateLock, lockTimeout, async () => {
    const { db } = database
    const pending = await pendingUpTo(db, to)
    for (const name of pending) {
      await db.transaction().execute((trx) => apply(trx, name))
      applied?.(name)
    }
    return pending
  })
}

/** Applies what is pending in one transaction, and takes it back: whether it would work on this data. Holds the locks of the migrations meanwhile. */
export function rehearse(database: Database, lockTimeout: number): Promise<string[]> {
  return withLock(database, migrateLock, lockTimeout, async () => {
    const pending = await pendingUpTo(database.db)
    const done = new Error('rehearsed')
    await database.db
      .transaction()
      .execute(async (trx) => {
        for (const name of pending) await apply(trx, name)
        throw done
      })
      .catch((error) => {
        if (error !== done) throw error
      })
    return pending
  })
}

/** Applies one migration in the caller's transaction, and notes that it did. Throws UnknownMigration. */
export async function apply(trx: Trx, name: string): Promise<void> {
  if (!(await known()).includes(name)) throw new UnknownMigration(name)
  const { up } = (await import(new URL(`${name}${extension}`, folder).href)) as Migration
  await sql`create table if not exists migrations (name text primary key, applied_at timestamptz not null default now())`.execute(trx)
  await sql`set local statement_timeout = 0`.execute(trx)
  await up(trx as unknown as Kysely<unknown>)
  await sql`insert into migrations (name) values (${name})`.execute(trx)
}

/** What is pending, in order; with `to` up to that one. Throws NewerSchema, UnknownMigration. */
export async function pendingUpTo(db: Db, to?: string): Promise<string[]> {
  const states = await status(db)
  const newer = states.filter((state) => state.unknown)
  if (newer.length > 0) throw new NewerSchema(newer.map(({ name }) => name))
  if (to !== undefined && !states.some(({ name }) => name === to)) throw new UnknownMigration(to)
  return states.filter(({ name, applied_at }) => applied_at === null && (to === undefined || name <= to)).map(({ name }) => name)
}

/** Every migration, applied or not, in order. */
export async function status(db: Db): Promise<MigrationState[]> {
  const { rows: exists } = await sql<{ found: boolean }>`select to_regclass('migrations') is not null as found`.execute(db)
  const applied = exists[0]?.found
    ? (await sql<{ name: string; applied_at: Date }>`select name, applied_at from migrations order by name`.execute(db)).rows
    : []
  const when = new Map(applied.map((row) => [row.name, row.applied_at]))
  const ours = await known()
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

/** Source and build differ in the extension only; the recorded name has none. */
const extension = import.meta.url.slice(import.meta.url.lastIndexOf('.'))

/** The names of all migrations of this dms, in order. */
export async function known(): Promise<string[]> {
  const files = await readdir(folder)
  const wanted = new RegExp(`^\\d{4}_\\w+\\${extension}$`)
  return files
    .filter((file) => wanted.test(file))
    .map((file) => file.slice(0, -extension.length))
    .sort()
}
