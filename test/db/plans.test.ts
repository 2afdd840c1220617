/** Plans of prepared statements do not outlive the size of the tables that they were made for. */
import { sql } from 'kysely'
import { afterEach, expect, test, vi } from 'vitest'
import type { Db } from '../../src/db/pool.ts'
import { prepared } from '../../src/db/pooled.ts'
import { startApp } from '../support/app.ts'

afterEach(() => vi.restoreAllMocks())

test('a statement that was planned for one row uses the index when thousands of rows have arrived', async () => {
  const { app } = await startApp()
  await sql`create table growing (id integer primary key, text text) with (autovacuum_enabled = off)`.execute(app.db)
  await sql`insert into growing select 1, repeat('x', 100)`.execute(app.db)
  await sql`analyze growing`.execute(app.db)
  const isIndexed = async (db: Db): Promise<boolean> => {
    const count = async () => {
      await sql`select pg_stat_force_next_flush()`.execute(db)
      const { rows } = await sql<{ count: number }>`select pg_stat_get_numscans('growing_pkey'::regclass)::integer as count`.execute(db)
      return rows[0]?.count ?? 0
    }
    const before = await count()
    await sql`${prepared} select text from growing where id = ${1}`.execute(db)
    return (await count()) > before
  }
  const ways = { pool: app.db, pipeline: app.reads, searches: app.database.prepared }
  const seen = async () => {
    const found: Record<string, boolean> = {}
    for (const [name, db] of Object.entries(ways)) found[name] = await isIndexed(db)
    return found
  }
  // PostgreSQL makes a plan for all values at the sixth run.
  for (let run = 1; run <= 6; run++) expect(await seen()).toEqual({ pool: false, pipeline: false, searches: false })
  await sql`insert into growing select n, repeat('x', 100) from generate_series(2, 10000) n`.execute(app.db)
  const now = performance.now.bind(performance)
  vi.spyOn(performance, 'now').mockImplementation(() => now() + 61_000)
  expect(await seen()).toEqual({ pool: true, pipeline: true, searches: true })
})
