/** Transactions that lock the same rows take turns: none is refused because it deadlocks with another. */
import { sql } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import type { Trx } from '../../src/db/pool.ts'
import { enqueueIndex } from '../../src/documents/revisions.ts'
import { renameDocument } from '../../src/documents/source-documents.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp, upload } from '../support/app.ts'
import { fakeReader } from '../support/fake-reader.ts'
import { countWaiting, meanwhile } from '../support/lock-waits.ts'
import { startLive } from '../support/processes/live.ts'

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

test.each(['assign', 'unassign', 'delete'] as const)(
  '2xx %s of the label of documents during uploads of the same files: it lets uploads refer to the documents',
  async (change) => {
    const { app, asAda } = await startApp()
    const label = await asAda.labels.create({ name: 'tax', color: '#000000' })
    const ids: string[] = []
    for (const name of ['a.txt', 'b.txt']) ids.push((await upload(asAda, name, name, { labels: 'tax' })).id)
    const [first, last] = ids.toSorted()
    // No document has this retention yet.
    await sql`update labels set retention_days = 1, retention_scope = 'creator'`.execute(app.db)
    const requests = {
      assign: () => asAda.send('POST', `/api/labels/${label.id}/assign`, { document_ids: ids }),
      unassign: () => asAda.send('POST', `/api/labels/${label.id}/unassign`, { document_ids: ids }),
      delete: () => asAda.send('DELETE', `/api/labels/${label.id}`),
    }
    const answer = await meanwhile(
      app,
      (trx) => sql`select from documents where id = ${last} for no key update`.execute(trx),
      requests[change],
      // As an upload of the bytes of the first document, for whose stored file the new version waits.
      (trx) => sql`select from documents where id = ${first} for key share`.execute(trx),
    )
    expect(answer.status).toBeLessThan(300)
  },
)

test('a sync that renames documents during uploads of the same files lets uploads refer to the documents', async () => {
  const { app, asAda } = await startApp()
  const ids: string[] = []
  for (const name of ['a.txt', 'b.txt']) ids.push((await upload(asAda, name, name)).id)
  const [first = '', last = ''] = ids.toSorted()
  const rename = async (trx: Trx) => {
    for (const id of [first, last]) await renameDocument(app, trx, id, `moved/${id}.txt`)
  }
  await meanwhile(
    app,
    (trx) => sql`select from documents where id = ${last} for no key update`.execute(trx),
    () => app.db.transaction().execute(rename),
    (trx) => sql`select from documents where id = ${first} for key share`.execute(trx),
  )
  expect(await asAda.documents.get(last)).toMatchObject({ source_path: `moved/${last}.txt` })
})

test('204 DELETE of a label while it is removed from a document: both lock the index job of the document last', async () => {
  const { app, asAda } = await startApp()
  const label = await asAda.labels.create({ name: 'tax', color: '#000000' })
  const { id } = await upload(asAda, 'a.txt', 'hello', { labels: 'tax' })
  const answer = await meanwhile(
    app,
    (trx) => trx.deleteFrom('document_labels').execute(),
    () => asAda.send('DELETE', `/api/labels/${label.id}`),
    (trx) => sql`select from jobs where dedupe_key = ${`index:${id}`} for update`.execute(trx),
  )
  expect(answer.status).toBe(204)
})

test('200 unassign of a label while it is deleted: it waits before it removes the label from a document', async () => {
  const { app, asAda } = await startApp()
  const label = await asAda.labels.create({ name: 'tax', color: '#000000' })
  const { id: first } = await upload(asAda, 'a.txt', 'one', { labels: 'tax' })
  const { id: second } = await upload(asAda, 'b.txt', 'two', { labels: 'tax' })
  const remove = (trx: Trx, id: string) => trx.deleteFrom('document_labels').where('document_id', '=', id).execute()
  const answer = await meanwhile(
    app,
    async (trx) => {
      await sql`select from labels for update`.execute(trx)
      await remove(trx, second)
    },
    () => asAda.send('POST', `/api/labels/${label.id}/unassign`, { document_ids: [first, second] }),
    (trx) => remove(trx, first),
  )
  expect(answer.status).toBe(200)
})

