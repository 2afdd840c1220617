/** Owners take turns: a user with many jobs does not delay others. */
import { setTimeout as sleep } from 'node:timers/promises'
import { sql } from 'kysely'
import { expect, test, vi } from 'vitest'
import type { Client, Page } from '../../src/client/client.ts'
import * as claims from '../../src/jobs/leases.ts'
import * as jobs from '../../src/jobs/queue.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp, upload } from '../support/app.ts'
import { fakeReader } from '../support/fake-reader.ts'
import { startLying } from '../support/servers/lying-server.ts'

type Dms = Awaited<ReturnType<typeof startApp>>

const minute = 60_000
const queue = async (client: Client) => (await client.call<Page<{ id: string }>>('GET', '/api/ocr/queue?status=pending&per_page=100')).data

/** Claims all jobs that can run. Returns the names of their owners, in order. */
async function claimAll({ app, ada, bob, admin }: Dms, name: jobs.Queue = 'ocr') {
  const names = new Map([ada, bob, admin].map(({ id, username }) => [id, username]))
  const claimed: { id: string; owner: string | undefined }[] = []
  for (let job = await claims.leaseNext(app.db, name, 'here/1', minute); job; job = await claims.leaseNext(app.db, name, 'here/1', minute))
    claimed.push({ id: job.id, owner: names.get(job.owner_id) })
  return claimed
}

async function uploadMany(client: Client, name: string, count: number) {
  for (let index = 0; index < count; index++) await upload(client, `${name} ${index}.pdf`, `%PDF-1.4 ${name} ${index}`)
}

test('jobs of a priority are claimed from each owner in turn, the oldest of each first, and the list has this order', async () => {
  const dms = await startApp()
  await uploadMany(dms.asAda, 'ada', 6)
  await uploadMany(dms.asBob, 'bob', 1)
  await uploadMany(dms.asAdmin, 'root', 2)
  const told = (await queue(dms.asAdmin)).map(({ id }) => id)
  const first = await claims.leaseNext(dms.app.db, 'ocr', 'here/1', minute)
  expect(first?.id).toBe(told[0])
  expect((await queue(dms.asAdmin)).map(({ id }) => id)).toEqual(told.slice(1))
  const claimed = await claimAll(dms)
  expect(claimed.map(({ id }) => id)).toEqual(told.slice(1))
  const owners = ['ada', ...claimed.map(({ owner }) => owner)]
  expect(owners).toEqual(['ada', 'bob', 'root', 'ada', 'root', 'ada', 'ada', 'ada', 'ada'])
})

test('a job that was queued after 50 others of one owner is claimed second, also in the index queue', async () => {
  const dms = await startApp()
  await uploadMany(dms.asAda, 'ada', 50)
  for (const name of ['ocr', 'index'] as const) await claims.leaseNext(dms.app.db, name, 'here/1', minute)
  await uploadMany(dms.asBob, 'bob', 1)
  for (const name of ['ocr', 'index'] as const) {
    const next = [await claims.leaseNext(dms.app.db, name, 'here/1', minute), await claims.leaseNext(dms.app.db, name, 'here/1', minute)]
    expect(next.map((job) => job?.owner_id)).toContain(dms.bob.id)
  }
})

test('a higher priority comes before all turns of a lower one', async () => {
  const dms = await startApp()
  await uploadMany(dms.asBob, 'bob', 2)
  await uploadMany(dms.asAda, 'ada', 2)
  const { id } = (await queue(dms.asBob)).at(-1)!
  await dms.asAdmin.call('PUT', `/api/ocr/queue/${id}/priority`, { priority: 'urgent' })
  const claimed = await claimAll(dms)
  expect(claimed[0]?.id).toBe(id)
})

