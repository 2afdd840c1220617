/** Migrations while other transactions use the tables. */
import { expect, test } from 'vitest'
import { connection, emptyPlace, here } from '../support/places.ts'
import type { Ended } from '../support/processes/run.ts'

/** Creates a database before 0026_file_metadata, which changes the documents, and a transaction that reads them, as a backup does. */
async function readTables() {
  const place = await emptyPlace()
  expect((await here(place, ['migrate', '--to', '0025_title_index', '-q'])).code).toBe(0)
  const reader = await connection(place)
  await reader.query(`set application_name = 'dms backup snapshot pid=1 host=a'; begin; select from documents`)
  return { place, reader }
}

test('migrate waits for a transaction that reads a table, and requests for the table do not wait behind it', async () => {
  const { place, reader } = await readTables()
  const request = await connection(place)
  let ended: Ended | null = null
  const migrated = here(place, ['migrate', '--lock-timeout', '60s', '-q']).then((result) => {
    ended = result
    return result
  })
  await request.query('set statement_timeout = 3000')
  const locks = `select from pg_locks join pg_database on pg_database.oid = database where datname = current_database() and not granted`
  const state = async () => ended ?? ((await request.query(locks)).rowCount === 0 ? 'not waiting' : 'waiting')
  for (let attempt = 0; attempt < 2; attempt++) {
    await expect.poll(state, { timeout: 30_000 }).toBe('waiting')
    expect((await request.query('select count(*)::int as count from documents')).rows).toEqual([{ count: 0 }])
  }
  await reader.query('commit')
  expect((await migrated).code).toBe(0)
  expect((await here(place, ['migrate', 'check', '-q'])).code).toBe(0)
})

test.each([['up'], ['verify'], ['down', '-y']])(
  '75 of migrate %s with the transaction that reads a table, after --lock-timeout',
  async (...words) => {
    const { place } = await readTables()
    const { code, stderr } = await here(place, ['migrate', ...words, '--lock-timeout', '0s'])
    expect([code, stderr]).toEqual([75, expect.stringMatching(/migrate: a table is in use \(dms backup snapshot pid=1 host=a since /)])
  },
)
