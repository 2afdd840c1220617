/** Transactions that lock the same rows take turns: none is refused because it deadlocks with another. */
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import type { App } from '../../src/app.ts'
import type { Trx } from '../../src/db/pool.ts'
import { startApp, upload } from '../support/app.ts'

/** Runs `ask` while `hold` has run in a transaction, and commits this one after `go`, as soon as `ask` waits for a lock. Returns what `ask` returns. */
async function meanwhile<T>({ db }: App, hold: (trx: Trx) => Promise<unknown>, ask: () => Promise<T>, go: (trx: Trx) => Promise<unknown>) {
  const { answer } = await db.transaction().execute(async (trx) => {
    await hold(trx)
    const answer = ask()
    answer.catch(() => {})
    const isWaiting = async () => {
      const { rows } = await sql`
        select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(db)
      return rows.length > 0
    }
    await expect.poll(isWaiting, { timeout: 10_000 }).toBe(true)
    await go(trx)
    return { answer }
  })
  return answer
}

test('204 DELETE of a user whose source is syncing: it waits for the row of the sync before it locks anything else', async () => {
  const { app, bob, asBob, asAdmin } = await startApp()
  const { id } = await asBob.sources.create({ name: 'Cloud', type: 'webdav', url: 'http://127.0.0.1:9/dav/' })
  await sql`insert into source_syncs (id, source_id, holder) values (gen_random_uuid(), ${id}, gen_random_uuid())`.execute(app.db)
  const answer = await meanwhile(
    app,
    (trx) => sql`update source_syncs set current_file = 'a.txt'`.execute(trx),
    () => asAdmin.send('DELETE', `/api/users/${bob.id}`),
    (trx) => sql`update sources set last_error = null where id = ${id}`.execute(trx),
  )
  expect(answer.status).toBe(204)
  expect(await app.db.selectFrom('source_syncs').select('id').execute()).toEqual([])
})

test('400 for a label that is deleted while the labels of its document are replaced: the change locks labels first, as the deletion does', async () => {
  const { app, asAda } = await startApp()
  const label = await asAda.labels.create({ name: 'tax', color: '#000000' })
  const { id } = await upload(asAda, 'a.txt', 'hello', { labels: 'tax' })
  const answer = await meanwhile(
    app,
    (trx) => sql`delete from labels where id = ${label.id}`.execute(trx),
    () => asAda.send('PUT', `/api/documents/${id}`, { labels: [label.id] }),
    (trx) => sql`select from documents where id = ${id} for update`.execute(trx),
  )
  expect(answer.status).toBe(400)
})