test('200 for a label that is renamed while a user with its documents is deleted: it waits for the documents', async () => {
  const { app, bob, asAda, asBob } = await startApp()
  const label = await asAda.labels.create({ name: 'tax', color: '#000000' })
  const { id } = await upload(asBob, 'b.txt', 'hello', { labels: 'tax' })
  const answer = await meanwhile(
    app,
    async (trx) => {
      await sql`select from documents where id = ${id} for update`.execute(trx)
      await sql`select from users where id = ${bob.id} for update`.execute(trx)
    },
    () => asAda.send('PUT', `/api/labels/${label.id}`, { name: 'taxes' }),
    async (trx) => {
      await sql`delete from documents where id = ${id}`.execute(trx)
      await enqueueIndex(trx, [id])
      await sql`delete from users where id = ${bob.id}`.execute(trx)
    },
  )
  expect(answer.status).toBe(200)
})

test('204 DELETE of a user with comments on a locked document of another user: it does not wait for the document', async () => {
  const { app, bob, asAda, asAdmin } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  await sql`insert into comments (document_id, user_id, content) values (${id}, ${bob.id}, 'hello')`.execute(app.db)
  await app.db.transaction().execute(async (trx) => {
    await sql`select from documents where id = ${id} for update`.execute(trx)
    expect((await asAdmin.send('DELETE', `/api/users/${bob.id}`)).status).toBe(204)
    await sql`delete from documents where id = ${id}`.execute(trx)
    await enqueueIndex(trx, [id])
  })
})

test('204 DELETE of a user whose label is being renamed: it waits for the label before it locks documents', async () => {
  const { app, bob, asBob, asAdmin } = await startApp()
  const label = await asBob.labels.create({ name: 'tax', color: '#000000' })
  await upload(asBob, 'b.txt', 'hello', { labels: 'tax' })
  const answer = await meanwhile(
    app,
    (trx) => sql`update labels set name_key = 'taxes' where id = ${label.id}`.execute(trx),
    () => asAdmin.send('DELETE', `/api/users/${bob.id}?documents=delete`),
    (trx) => sql`select from documents for key share`.execute(trx),
  )
  expect(answer.status).toBe(204)
})

test('401 UNAUTHORIZED for a token that is revoked while its user is deleted: both lock the user before the token', async () => {
  const { app, bob, asBob } = await startApp()
  const token = await asBob.tokens.create({ name: 'scan', scopes: ['upload'] })
  const answer = await meanwhile(
    app,
    (trx) => sql`select from users where id = ${bob.id} for update`.execute(trx),
    () => asBob.send('DELETE', `/api/tokens/${token.id}`),
    (trx) => trx.deleteFrom('users').where('id', '=', bob.id).execute(),
  )
  expect(answer.status).toBe(401)
})

test('204 DELETE of a user while the OCR queue is counted: the count leaves the user out', async () => {
  const dms = await startLive({}, { servers: 1 })
  const { app, ada, bob, asAda, asBob, asAdmin } = dms
  await upload(asAda, 'a.txt', 'hello')
  const { id } = await upload(asBob, 'b.txt', 'hello')
  const answer = await meanwhile(
    app,
    (trx) => sql`select from jobs where dedupe_key = ${`index:${id}`} for update`.execute(trx),
    () => asAdmin.send('DELETE', `/api/users/${bob.id}?documents=delete`),
    async () => {
      const { messages } = await dms.joined(ada, ['queue_status'])
      const isCounted = () => messages.some(({ type }) => type === 'queue_status')
      await expect.poll(async () => isCounted() || (await countWaiting(app.db)) === 2).toBe(true)
    },
  )
  expect(answer.status).toBe(204)
})

