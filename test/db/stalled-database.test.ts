import { once } from 'node:events'
import { readdir, readFile, stat } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, inject, onTestFinished, test } from 'vitest'
import { isUnavailable, openDatabase } from '../../src/db/pool.ts'
import { openLog } from '../../src/log/log.ts'
import { startRelay } from '../support/servers/relay.ts'

test('a query is cancelled as unreachable when the database has been silent for longer than a statement may take', async () => {
  const relay = await startRelay(inject('databaseUrl').replace('NAME', 'postgres'))
  const log = openLog({ level: 'silent', format: 'json' })
  const database = openDatabase({
    address: { connectionString: relay.url },
    poolMax: 1,
    // A slow machine connects within it: the check of the slow query below opens a connection, too.
    connectTimeoutMs: 5000,
    statementTimeoutMs: 200,
    log,
  })
  onTestFinished(() => database.close())
  const ask = (db: typeof database.db) => sql<{ one: number }>`select 1 as one`.execute(db).then(({ rows }) => rows[0]?.one)
  const ways = [database.db, database.reads]
  expect(await Promise.all(ways.map(ask))).toEqual([1, 1])

  const slow = database.db.transaction().execute(async (trx) => {
    await sql`set local statement_timeout = 0`.execute(trx)
    await sql`select pg_sleep(2)`.execute(trx)
    return 'at its end'
  })
  expect(await slow).toBe('at its end')

  relay.silence()
  // The connections that there are, and new ones.
  for (let time = 0; time < 2; time++) {
    const errors = await Promise.all(ways.map((db) => ask(db).catch((error: unknown) => error)))
    expect(errors.map(isUnavailable)).toEqual([true, true])
  }
  await relay.cut()
  await relay.resume()
  expect(await Promise.all(ways.map(ask))).toEqual([1, 1])
})

test('a missing Unix socket is a database out of reach, a missing file is none', async () => {
  const missing = join(tmpdir(), `dms-${process.pid}-missing`)
  const errors = await Promise.all([
    once(connect(missing), 'connect').catch((error: unknown) => error),
    ...[readFile, readdir, stat].map((read) => read(missing).catch((error: unknown) => error)),
  ])
  expect(errors).toMatchObject(Array.from({ length: 4 }, () => ({ code: 'ENOENT' })))
  expect(errors.map(isUnavailable)).toEqual([true, false, false, false])
})
