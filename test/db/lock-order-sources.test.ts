/** Transactions of syncs and sources that lock the same rows take turns: none is refused because it deadlocks with another. */
import { createHash } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import type { Trx } from '../../src/db/pool.ts'
import { recordParts } from '../../src/documents/splits.ts'
import { lockOrCreate, placeholderAddress } from '../../src/documents/stored-files.ts'
import { syncNow } from '../../src/sources/sync/sync-job.ts'
import { startApp, upload } from '../support/app.ts'
import { startSynced } from '../support/data/synced-source.ts'
import { countWaiting, meanwhile } from '../support/lock-waits.ts'
import { startLying } from '../support/servers/lying-server.ts'

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

test.each([
  [202, 'POST', '/sync', {}],
  [200, 'POST', '/cancel', {}],
  [200, 'PUT', '', { status: 'disabled' }],
  [204, 'DELETE', '', undefined],
] as const)(
  '%i for %s …%s of a source while a worker records the failure of its sync: all lock the job before run and source',
  async (status, method, path, body) => {
    const { app, asBob } = await startApp()
    const { id } = await asBob.sources.create({ name: 'Cloud', type: 'webdav', url: 'http://127.0.0.1:9/dav/' })
    const job = await asBob.sources.sync(id)
    await sql`insert into source_syncs (id, source_id, holder) values (${job.job_id}, ${id}, gen_random_uuid())`.execute(app.db)
    await sql`update jobs set attempts = 1 where id = ${job.job_id}`.execute(app.db)
    const answer = await meanwhile(
      app,
      (trx) => sql`select from jobs where id = ${job.job_id} for update`.execute(trx),
      () => asBob.send(method, `/api/sources/${id}${path}`, body),
      async (trx) => {
        await sql`update source_syncs set current_file = 'a.txt'`.execute(trx)
        await sql`update sources set last_error = 'refused' where id = ${id}`.execute(trx)
      },
    )
    expect(answer.status).toBe(status)
  },
)

test.each(['source', 'user'] as const)(
  '204 DELETE of a %s while a sync of the source starts: the sync begins after it, and ends',
  async (kind) => {
    const dms = await startSynced()
    const { app, source, bob, asAdmin } = dms
    await dms.put('a.txt', 'first')
    expect(await dms.sync()).toMatchObject({ created: 1 })
    await dms.put('a.txt', 'second, with another size')
    await sql`update sources set owner_id = ${bob.id}, is_granted_by_operator = true`.execute(app.db)
    await sql`update documents set owner_id = ${bob.id}`.execute(app.db)
    let sync: Promise<unknown> | undefined
    const answer = await meanwhile(
      app,
      (trx) => sql`select from documents for update`.execute(trx),
      () => asAdmin.send('DELETE', `/api/${kind === 'source' ? `sources/${source.id}` : `users/${bob.id}`}?documents=delete`),
      async () => {
        const options = { full: false, acceptChanges: true, concurrency: 1, maxFiles: null, lockTimeoutMs: 0 }
        sync = syncNow(app, source.id, options, new AbortController().signal).catch((error: Error) => error.name)
        await expect.poll(() => countWaiting(app.db)).toBe(2)
      },
    )
    expect([answer.status, await sync]).toEqual([204, 'RunLost'])
  },
)

test('a sync locks the stored files of a batch in the usual order, not in the order of its downloads', async () => {
  const { app, asAda } = await startApp({ 'ocr.enabled': false, 'sources.concurrency': 1 })
  const [low = '', high = ''] = ['one', 'two'].toSorted((a, b) => (sumOf(a) < sumOf(b) ? -1 : 1))
  let version = 'first'
  const share = await startLying('/', (request, response) => {
    const name = (request.url ?? '').slice(1)
    if (request.method === 'GET') return void response.end(version === 'first' ? `first ${name}` : { 'a.txt': high, 'b.txt': low }[name])
    const entry = (href: string) =>
      `<D:response><D:href>${href}</D:href><D:propstat><D:prop><D:resourcetype>${href === '/' ? '<D:collection/>' : ''}</D:resourcetype>` +
      `<D:getetag>"${version}"</D:getetag></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>`
    response.writeHead(207, { 'content-type': 'application/xml' })
    response.end(`<D:multistatus xmlns:D="DAV:">${['/', '/a.txt', '/b.txt'].map(entry).join('')}</D:multistatus>`)
  })
  const { id } = await asAda.sources.create({ name: 'Share', type: 'webdav', url: share.url, sync_interval: 0 })
  const sync = () =>
    syncNow(app, id, { full: false, acceptChanges: true, concurrency: 1, maxFiles: null, lockTimeoutMs: 0 }, new AbortController().signal)
  expect(await sync()).toMatchObject({ created: 2 })
  version = 'second'
  const store = (trx: Trx, bytes: string) =>
    lockOrCreate(trx, { sha256: sumOf(bytes), size: bytes.length, address: placeholderAddress(sumOf(bytes)) })
  const ended = await meanwhile(
    app,
    (trx) => store(trx, low),
    sync,
    (trx) => store(trx, high),
  )
  expect(ended).toMatchObject({ state: 'completed', updated: 2, failed: 0 })
})

test('a sync that finds copies of moved files locks their stored files by SHA-256, not by path', async () => {
  const dms = await startSynced()
  const { app, source } = dms
  const [low = '', high = ''] = ['one', 'two'].toSorted((a, b) => (sumOf(a) < sumOf(b) ? -1 : 1))
  await dms.put('low.txt', low)
  await dms.put('high.txt', high)
  expect(await dms.sync()).toMatchObject({ created: 2 })
  await dms.remove(['low.txt', 'high.txt'])
  for (const folder of ['copy', 'moved']) {
    await dms.put(`${folder}/1.txt`, high)
    await dms.put(`${folder}/2.txt`, low)
  }
  const options = { full: false, acceptChanges: true, concurrency: 1, maxFiles: null, lockTimeoutMs: 0 }
  // Uploads do not wait for this lock, only the end of the sync does.
  const lock = (trx: Trx, bytes: string) => sql`select from stored_files where sha256 = ${sumOf(bytes)} for key share`.execute(trx)
  const ended = await meanwhile(
    app,
    (trx) => lock(trx, low),
    () => syncNow(app, source.id, options, new AbortController().signal),
    (trx) => lock(trx, high),
  )
  expect(ended).toMatchObject({ state: 'completed', created: 2, updated: 2, failed: 0 })
})

test('the parts of a split document lock their stored files by SHA-256, not by page', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'stack.pdf', 'stack', { ocr_enabled: false })
  const [low = '', high = ''] = ['one', 'two'].toSorted((a, b) => (sumOf(a) < sumOf(b) ? -1 : 1))
  const parts = await Promise.all(
    [high, low, high].map(async (bytes) => ({
      staged: await app.files.stage(
        (async function* () {
          yield Buffer.from(bytes)
        })(),
        100,
      ),
      serialNumber: null,
    })),
  )
  const lock = (trx: Trx, bytes: string) =>
    lockOrCreate(trx, { sha256: sumOf(bytes), size: bytes.length, address: placeholderAddress(sumOf(bytes)) })
  const ids = await meanwhile(
    app,
    (trx) => lock(trx, low),
    () => app.db.transaction().execute((trx) => recordParts(app, trx, id, parts)),
    (trx) => lock(trx, high),
  )
  expect(ids).toHaveLength(3)
})

const sumOf = (bytes: string): string => createHash('sha256').update(bytes).digest('hex')
