/** The document store in S3, on a real server. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { type IncomingMessage, request as openRequest } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { buffer, text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import type { Config } from '../../src/config/schema.ts'
import { claimStore, loadStoreUse } from '../../src/files/database-marker.ts'
import { openStores } from '../../src/files/open-stores.ts'
import { checkStoreMarker } from '../../src/files/store-marker.ts'
import { openBucket as openS3Bucket, textBody } from '../../src/files/stores/s3/bucket.ts'
import { openS3Store, s3Markers } from '../../src/files/stores/s3/s3.ts'
import { partBytes } from '../../src/files/stores/s3/upload.ts'
import type { FileStore } from '../../src/ports/file-store.ts'
import { startApp } from '../support/app.ts'
import { startLying } from '../support/servers/lying-server.ts'
import { hasS3Server, type S3Server, startS3 } from '../support/servers/s3-server.ts'
import { bucketSettings } from '../support/servers/s3-settings.ts'
import { startTcpRelay } from '../support/servers/tcp-relay.ts'
import { makeCertificate } from '../support/servers/webdav-servers.ts'
import { keep, sha, stage, testStore } from '../support/store-suite.ts'

vi.setConfig({ testTimeout: 60_000 })

let server: S3Server

async function openBucket(more: Record<string, string | number | boolean> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'dms-s3-store-'))
  const settings = { data_dir: folder, ...(await bucketSettings(server)), ...more }
  const { config } = loadConfig({ env: {}, flags: settings })
  const cache = join(folder, 'cache')
  const opened: FileStore[] = []
  const open = (): FileStore => {
    const store = openS3Store(config, cache)
    opened.push(store)
    return store
  }
  onTestFinished(async () => {
    for (const store of opened) await store.close()
    await rm(folder, { recursive: true, force: true })
  })
  return { config, cache, open, store: open(), path: `${config.storage.s3_bucket}/archive` }
}

/** Opens a bucket with the marker of an archive. */
async function openMarked(more: Parameters<typeof openBucket>[0] = {}) {
  const opened = await openBucket(more)
  await s3Markers(opened.config).write('.dms-store', 'one')
  return opened
}

test('10,000 parts, the limit of the protocol, hold the largest object of 5 TiB', () => {
  const total = Array.from({ length: 10_000 }, (_, index) => partBytes(index + 1)).reduce((sum, size) => sum + size, 0)
  expect(total).toBeGreaterThan(5 * 1024 ** 4)
  expect([partBytes(1), partBytes(1000), partBytes(1001)]).toEqual([8 << 20, 8 << 20, 16 << 20])
})

