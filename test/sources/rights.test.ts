/** Rights of the owner of a source are checked when it is read, not only when it is created. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test, vi } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp } from '../support/app.ts'
import { makeFolder } from '../support/data/source-folder.ts'
import { startLying } from '../support/servers/lying-server.ts'

type Dms = Awaited<ReturnType<typeof startApp>>

const entry = (href: string, { isFolder = false, size = 5 } = {}) =>
  `<D:response><D:href>${href}</D:href><D:propstat><D:prop><D:resourcetype>${isFolder ? '<D:collection/>' : ''}</D:resourcetype>` +
  `<D:getcontentlength>${size}</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>`

/** A WebDAV server whose files have the contents that `read` returns. */
const startShare = (files: number, read: (response: import('node:http').ServerResponse) => void = (response) => response.end('alpha')) =>
  startLying('/', (request, response) => {
    if (request.method === 'GET') return read(response)
    const names = Array.from({ length: files }, (_, at) => `/${at}.txt`)
    response
      .writeHead(207, { 'content-type': 'application/xml' })
      .end(
        `<D:multistatus xmlns:D="DAV:">${[entry('/', { isFolder: true }), ...names.map((name) => entry(name))].join('')}</D:multistatus>`,
      )
  })

const setUser = (dms: Dms, id: string, changes: { role?: 'admin' | 'user'; disabled?: boolean }) => dms.asAdmin.users.update(id, changes)

/** Syncs it. Returns the source and the result. */
async function sync(dms: Dms, id: string) {
  await dms.asAdmin.sources.sync(id)
  await dms.runJobs(['sync'])
  return { source: await dms.asAdmin.sources.get(id), run: await dms.asAdmin.sources.syncStatus(id) }
}

async function startFolder(owner: string | undefined) {
  const { root, put } = await makeFolder()
  await put('a.txt', 'alpha')
  const dms = await startApp({ 'sources.local_roots': root, 'ocr.enabled': false })
  await setUser(dms, dms.ada.id, { role: 'admin' })
  const { id } = await dms.asAdmin.sources.create({ name: 'Folder', type: 'local_folder', url: root, owner })
  return { ...dms, dms, id, put }
}

test('SOURCE_OWNER_FORBIDDEN: the folder of a demoted admin is not read until the owner is an admin again', async () => {
  const { dms, id, put, ada, asAda } = await startFolder('ada')
  expect((await sync(dms, id)).run).toMatchObject({ state: 'completed', created: 1 })
  await setUser(dms, ada.id, { role: 'user' })
  await put('b.txt', 'beta')
  const refused = await sync(dms, id)
  expect(refused.run).toMatchObject({ state: 'failed', created: 0, error: { code: 'SOURCE_OWNER_FORBIDDEN' } })
  expect(refused.source).toMatchObject({ status: 'error', last_error: expect.stringContaining('for admins') })
  expect(await asAda.sources.test(id)).toMatchObject({ ok: false, checks: [{ name: 'owner', ok: false }], sample: [] })
  await setUser(dms, ada.id, { role: 'admin' })
  expect(await sync(dms, id)).toMatchObject({ source: { status: 'active', last_error: null }, run: { state: 'completed', created: 1 } })
})

test('a folder that an admin gave to a user is read while that admin is one, and again when another admin gives it', async () => {
  const { dms, ada, bob, asAda, asAdmin } = await startFolder(undefined)
  const { root, put } = await makeFolder()
  await put('a.txt', 'alpha')
  dms.app.config.sources.local_roots.push(root)
  await setUser(dms, ada.id, { role: 'user' })
  const { id } = await asAdmin.sources.create({ name: 'Given', type: 'local_folder', url: root, owner: 'ada' })
  expect((await sync(dms, id)).run).toMatchObject({ state: 'completed', created: 1 })
  // The one who gave it is an admin no more, and bob is.
  await setUser(dms, bob.id, { role: 'admin' })
  await dms.app.db.updateTable('sources').set({ granted_by: bob.id }).where('id', '=', id).execute()
  await setUser(dms, bob.id, { role: 'user' })
  expect((await sync(dms, id)).run).toMatchObject({ state: 'failed', error: { code: 'SOURCE_OWNER_FORBIDDEN' } })
  await asAda.sources.update(id, { status: 'active' })
  expect((await sync(dms, id)).run).toMatchObject({ state: 'failed' })
  await asAdmin.sources.update(id, { status: 'active' })
  expect((await sync(dms, id)).run).toMatchObject({ state: 'completed' })
})

test('an admin who sends a folder of a user back as read does not become the one who gave it', async () => {
  const { dms, id, ada, bob, admin, asAdmin } = await startFolder('ada')
  await setUser(dms, ada.id, { role: 'user' })
  await setUser(dms, bob.id, { role: 'admin' })
  await dms.app.db.updateTable('sources').set({ granted_by: bob.id }).where('id', '=', id).execute()
  const grantor = async () => (await dms.app.db.selectFrom('sources').select('granted_by').executeTakeFirstOrThrow()).granted_by
  await asAdmin.call('PUT', `/api/sources/${id}`, { ...(await asAdmin.sources.get(id)), name: 'Renamed' })
  expect(await grantor()).toBe(bob.id)
  await asAdmin.sources.update(id, { status: 'disabled' })
  await asAdmin.sources.update(id, { status: 'active' })
  expect(await grantor()).toBe(admin.id)
})