test('403 FORBIDDEN for urgent of users, in a retry and in the queue', async () => {
  const { asAda, asAdmin, runJobs } = await startApp({ 'ocr.engine': 'tesseract-js' })
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const [job] = await queue(asAda)
  const forbidden = { status: 403, code: 'FORBIDDEN' }
  await expect(asAda.call('PUT', `/api/ocr/queue/${job?.id}/priority`, { priority: 'urgent' })).rejects.toMatchObject(forbidden)
  await expect(asAda.call('POST', `/api/documents/${id}/retry-ocr`, { priority: 'urgent' })).rejects.toMatchObject(forbidden)
  await expect(asAda.call('POST', `/api/documents/${id}/ocr/retry`, { priority: 'urgent' })).rejects.toMatchObject(forbidden)
  expect(await asAda.call('PUT', `/api/ocr/queue/${job?.id}/priority`, { priority: 'high' })).toMatchObject({ priority: 'high' })
  expect(await asAdmin.call('PUT', `/api/ocr/queue/${job?.id}/priority`, { priority: 'urgent' })).toMatchObject({ priority: 'urgent' })
  const asRead = await asAda.call('GET', `/api/ocr/queue/${job?.id}`)
  expect(await asAda.call('PUT', `/api/ocr/queue/${job?.id}/priority`, asRead)).toEqual(asRead)
  await asAdmin.call('POST', `/api/documents/${id}/retry-ocr`, { priority: 'urgent' })
  await runJobs(['index'])
})

test('documents of a disabled user wait, and are read after the user is enabled', async () => {
  const dms = await startApp()
  await uploadMany(dms.asAda, 'ada', 1)
  await uploadMany(dms.asBob, 'bob', 1)
  await dms.asAdmin.users.update(dms.ada.id, { disabled: true })
  expect((await claimAll(dms)).map(({ owner }) => owner)).toEqual(['bob'])
  await dms.asAdmin.users.update(dms.ada.id, { disabled: false })
  expect((await claimAll(dms)).map(({ owner }) => owner)).toEqual(['ada'])
})

test('waiting jobs of documents with a new owner move to the turns of that owner', async () => {
  const dms = await startApp()
  await uploadMany(dms.asAda, 'ada', 2)
  await dms.asAdmin.users.delete(dms.ada.id, { documents: 'transfer', to: 'bob' })
  expect((await claimAll(dms)).map(({ owner }) => owner)).toEqual(['bob', 'bob'])
})

test('a text file is read before the next pages of 8 long documents of another user', async () => {
  const { app, asAda, asBob } = await startApp({ 'ocr.turn': '0s' })
  await uploadMany(asAda, 'ada', 8)
  for (const { id } of await queue(asAda)) await asAda.call('PUT', `/api/ocr/queue/${id}/priority`, { priority: 'high' })
  for (const { id } of await queue(asAda)) await asAda.call('PUT', `/api/ocr/queue/${id}/priority`, { priority: 'normal' })
  const order: string[] = []
  const reader = fakeReader(20, () => sleep(20).then(() => undefined))
  const { outline, page } = reader
  const text = {
    mimeType: 'text/plain',
    hasReader: true,
    metadata: {},
    pages: [{ page: 1, text: 'hello', needsOcr: false, width: null, height: null }],
  }
  const reading = {
    ...reader,
    outline: async (file: Parameters<typeof outline>[0]) => {
      order.push(file.filename)
      return file.filename.endsWith('.txt') ? text : outline(file)
    },
    page: async (...args: Parameters<typeof page>) => {
      order.push('page')
      return page(...args)
    },
  }
  const worker = await startWorker({ ...app, reader: reading }, { queues: ['ocr'], concurrency: 2, name: 'here/1' })
  await vi.waitFor(() => expect(order.filter((what) => what === 'page').length).toBeGreaterThan(10), { timeout: minute })
  const before = order.length
  const { id } = await upload(asBob, 'bob.txt', 'hello')
  const uploaded = order.length
  await vi.waitFor(async () => expect((await asBob.documents.get(id)).status).toBe('completed'), { timeout: minute })
  // Both slots end the pages that they are at; what is in between came while the upload itself ran.
  expect(order.indexOf('bob.txt')).toBeGreaterThanOrEqual(before)
  expect(order.indexOf('bob.txt') - uploaded).toBeLessThanOrEqual(6)
  await worker.idle()
  await worker.stop(minute)
  const done = await asAda.call<Page<{ status: string; attempts: number; pages_done: number }>>('GET', '/api/ocr/queue?per_page=100')
  expect(done.data.map(({ status, attempts, pages_done }) => [status, attempts, pages_done])).toEqual(
    done.data.map(() => ['completed', 1, 20]),
  )
})