describe.runIf(hasS3Server())('a server of S3', () => {
  beforeAll(async () => {
    server = await startS3()
  })
  afterAll(() => server?.stop())

  testStore(async () => (await openMarked()).store)

  test('the cache holds no more than cache_bytes, and gives cached files without the server', async () => {
    const { cache, store } = await openMarked({ 'storage.cache_bytes': 400_000 })
    const addresses: string[] = []
    for (let count = 0; count < 8; count++) addresses.push(await keep(store, randomBytes(100_000)))
    for (const address of addresses) await (await store.openLocal(address)).release()
    const cached = (await readdir(cache)).filter((name) => addresses.includes(name))
    expect(cached.length).toBeGreaterThan(0)
    expect(cached.length).toBeLessThanOrEqual(4)
    const last = addresses.at(-1) ?? ''
    await store.remove(last)
    await (await store.openLocal(last)).release()
  })

  test('a download goes on after a lost connection', async () => {
    const relay = await startTcpRelay(server.url)
    const { store } = await openBucket({ 'storage.s3_endpoint': relay.url })
    const bytes = randomBytes(30_000_000)
    const address = await keep(store, bytes)
    const stream = await store.read(address)
    const chunks: Buffer[] = []
    for await (const chunk of stream) {
      if (chunks.length === 10) relay.drop()
      chunks.push(chunk)
    }
    expect(Buffer.concat(chunks).equals(bytes)).toBe(true)
  })

  test('uploads that wait for their senders hold little memory, and come back whole', async () => {
    const { store } = await openMarked()
    const [head, tail] = [randomBytes(7_900_000), randomBytes(5_000_000)]
    const allWait = Promise.withResolvers<void>()
    let waiting = 0
    async function* send(nth: number) {
      yield Buffer.from([nth])
      for (let at = 0; at < head.length; at += 65_000) yield head.subarray(at, at + 65_000)
      if (++waiting === 20) allWait.resolve()
      await allWait.promise
      yield tail
    }
    const before = process.memoryUsage().arrayBuffers
    const uploads = Promise.all(Array.from({ length: 20 }, (_, nth) => store.stage(send(nth), 1 << 30)))
    await allWait.promise
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(80_000_000)
    for (const [nth, staged] of (await uploads).entries()) {
      expect(staged.sha256).toBe(sha(Buffer.concat([Buffer.from([nth]), head, tail])))
      expect(sha(await buffer(await store.read(staged.address)))).toBe(staged.sha256)
      await staged.discard()
    }
  })

  test('a bucket that belongs to another database is refused, and one that lost its marker', async () => {
    const [one, other] = [await startApp(), await startApp()]
    const { config, path } = await openBucket()
    const markers = s3Markers(config)
    // The marker of a new installation.
    await markers.write('.dms-store', await storeIdOf(one), { isNew: true })
    await checkStoreMarker(one.app.db, markers, { creates: true })
    await expect(checkStoreMarker(other.app.db, markers, { creates: true })).rejects.toThrow('belongs to another database')
    expect(markers.location).toBe(`s3://${path}/`)
  })

  test('a bucket is refused to a copy of its database, and its files are not removed after the copy has taken it over', async () => {
    const [one, copy] = [await startApp(), await startApp()]
    const { config } = await openBucket()
    const external = { ...config, database: one.app.config.database }
    const markers = s3Markers(config)
    const storeId = await storeIdOf(one)
    await copy.app.db.updateTable('instance').set({ value: storeId }).where('key', '=', 'store_id').execute()
    await markers.write('.dms-store', storeId, { isNew: true })
    await claimStore(one.app.db, markers, external)
    await claimStore(one.app.db, markers, external)
    await expect(claimStore(copy.app.db, markers, external)).rejects.toThrow('was last used by another database')
    const { files, close } = await openStores(external, one.app.db)
    onTestFinished(close)
    const address = await keep(files, 'hello')
    await (await loadStoreUse(copy.app.db, markers, external)).record()
    await expect(files.remove(address)).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE' })
    expect(await files.size(address)).toBe(5)
    await claimStore(copy.app.db, markers, external)
  })

  test('STORAGE_UNAVAILABLE for a wrong key at once, and for a changed marker', async () => {
    const { store } = await openBucket({ 'storage.s3_secret_access_key': 'wrong' })
    await expect(stage(store, 'hello')).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE', status: 503 })
    const { store: marked, config, cache } = await openMarked()
    await marked.check()
    const ofAnother = openS3Store(config, cache, 'id of another database')
    onTestFinished(() => ofAnother.close())
    await expect(ofAnother.check()).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE' })
    await s3Markers(config).remove('.dms-store')
    await expect(marked.check()).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE' })
  })

  test('STORAGE_UNAVAILABLE for uploads, removals and missing files while another bucket answers', async () => {
    const { config, store, open } = await openMarked()
    const [address, other] = [await keep(store, 'hello'), await keep(store, 'other')]
    const idle = open()
    await idle.check()
    const key = `archive/files/${address}`
    const bytes = await bucketOf(config).readText(key)
    for (const lost of ['archive/.dms-store', key]) await bucketOf(config).remove(lost)
    const ask = [
      () => store.size(address),
      () => store.read(address),
      () => store.openLocal(address),
      () => store.quarantine(address),
      () => store.remove(address),
      () => open().remove(address),
      () => Array.fromAsync(store.list()),
      () => stage(idle, 'new'),
    ]
    for (const one of ask) await expect(one(), String(one)).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE' })
    expect(await text(await store.read(other))).toBe('other')
    await bucketOf(config).put(key, textBody(bytes ?? ''))
    await s3Markers(config).write('.dms-store', 'one')
    expect(await text(await store.read(address))).toBe('hello')
    await store.remove(address)
    expect(await store.size(address)).toBeNull()
  })

  test('credentials of the instance are asked for only with storage.s3_credentials = "instance", and then used', async () => {
    const role = JSON.stringify({ AccessKeyId: server.username, SecretAccessKey: server.password, Expiration: '2099-01-01T00:00:00Z' })
    const metadata = await startLying('/', ({ url }, response) => response.end(url?.endsWith('/role') ? role : 'role'))
    vi.stubEnv('AWS_EC2_METADATA_SERVICE_ENDPOINT', metadata.url)
    onTestFinished(() => void vi.unstubAllEnvs())
    await keep((await openBucket()).store, 'static')
    expect(metadata.seen).toEqual([])
    const keys = { 'storage.s3_access_key_id': '', 'storage.s3_secret_access_key': '' }
    const { store } = await openBucket({ ...keys, 'storage.s3_credentials': 'instance' })
    const address = await keep(store, 'of the instance')
    expect(await text(await store.read(address))).toBe('of the instance')
    expect(metadata.seen).toHaveLength(3)
    const url = await store.presign(address, 60, { type: 'text/plain', disposition: 'inline' })
    expect(await (await fetch(url ?? '')).text()).toBe('of the instance')
    metadata.close()
    await keep(store, 'without another question')
  })

  test('a certificate of its own authority is trusted with storage.s3_ca_file, and not otherwise', async () => {
    const { caFile, url } = await startTls(server.url)
    const { store } = await openBucket({ 'storage.s3_endpoint': url, 'storage.s3_ca_file': caFile })
    expect(await text(await store.read(await keep(store, 'over TLS')))).toBe('over TLS')
    const { store: untrusting } = await openBucket({ 'storage.s3_endpoint': url })
    await expect(stage(untrusting, 'hello')).rejects.toMatchObject({ code: 'STORAGE_UNAVAILABLE' })
    await expect(openBucket({ 'storage.s3_ca_file': `${caFile}.lost` })).rejects.toThrow('storage.s3_ca_file cannot be read: ENOENT')
  })

  test('no multipart upload is left after the answer to its beginning was lost', async () => {
    let lost = 0
    const isBeginning = ({ method, url }: IncomingMessage) => method === 'POST' && url?.endsWith('?uploads=') === true
    const { caFile, url } = await startTls(server.url, (request) => isBeginning(request) && ++lost === 1)
    const { store, config } = await openBucket({ 'storage.s3_endpoint': url, 'storage.s3_ca_file': caFile })
    const address = await keep(store, randomBytes(9_000_000))
    expect(lost).toBe(2)
    expect(await uploadsIn(config)).not.toContain('<Upload>')
    expect(await store.size(address)).toBe(9_000_000)
  })

  test('a file whose transaction was rolled back is removed, unless it is committed again', async () => {
    const { store } = await openBucket()
    const sizes = async (isCommittedAgain: boolean) => {
      const staged = await stage(store, 'staged')
      await staged.commit()
      staged.rollback()
      if (isCommittedAgain) await staged.commit()
      await staged.confirm()
      await staged.discard()
      return store.size(staged.address)
    }
    expect([await sizes(false), await sizes(true)]).toEqual([null, 6])
  })

  test('files of a process that died are uncommitted, and data without an address is removed', async () => {
    const { open, store, path, config } = await openBucket()
    const large = randomBytes(9_000_000)
    const [kept, lost] = [await keep(store, large), (await stage(store, 'staged')).address]
    const session = kept.slice(65, 77)
    expect(lost.slice(65, 77)).toBe(session)
    await server.send('PUT', `${path}/data/${session}000000000000`, { body: 'without a pointer' })
    // As the marker of a dead process.
    await server.send('PUT', `${path}/uncommitted/${session}`, { body: '' })
    const next = open()
    const uncommitted = await next.listUncommitted()
    expect(uncommitted.map(({ address }) => address).sort()).toEqual([kept, lost].sort())
    const keys = (await Array.fromAsync(bucketOf(config).list('archive/data/'))).map(({ key }) => key)
    expect(keys).toEqual([`archive/data/${kept.slice(65)}`])
    expect((await buffer(await next.read(kept))).equals(large)).toBe(true)
    for (const { remove } of uncommitted) await remove()
    expect(await next.listUncommitted()).toEqual([])
  })

  test('large files in quarantine, and those without a generation, stay when the session of a dead process is searched', async () => {
    const { open, store, path, config } = await openBucket()
    const [moved, plain] = [await keep(store, randomBytes(9_000_000)), await keep(store, randomBytes(9_000_000), '')]
    await store.quarantine(moved)
    await server.send('PUT', `${path}/uncommitted/${moved.slice(65, 77)}`, { body: '' })
    const next = open()
    await next.listUncommitted()
    expect(await Array.fromAsync(bucketOf(config).list('archive/data/'))).toHaveLength(2)
    expect(await next.size(plain)).toBe(9_000_000)
  })
})