test.each([
  ['a user with documents', 'users', 'documents=delete', ['ocr', 'index']],
  ['a user whose documents are transferred', 'users', 'documents=transfer&to=root', ['index']],
  ['a source with documents', 'sources', 'documents=delete', ['ocr', 'index']],
  ['a source without its documents', 'sources', '', ['index']],
] as const)('204 DELETE of %s: documents of others are read and indexed meanwhile', async (_, kind, query, queues) => {
  const { app, ada, asAda, asBob, asAdmin } = await startApp()
  const source = await asAda.sources.create({ name: 'Cloud', type: 'webdav', url: 'http://127.0.0.1:9/dav/' })
  for (const client of [asAda, asBob]) for (const number of [1, 2, 3]) await upload(client, `report ${number}.pdf`, `%PDF-1.4 ${number}`)
  const id = kind === 'users' ? ada.id : source.id
  await sql`update documents set source_id = ${source.id} where owner_id = ${ada.id}`.execute(app.db)
  let worker: Awaited<ReturnType<typeof startWorker>> | undefined
  onTestFinished(() => worker?.stop(10_000))
  const answer = await meanwhile(
    app,
    // The deletion waits for this row after it has locked the documents.
    (trx) => sql`select from ${sql.table(kind)} where id = ${id} for update`.execute(trx),
    () => asAdmin.send('DELETE', `/api/${kind}/${id}?${query}`),
    async () => {
      worker = await startWorker({ ...app, reader: fakeReader(1) }, { queues, concurrency: 2, name: 'here/1' })
      const statuses = async () => (await Array.fromAsync(asBob.documents.list())).map(({ status }) => status)
      if (queues.length > 1) await expect.poll(statuses, { timeout: 20_000 }).toEqual(['completed', 'completed', 'completed'])
      await expect.poll(async () => (await asBob.search.query('report')).total, { timeout: 20_000 }).toBe(3)
    },
  )
  expect(answer.status).toBe(204)
})

test.each(['delete', 'transfer&to=bob'])(
  'documents of others are read while jobs of a worker wait for the deletion of their user, with documents=%s',
  async (fate) => {
    const { app, ada, asAda, asBob, asAdmin } = await startApp()
    for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g']) await upload(asAda, `${name}.pdf`, `%PDF-1.4 ${name}`)
    const { promise: released, resolve: release } = Promise.withResolvers<undefined>()
    const reader = fakeReader(1, () => released)
    const worker = await startWorker({ ...app, reader }, { queues: ['ocr'], concurrency: 1, name: 'here/1' })
    onTestFinished(() => worker.stop(10_000))
    await expect.poll(() => reader.calls.length, { timeout: 20_000 }).toBeGreaterThan(0)
    const { id } = await upload(asBob, 'z.pdf', '%PDF-1.4 z')
    const answer = await meanwhile(
      app,
      // The deletion waits for this row after it has locked the documents.
      (trx) => sql`select from users where id = ${ada.id} for update`.execute(trx),
      () => asAdmin.send('DELETE', `/api/users/${ada.id}?documents=${fate}`),
      async () => {
        release(undefined)
        await expect.poll(async () => (await asBob.documents.get(id)).status, { timeout: 20_000 }).toBe('completed')
      },
    )
    expect(answer.status).toBe(204)
  },
)

test('204 and 400 for two users who are deleted at once, with their documents transferred to each other: the second waits for the first', async () => {
  const { app, ada, bob, asAda, asBob, asAdmin } = await startApp()
  await app.db.updateTable('users').set({ role: 'admin' }).execute()
  for (const client of [asAda, asBob]) await upload(client, 'a.txt', 'hello')
  const deletions: Promise<Response>[] = []
  await app.db.transaction().execute(async (trx) => {
    // A deletion of an admin takes this lock after that of the user.
    await sql`select pg_advisory_xact_lock(hashtextextended('admins', 0))`.execute(trx)
    for (const [from, to] of [
      [ada, bob],
      [bob, ada],
    ] as const) {
      deletions.push(asAdmin.send('DELETE', `/api/users/${from.id}?documents=transfer&to=${to.id}`))
      await expect.poll(() => countWaiting(app.db)).toBe(deletions.length)
    }
  })
  expect((await Promise.all(deletions)).map(({ status }) => status)).toEqual([204, 400])
  expect(await asBob.call('GET', '/api/documents')).toMatchObject({ data: [{ owner: 'bob' }, { owner: 'bob' }] })
})
