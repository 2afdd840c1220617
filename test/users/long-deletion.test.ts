/** Deletions of accounts that take minutes, as of thousands of documents. */
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { enqueue } from '../../src/jobs/queue.ts'
import type { UserView } from '../../src/users/view.ts'
import { startApp, upload } from '../support/app.ts'

const password = 'correct horse battery'

type Started = Awaited<ReturnType<typeof startApp>>

const waiting = async ({ app }: Started) =>
  (await sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`.execute(app.db)).rows.length

/** Deletes the account and documents of Ada, and calls `meanwhile` when her account is locked. Returns the answer. */
async function deleteAda(started: Started, meanwhile: () => Promise<void>): Promise<Response> {
  const { app, asAda, asAdmin, ada } = started
  const { sha256 } = await upload(asAda, 'a.txt', 'words of ada')
  let deletion: Promise<Response> | undefined
  await app.db.transaction().execute(async (trx) => {
    // The deletion queues this job too, near its end.
    await enqueue(trx, 'purge', { sha256 }, { dedupeKey: `purge:${sha256}` })
    deletion = asAdmin.send('DELETE', `/api/users/${ada.id}?documents=delete`)
    await expect.poll(() => waiting(started)).toBe(1)
    await meanwhile()
  })
  return deletion!
}

test.each(['user', 'admin'])('204 DELETE an account of role %s: admins sign in, upload and share meanwhile', async (role) => {
  const started = await startApp()
  const { asAdmin, asStranger, ada } = started
  await asAdmin.call('POST', '/api/users', { username: 'second', email: 'second@example.org', password, role: 'admin' })
  await asAdmin.call('PUT', `/api/users/${ada.id}`, { role })
  const { status } = await deleteAda(started, async () => {
    expect((await asStranger.send('POST', '/api/auth/login', { username: 'second', password })).status).toBe(200)
    const { id } = await upload(asAdmin, 'b.txt', 'words of root')
    expect((await asAdmin.send('POST', '/api/shared-links', { document_id: id })).status).toBe(201)
    expect(await waiting(started)).toBe(1)
  })
  expect(status).toBe(204)
})

test('409 CONFLICT for a demotion of the last admin that begins during the deletion of the other one; users are disabled meanwhile', async () => {
  const started = await startApp()
  const { asAdmin, admin, ada, bob } = started
  await asAdmin.call('PUT', `/api/users/${ada.id}`, { role: 'admin' })
  let demotion: Promise<Response> | undefined
  const { status } = await deleteAda(started, async () => {
    expect(await asAdmin.call<UserView>('PUT', `/api/users/${bob.id}`, { disabled: true })).toMatchObject({ disabled: true })
    demotion = asAdmin.send('PUT', `/api/users/${admin.id}`, { role: 'user' })
    await expect.poll(() => waiting(started)).toBe(2)
  })
  const refused = await demotion!
  expect([status, refused.status, (await refused.json()).error.code]).toEqual([204, 409, 'CONFLICT'])
})

/** Gives Ada so many documents. */
async function addDocuments({ app, asAda }: Started, count: number): Promise<void> {
  const { id } = await upload(asAda, 'a.txt', 'words of ada')
  await sql`
    insert into documents
    select (jsonb_populate_record(d, jsonb_build_object('id', gen_random_uuid()))).* from documents d, generate_series(2, ${count}::int)
    where d.id = ${id}`.execute(app.db)
}

test('204 DELETE an account of 1,600 documents: others are audited between its batches, and the user cannot sign in from the first on', async () => {
  const started = await startApp()
  const { app, asAdmin, asStranger, ada, bob } = started
  await addDocuments(started, 1600)
  const last = app.db.selectFrom('documents').select('id').orderBy('id', 'desc').limit(1)
  let deletion: Promise<Response> | undefined
  await app.db.transaction().execute(async (trx) => {
    await sql`select from documents where id = (${last}) for key share`.execute(trx)
    deletion = asAdmin.send('DELETE', `/api/users/${ada.id}?documents=delete`)
    await expect.poll(() => waiting(started)).toBe(1)
    expect(await asAdmin.call<UserView>('GET', `/api/users/${ada.id}`)).toMatchObject({ disabled: true })
    expect((await asAdmin.call<{ pagination: { total: number } }>('GET', '/api/documents')).pagination.total).toBeLessThan(1600)
    expect((await asAdmin.send('PUT', `/api/users/${bob.id}`, { display_name: 'Bob' })).status).toBe(200)
    expect((await asStranger.send('POST', '/api/auth/login', { username: 'ada', password })).status).toBe(401)
    expect(await waiting(started)).toBe(1)
  })
  expect((await deletion!).status).toBe(204)
  // Entries of one transaction: the others waited until it ended.
  const { rows } = await sql<{ count: number }>`
    select count(*)::int as count from audit_entries where action = 'purge document' group by xmin::text order by 1 desc`.execute(app.db)
  expect(rows.map(({ count }) => count)).toEqual([500, 500, 500, 100])
})

test('409 RETENTION DELETE an account of 501 documents: a hold keeps all of them, and the account', async () => {
  const started = await startApp()
  const { app, asAdmin, ada } = started
  await addDocuments(started, 501)
  const { id = '' } = (await app.db.selectFrom('documents').select('id').orderBy('id', 'desc').executeTakeFirst()) ?? {}
  const hold = await asAdmin.holds.create({ name: 'case', reason: 'court' })
  await asAdmin.holds.add(hold.id, [id])
  expect((await asAdmin.send('DELETE', `/api/users/${ada.id}?documents=delete`)).status).toBe(409)
  expect(await asAdmin.call('GET', '/api/documents')).toMatchObject({ pagination: { total: 501 } })
  expect(await asAdmin.call<UserView>('GET', `/api/users/${ada.id}`)).toMatchObject({ disabled: false })
})

test('204 DELETE an account of 501 documents queues its jobs after the last document: each document is looked for in those jobs', async () => {
  const started = await startApp()
  const { app, asAdmin, ada } = started
  await addDocuments(started, 501)
  await sql`
    create function refuse_jobs() returns trigger language plpgsql as $$
    begin
      if exists (select from jobs_live where xmin::text::bigint = txid_current() % 4294967296) then
        raise 'a job was queued before a document was deleted';
      end if;
      return old;
    end $$`.execute(app.db)
  await sql`create trigger refuse_jobs before delete on documents for each row execute function refuse_jobs()`.execute(app.db)
  const { status } = await asAdmin.send('DELETE', `/api/users/${ada.id}?documents=delete`)
  expect(status).toBe(204)
})
