/** Brings the schema forward, one transaction a migration, one migrator at a time. */
import { readdir } from 'node:fs/promises'
import { type Kysely, sql } from 'kysely'
import type { Database, Db } from './db.ts'
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

/** Applies what is pending and returns its names; throws Busy when another migrator is not done within `lockTimeout` milliseconds. */
export function migrate(database: Database, lockTimeout: number, applied?: (name: string) => void): Promise<string[]> {
  return withLock(database, 'migrate', lockTimeout, async () => {
    const { db } = database
    await sql`create table if not exists migrations (name text primary key, applied_at timestamptz not null default now())`.execute(db)
    const states = await status(db)
    const newer = states.filter((state) => state.unknown)
    if (newer.length > 0) throw new NewerSchema(newer.map(({ name }) => name))
    const pending = states.filter((state) => state.applied_at === null)
    for (const { name } of pending) {
      const { up } = (await import(new URL(`${name}${extension}`, folder).href)) as Migration
      await db.transaction().execute(async (trx) => {
        await sql`set local statement_timeout = 0`.execute(trx)
        await up(trx as unknown as Kysely<unknown>)
        await sql`insert into migrations (name) values (${name})`.execute(trx)
      })
      applied?.(name)
    }
    return pending.map(({ name }) => name)
  })
}

/** Every migration, applied or not, in order. */
export async function status(db: Db): Promise<MigrationState[]> {
  const { rows: exists } = await sql<{ found: boolean }>`select to_regclass('migrations') is not null as found`.execute(db)
  const applied = exists[0]?.found
    ? (await sql<{ name: string; applied_at: Date }>`select name, applied_at from migrations order by name`.execute(db)).rows
    : []
  const when = new Map(applied.map((row) => [row.name, row.applied_at]))
  const known = await names()
  const unknown = applied.filter(({ name }) => !known.includes(name))
  return [
    ...known.map((name) => ({ name, applied_at: when.get(name) ?? null, unknown: false })),
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

async function names(): Promise<string[]> {
  const files = await readdir(folder)
  const wanted = new RegExp(`^\\d{4}_\\w+\\${extension}$`)
  return files
    .filter((file) => wanted.test(file))
    .map((file) => file.slice(0, -extension.length))
    .sort()
}
