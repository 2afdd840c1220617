/** A clock that tests can set, for the database of one test. */
import { sql } from 'kysely'
import type { Db } from '../../src/db/pool.ts'

/** PostgreSQL looks here before it looks among its own functions: `now()` and `clock_timestamp()` are then the ones that setDatabaseClock() makes. */
export const searchPath = 'public, pg_catalog'

/** Sets the clock of a database to `ms` milliseconds after the real one; column defaults keep to the real one. */
export async function setDatabaseClock(db: Db, ms: number): Promise<void> {
  for (const [name, volatility] of [
    ['now', 'stable'],
    ['clock_timestamp', 'volatile'],
  ] as const)
    await sql`
      create or replace function public.${sql.ref(name)}() returns timestamptz language sql ${sql.raw(volatility)} parallel safe as
      ${sql.lit(`select pg_catalog.${name}() + interval '${ms} ms'`)}`.execute(db)
}

/** Gives a database PostgreSQL's own clock again, for connections that are opened from now on: its migrations write defaults as they do elsewhere. */
export async function useOwnClock(db: Db): Promise<void> {
  await sql`do $$ begin execute format('alter database %I reset search_path', current_database()); end $$`.execute(db)
}
