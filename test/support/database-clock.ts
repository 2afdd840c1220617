/** A clock that tests can set, for the database of a test. */
import { sql } from 'kysely'
import type { Db } from '../../src/db/pool.ts'

/** Schema that PostgreSQL searches before its own: `now()` and `clock_timestamp()` are those of setDatabaseClock(). */
export const searchPath = 'public, pg_catalog'

/** Sets the clock of a database to `ms` milliseconds after the real one; column defaults keep the real one. */
export async function setDatabaseClock(db: Db, ms: number): Promise<void> {
  for (const [name, volatility] of [
    ['now', 'stable'],
    ['clock_timestamp', 'volatile'],
  ] as const)
    await sql`
      create or replace function public.${sql.ref(name)}() returns timestamptz language sql ${sql.raw(volatility)} parallel safe as
      ${sql.lit(`select pg_catalog.${name}() + interval '${ms} ms'`)}`.execute(db)
}

/** Restores the clock of PostgreSQL for new connections: migrations of the database then write their usual defaults. */
export async function useOwnClock(db: Db): Promise<void> {
  await sql`do $$ begin execute format('alter database %I reset search_path', current_database()); end $$`.execute(db)
}