/** Starts a proxy with TLS. The Host header stays, because signatures cover it. The answers to requests that `isLost` names are lost. */
async function startTls(onward: string, isLost: (request: IncomingMessage) => boolean = () => false) {
  const folder = await mkdtemp(join(tmpdir(), 'dms-s3-tls-'))
  const caFile = await makeCertificate(folder)
  const [cert, key] = await Promise.all(['cert.pem', 'key.pem'].map((name) => readFile(join(folder, name))))
  const proxy = createServer({ cert, key }, (request, response) => {
    const { method, url, headers } = request
    request.pipe(
      openRequest(new URL(url ?? '', onward), { method, headers, agent: false }, (answer) => {
        if (isLost(request)) return void answer.resume().on('end', () => request.socket.destroy())
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(response)
      }),
    )
  })
  await once(proxy.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(async () => {
    proxy.closeAllConnections()
    proxy.close()
    await rm(folder, { recursive: true })
  })
  return { caFile, url: `https://localhost:${(proxy.address() as AddressInfo).port}/` }
}

/** Lists unfinished multipart uploads, as XML. */
const uploadsIn = (config: Config): Promise<string> => bucketOf(config).exchange({ method: 'GET', key: '', query: { uploads: '' } })

function bucketOf({ storage }: Config) {
  const bucket = openS3Bucket(storage)
  onTestFinished(() => bucket.close())
  return bucket
}

const storeIdOf = async ({ app }: Awaited<ReturnType<typeof startApp>>): Promise<string> =>
  (await app.db.selectFrom('instance').select('value').where('key', '=', 'store_id').executeTakeFirst())?.value ?? ''