test('slow sources of one user leave a slot for those of others', async () => {
  const dms = await startApp({ 'ocr.enabled': false })
  // Asks come in, and no answer goes out.
  const slow = await startLying('/', () => {})
  const make = (client: Client, name: string) => client.sources.create({ name, type: 'webdav', url: slow.url, sync_interval: 0 })
  const sources = [
    await make(dms.asAda, 'one'),
    await make(dms.asAda, 'two'),
    await make(dms.asAda, 'three'),
    await make(dms.asBob, 'four'),
  ]
  for (const { id } of sources) await dms.asAdmin.sources.sync(id)
  const worker = await startWorker(dms.app, { queues: ['sync'], concurrency: 1 })
  const running = () => worker.running().map(({ job }) => (job.payload as { source_id: string }).source_id)
  await vi.waitFor(() => expect(running()).toHaveLength(2), { timeout: minute })
  expect(running().sort()).toEqual([sources[0]!.id, sources[3]!.id].sort())
  // The first is over: the next of the same user takes its place.
  await dms.asAda.sources.cancelSync(sources[0]!.id)
  await vi.waitFor(() => expect(running()).toContain(sources[1]!.id), { timeout: minute })
  for (const { id } of sources) await dms.asAdmin.sources.cancelSync(id).catch(() => {})
  await worker.stop(minute)
})

test('200,000 jobs of one owner do not slow down the claims of another: each step reads one index entry', {
  timeout: 300_000,
}, async () => {
  const { app, ada, bob } = await startApp()
  await sql`insert into jobs (kind, queue, owner_id, run_at)
    select 'purge', 'maintenance', ${ada.id}::uuid, now() - n * interval '1 ms' from generate_series(1, 200000) n`.execute(app.db)
  for (let index = 0; index < 5; index++)
    await app.db.transaction().execute((trx) => jobs.enqueue(trx, 'purge', { sha256: `${index}` }, { ownerId: bob.id }))
  const owners: string[] = []
  const read = async () => {
    const { rows } = await sql<{
      read: number
    }>`select coalesce(sum(idx_tup_read), 0)::int as read from pg_stat_user_indexes where relname like 'jobs%'`.execute(app.db)
    return rows[0]!.read
  }
  const flush = () => sql`select pg_stat_force_next_flush()`.execute(app.db)
  await flush()
  const before = await read()
  for (let index = 0; index < 20; index++) owners.push((await claims.leaseNext(app.db, 'maintenance', 'here/1', minute))?.owner_id ?? '')
  expect(owners.slice(0, 10).filter((owner) => owner === bob.id)).toHaveLength(5)
  await flush()
  await vi.waitFor(async () => expect(await read()).toBeGreaterThan(before), { timeout: minute })
  expect((await read()) - before).toBeLessThan(20_000)
})

test('10,000 owners with postponed jobs do not slow down claims: jobs that can run are found among them', {
  timeout: 120_000,
}, async () => {
  const { app, bob } = await startApp()
  await sql`insert into jobs (kind, queue, owner_id, run_at)
    select 'purge', 'maintenance', gen_random_uuid(), now() + interval '1 hour' from generate_series(1, 10000)`.execute(app.db)
  const claim = () => claims.leaseNext(app.db, 'maintenance', 'here/1', minute)
  expect(await claim()).toBeNull()
  for (let index = 0; index < 3; index++)
    await app.db.transaction().execute((trx) => jobs.enqueue(trx, 'purge', { sha256: `${index}` }, { ownerId: bob.id }))
  expect([await claim(), await claim(), await claim()].map((job) => job?.owner_id)).toEqual([bob.id, bob.id, bob.id])
  expect(await claim()).toBeNull()
})