test('SOURCE_OWNER_DISABLED: sources of a disabled user send no requests, and go on after the user is enabled', async () => {
  const dms = await startApp({ 'ocr.enabled': false })
  const share = await startShare(2)
  const { id } = await dms.asAda.sources.create({ name: 'Share', type: 'webdav', url: share.url })
  await setUser(dms, dms.ada.id, { disabled: true })
  const refused = await sync(dms, id)
  expect(refused.run).toMatchObject({ state: 'failed', error: { code: 'SOURCE_OWNER_DISABLED' } })
  expect(refused.source).toMatchObject({ status: 'error', last_error: expect.stringContaining('disabled') })
  expect(share.seen).toEqual([])
  await setUser(dms, dms.ada.id, { disabled: false })
  expect(await sync(dms, id)).toMatchObject({ source: { status: 'active' }, run: { state: 'completed', created: 2 } })
})

test.each([
  ['disabled', { disabled: true }, 'SOURCE_OWNER_DISABLED'],
  ['demoted', { role: 'user' }, 'SOURCE_OWNER_CHANGED'],
] as const)('a running sync stops when its owner is %s', async (_, changes, code) => {
  const dms = await startApp({ 'ocr.enabled': false, 'sources.allow_private_networks': false })
  await setUser(dms, dms.ada.id, { role: 'admin' })
  // Files that never come to their end.
  const share = await startShare(2, (response) => void response.writeHead(200, { 'content-length': '5' }).write('al'))
  const { id } = await dms.asAdmin.sources.create({ name: 'Share', type: 'webdav', url: share.url, owner: 'ada' })
  const worker = await startWorker(dms.app, { queues: ['sync'], concurrency: 1 })
  await dms.asAdmin.sources.sync(id)
  await vi.waitFor(() => expect(share.seen).toContain('GET /0.txt'), { timeout: 20_000 })
  await setUser(dms, dms.ada.id, changes)
  await vi.waitFor(() => expect(worker.running()).toEqual([]), { timeout: 20_000 })
  await worker.stop(10_000)
  const { last_error } = await dms.asAdmin.sources.get(id)
  const { sourceFailures } = await import('../../src/ports/source-type.ts')
  expect(last_error).toBe(sourceFailures[code])
  // Under the rights of now nothing of a private network is read.
  const asked = share.seen.length
  if (code === 'SOURCE_OWNER_CHANGED')
    expect((await sync(dms, id)).run).toMatchObject({ state: 'failed', error: { code: 'SOURCE_ADDRESS_FORBIDDEN' } })
  await sleep(100)
  expect(share.seen.length).toBe(asked)
})

describe('private networks of users who are no admins, by default', () => {
  const refusal = 'The address is in a place that this source may not reach.'
  /** of an installation without this setting */
  const allowedByDefault = loadConfig({ env: {}, flags: { data_dir: '/nonexistent' } }).config.sources.allow_private_networks
  const types = [
    ['webdav', (port: number) => `http://127.0.0.1:${port}/`],
    ['s3', (port: number) => `http://127.0.0.1:${port}/bucket`],
    ['webdav', (port: number) => `http://localhost:${port}/`],
  ] as const

  test.each(types)('%s: equal answers for an open and a closed port, without a connection (%#)', async (type, urlOf) => {
    const { asAda } = await startApp({ 'sources.allow_private_networks': allowedByDefault })
    const share = await startShare(1)
    const isName = urlOf(1).includes('localhost')
    const outcomes = []
    for (const port of [share.port, 1]) {
      const address = { type, url: urlOf(port), username: 'key', password: 'secret' } as const
      outcomes.push({
        tested: await asAda.sources.testAddress(address),
        created: await asAda.sources.create({ name: 'Probe', sync_interval: 0, ...address }).then(
          () => null,
          ({ status, details }) => ({ status, details }),
        ),
      })
    }
    expect(outcomes[0]).toEqual(outcomes[1])
    expect(outcomes[0]?.tested).toMatchObject({ ok: false, checks: [{ ok: false, message: refusal }] })
    // What a name stands for is asked when a socket is opened.
    if (!isName) expect(outcomes[0]?.created).toEqual({ status: 400, details: { issues: [{ path: 'url', message: refusal }] } })
    expect(share.seen).toEqual([])
  })

  test('are refused when a source is changed, synced or tested, also one created while its owner was an admin', async () => {
    const dms = await startApp({ 'sources.allow_private_networks': allowedByDefault, 'ocr.enabled': false })
    const share = await startShare(1)
    const { id } = await dms.asAda.sources.create({ name: 'Cloud', type: 'webdav', url: 'https://cloud.example.org/', sync_interval: 0 })
    await expect(dms.asAda.sources.update(id, { url: share.url })).rejects.toMatchObject({ status: 400 })
    await setUser(dms, dms.ada.id, { role: 'admin' })
    await dms.asAdmin.sources.update(id, { url: share.url })
    expect((await sync(dms, id)).run).toMatchObject({ state: 'completed', created: 1 })
    await setUser(dms, dms.ada.id, { role: 'user' })
    const asked = share.seen.length
    expect((await sync(dms, id)).run).toMatchObject({ state: 'failed', error: { code: 'SOURCE_ADDRESS_FORBIDDEN' } })
    expect(await dms.asAda.sources.test(id)).toMatchObject({ ok: false, checks: [{ message: refusal }] })
    expect(share.seen.length).toBe(asked)
  })

  test('link-local addresses are refused to admins too', async () => {
    const { asAdmin } = await startApp()
    for (const url of ['http://169.254.10.10/dav/', 'http://[fe80::1]/dav/'])
      expect(await asAdmin.sources.testAddress({ type: 'webdav', url })).toMatchObject({ ok: false, checks: [{ message: refusal }] })
  })
})
