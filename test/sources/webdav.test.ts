/** WebDAV on real servers, whose files another client writes: that of the package `webdav`. */
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { AuthType, createClient } from 'webdav'
import { webdav } from '../../src/sources/webdav/webdav.ts'
import { startApp } from '../support/app.ts'
import {
  hasWebdavServer,
  startWebdav,
  type WebdavOptions,
  type WebdavServer,
  type WebdavServerName,
} from '../support/servers/webdav-servers.ts'
import { sourceLimits } from '../support/source-limits.ts'
import { type SourcePlace, testSourceType } from '../support/source-suite.ts'

const limits = sourceLimits({ timeoutMs: 10_000 })

/** One server for the tests of a group. */
function serverOfGroup(name: WebdavServerName, options: WebdavOptions = {}): () => WebdavServer {
  let server: WebdavServer
  beforeAll(async () => {
    server = await startWebdav(name, options)
  })
  afterAll(() => server?.stop())
  return () => server
}

async function listening(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

const descriptions: Record<WebdavServerName, RegExp> = {
  apache: /^Apache.*; WebDAV 1, 2$/,
  nginx: /^nginx.*; WebDAV 1$/,
  rclone: /^has no name; WebDAV 1, 2$/,
}

let folders = 0

/** Creates an empty folder of the server, written to over WebDAV. */
async function placeOn(server: WebdavServer): Promise<SourcePlace> {
  const { username, password, caFile } = server
  const name = `place ${++folders}`
  // Its own Basic sends passwords in Latin-1.
  const authorization = `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
  const client = createClient(server.url, { authType: AuthType.None, headers: { authorization } })
  const at = (path: string) => `/${name}/${path}`
  await client.createDirectory(`/${name}`)
  return {
    type: webdav,
    address: { url: `${server.url}${encodeURIComponent(name)}/`, username, password, recursive: true },
    limits: { ...limits, caFile },
    put: async (path, bytes) => {
      const folder = path.includes('/') ? path.slice(0, path.lastIndexOf('/')) : ''
      if (folder !== '' && !(await client.exists(at(folder)))) await client.createDirectory(at(folder), { recursive: true })
      await client.putFileContents(at(path), bytes)
    },
    makeFolder: (path) => client.createDirectory(at(path)),
    move: (from, to) => client.moveFile(at(from), at(to)),
    remove: (path) => client.deleteFile(at(path)),
  }
}

for (const name of ['apache', 'nginx', 'rclone'] as const) {
  describe.runIf(hasWebdavServer(name))(name, () => {
    const server = serverOfGroup(name)
    testSourceType(() => placeOn(server()))

    test('its test reports the kind of server', async () => {
      const place = await placeOn(server())
      const connection = webdav.open(place.address, place.limits)
      onTestFinished(() => connection.close())
      const { checks } = await connection.test(new AbortController().signal)
      expect(checks.map(({ name, ok }) => [name, ok])).toEqual(
        ['name', 'connection', 'sign-in', 'server', 'listing'].map((one) => [one, true]),
      )
      expect(checks[3]?.message).toMatch(descriptions[name])
    })

    test('SOURCE_UNAUTHORIZED for a wrong password and without one', async () => {
      const place = await placeOn(server())
      for (const password of ['wrong', null]) {
        const connection = webdav.open({ ...place.address, password, username: password && place.address.username }, limits)
        onTestFinished(() => connection.close())
        const { checks } = await connection.test(new AbortController().signal)
        expect(checks.at(-1)).toMatchObject({ name: 'sign-in', ok: false })
      }
    })
  })
}

describe.runIf(hasWebdavServer('apache'))('Apache with Digest', () => {
  const server = serverOfGroup('apache', { auth: 'digest' })

  test('lists and reads, each request signed', async () => {
    for (const name of ['a b', 'é', 'x?y']) await writeFile(join(server().folder, name), name)
    const { url, username, password } = server()
    const connection = webdav.open({ url, username, password, recursive: true }, limits)
    onTestFinished(() => connection.close())
    const found: string[] = []
    for await (const entry of connection.walk({ loadTag: async () => null, signal: new AbortController().signal })) {
      if (entry.kind !== 'file') continue
      const { bytes } = await connection.read(entry.file, new AbortController().signal)
      found.push(Buffer.concat(await Array.fromAsync(bytes)).toString())
    }
    expect(found.sort()).toEqual(['a b', 'x?y', 'é'])
    const wrong = webdav.open({ url, username, password: 'wrong', recursive: true }, limits)
    onTestFinished(() => wrong.close())
    expect((await wrong.test(new AbortController().signal)).checks.at(-1)).toMatchObject({ name: 'sign-in', ok: false })
  })
})

describe.runIf(hasWebdavServer('apache'))('Apache with a certificate of its own authority', () => {
  const server = serverOfGroup('apache', { tls: true })
  const tested = async (url: string, caFile: string) => {
    const { username, password } = server()
    const connection = webdav.open({ url, username, password, recursive: true }, { ...limits, caFile })
    onTestFinished(() => connection.close())
    return (await connection.test(new AbortController().signal)).checks.at(-1)
  }

  test('is trusted with sources.ca_file, with its own name, and not otherwise', async () => {
    const { url, caFile } = server()
    expect(await tested(url, caFile)).toMatchObject({ name: 'listing', ok: true })
    expect(await tested(url, '')).toMatchObject({ name: 'connection', ok: false, message: expect.stringContaining('cannot be trusted') })
    expect(await tested(url.replace('localhost', '127.0.0.2'), caFile)).toMatchObject({ name: 'connection', ok: false })
    expect(await tested(url.replace('https:', 'http:'), caFile)).toMatchObject({ ok: false })
  })

  test('SOURCE_ADDRESS_INVALID if sources.ca_file is no file', () => {
    const open = () =>
      webdav.open({ url: server().url, username: null, password: null, recursive: true }, { ...limits, caFile: '/nowhere' })
    expect(open).toThrow(expect.objectContaining({ code: 'SOURCE_ADDRESS_INVALID' }))
  })
})

describe.runIf(hasWebdavServer('apache'))('a source of documents', () => {
  const server = serverOfGroup('apache')

  async function start(settings = {}) {
    const place = await placeOn(server())
    const dms = await startApp({ 'ocr.enabled': false, ...settings })
    const { url, username, password } = place.address
    const source = await dms.asAdmin.sources.create({ name: 'Files', type: 'webdav', url, username, password })
    const documents = async () => {
      const all = await Array.fromAsync(dms.asAdmin.documents.list({ source_id: source.id }))
      return new Map(all.map((document) => [document.source_path ?? '', document]))
    }
    return {
      ...dms,
      ...place,
      source,
      documents,
      sync: async () => {
        await dms.asAdmin.sources.sync(source.id)
        await dms.runJobs(['sync'])
        return dms.asAdmin.sources.syncStatus(source.id)
      },
      /** number of downloads so far */
      downloads: async () => {
        const folder = decodeURIComponent(new URL(url).pathname)
        return (await server().requests()).filter((line) => line.startsWith(`GET ${folder}`)).length
      },
    }
  }

  test('files become documents; unchanged ones are not downloaded; changed, renamed, removed and deleted ones are handled', async () => {
    const { put, move, remove, sync, documents, downloads, asAdmin, runJobs } = await start()
    await put('Invoice.txt', 'alpha')
    await put('sub/é b.txt', 'beta')
    await put('sub/c.txt', 'gamma')
    await put('d.txt', 'delta')
    expect(await sync()).toMatchObject({ state: 'completed', total: 4, created: 4, failed: 0, errors: [] })
    await runJobs()
    expect((await documents()).get('sub/é b.txt')).toMatchObject({ filename: 'é b.txt', content: 'beta', status: 'completed' })
    expect(await downloads()).toBe(4)
    expect(await sync()).toMatchObject({ state: 'completed', total: 4, unchanged: 4, bytes: 0 })
    expect(await downloads()).toBe(4)

    const before = await documents()
    await put('Invoice.txt', 'alpha, paid')
    await move('sub/c.txt', 'sub/e.txt')
    await remove('d.txt')
    await asAdmin.documents.delete(before.get('sub/é b.txt')?.id ?? '')
    expect(await sync()).toMatchObject({ state: 'completed', failed: 0 })
    expect(await downloads()).toBe(6)
    const after = await documents()
    expect(after.get('Invoice.txt')?.id).toBe(before.get('Invoice.txt')?.id)
    expect([...after.values()].some(({ filename }) => filename === 'e.txt')).toBe(true)
    expect(after.get('d.txt')?.metadata).toMatchObject({ source_removed_at: expect.any(String) })
    expect(after.has('sub/é b.txt')).toBe(false)
    expect(await sync()).toMatchObject({ created: 0, updated: 0, bytes: 0 })
    expect(await downloads()).toBe(6)
  })

  test('a refused password fails the sync, is not shown, and removes nothing', async () => {
    const { put, sync, documents, asAdmin, source } = await start()
    await put('a.txt', 'alpha')
    await sync()
    await asAdmin.sources.update(source.id, { password: 'no longer right' })
    expect(await sync()).toMatchObject({ state: 'failed', removed: 0 })
    expect((await documents()).get('a.txt')?.metadata).not.toHaveProperty('source_removed_at')
    const told = JSON.stringify(await asAdmin.sources.get(source.id))
    expect(told).not.toContain('no longer right')
    expect(told).toContain('refuses the username or the password')
  })

  test('403 or a refusal for private addresses where they are not allowed, and the server gets no request', async () => {
    const { asAda } = await start({ 'sources.allow_private_networks': false })
    let hits = 0
    const own = createServer((_, response) => {
      hits++
      response.end()
    })
    onTestFinished(() => void own.close())
    const port = await listening(own)
    for (const host of ['127.0.0.1', 'localhost', '[::ffff:127.0.0.1]']) {
      const outcome = await asAda.sources.testAddress({ type: 'webdav', url: `http://${host}:${port}/` }).then(
        ({ ok }) => ok,
        () => false,
      )
      expect(outcome).toBe(false)
    }
    expect(hits).toBe(0)
  })
})

describe('a server that begins to misbehave', () => {
  /** Creates a share of two files that can misbehave. */
  async function start() {
    const state = { mode: 'good' as 'good' | 'login' | 'empty' | 'broken' | 'short' | 'shifted' | 'elsewhere', changed: '' }
    const entry = (href: string, inner: string) =>
      `<D:response><D:href>${href}</D:href><D:propstat><D:prop>${inner}</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>`
    const file = (name: string) =>
      entry(
        `${state.mode === 'elsewhere' ? 'http://internal.example' : ''}/${name}`,
        `<D:resourcetype/><D:getetag>"1${state.changed}"</D:getetag><D:getlastmodified>Mon, 01 Jan 2024 10:00:00 GMT</D:getlastmodified>${state.mode === 'short' ? '' : '<D:getcontentlength>5</D:getcontentlength>'}`,
      )
    const server = createServer((request, response) => {
      const { mode } = state
      if (request.method === 'GET' && mode === 'login')
        return response.writeHead(200, { 'content-type': 'text/html' }).end('<html>Sign in</html>')
      if (request.method === 'GET' && mode === 'short') return response.socket?.end('HTTP/1.0 200 OK\r\n\r\nalp')
      if (request.method === 'GET' && mode === 'shifted')
        return response.writeHead(200, { etag: `"1${state.changed}"`, 'last-modified': 'Mon, 01 Jan 2024 11:00:00 GMT' }).end('gamma')
      if (request.method === 'GET') return response.end('alpha')
      if (mode === 'broken') return response.writeHead(507).end()
      const self = entry('/', '<D:resourcetype><D:collection/></D:resourcetype>')
      const list = mode === 'empty' ? '' : `${self}${file('a.pdf')}${file('b.txt')}`
      response.writeHead(207).end(`<D:multistatus xmlns:D="DAV:">${list}</D:multistatus>`)
    })
    onTestFinished(() => {
      server.closeAllConnections()
      server.close()
    })
    const port = await listening(server)
    const dms = await startApp({ 'ocr.enabled': false })
    const source = await dms.asAdmin.sources.create({ name: 'Files', type: 'webdav', url: `http://127.0.0.1:${port}/` })
    const sync = async () => {
      await dms.asAdmin.sources.sync(source.id)
      await dms.runJobs(['sync'])
      return dms.asAdmin.sources.syncStatus(source.id)
    }
    const documents = () => Array.fromAsync(dms.asAdmin.documents.list({ source_id: source.id }))
    expect(await sync()).toMatchObject({ state: 'completed', created: 2 })
    return { state, sync, documents, before: await documents() }
  }

  test('a login page does not replace a file, which is downloaded after the sign-in works again', async () => {
    const { state, sync, documents, before } = await start()
    Object.assign(state, { mode: 'login', changed: 'x' })
    const status = await sync()
    expect(status).toMatchObject({ updated: 0, failed: 2, removed: 0 })
    expect(status.errors).toContainEqual(expect.objectContaining({ path: 'a.pdf', code: 'CONTENT_MISMATCH' }))
    expect((await documents()).map(({ sha256 }) => sha256)).toEqual(before.map(({ sha256 }) => sha256))
    state.mode = 'good'
    expect(await sync()).toMatchObject({ state: 'completed', failed: 0, total: 2 })
  })

  test('a download that may be incomplete is compared again', async () => {
    const { state, sync, documents } = await start()
    Object.assign(state, { mode: 'short', changed: 'x' })
    expect(await sync()).toMatchObject({ state: 'completed', updated: 2 })
    state.mode = 'good'
    expect(await sync()).toMatchObject({ state: 'completed', updated: 2 })
    expect((await documents()).map(({ size }) => size)).toEqual([5, 5])
  })

  test('a download with the listed ETag and another time is complete, and not repeated by the next sync', async () => {
    const { state, sync } = await start()
    Object.assign(state, { mode: 'shifted', changed: 'x' })
    expect(await sync()).toMatchObject({ state: 'completed', updated: 2, bytes: 10 })
    expect(await sync()).toMatchObject({ state: 'completed', unchanged: 2, bytes: 0 })
  })

  test('a list whose entries are on another server removes nothing', async () => {
    const { state, sync, documents } = await start()
    state.mode = 'elsewhere'
    const status = await sync()
    expect(status).toMatchObject({ state: 'completed', unchanged: 0, removed: 0, failed: 2 })
    expect(status.errors).toContainEqual(
      expect.objectContaining({ code: 'SOURCE_PROTOCOL', message: expect.stringMatching(/another server: .*a\.pdf/) }),
    )
    expect((await documents()).filter(({ metadata }) => 'source_removed_at' in metadata)).toEqual([])
  })

  test('an empty or failing list removes nothing', async () => {
    const { state, sync, documents } = await start()
    for (const mode of ['empty', 'broken'] as const) {
      state.mode = mode
      expect(await sync()).toMatchObject({ state: 'failed', removed: 0 })
    }
    expect((await documents()).filter(({ metadata }) => 'source_removed_at' in metadata)).toEqual([])
    state.mode = 'good'
    expect(await sync()).toMatchObject({ state: 'completed', unchanged: 2, bytes: 0 })
  })
})

/** A fake Nextcloud: the ETag of a folder changes with everything below it. `locked` files answer 423, or `refusal`; `asked` has each listed folder. */
async function startCloud(files: Record<string, string>, refusal = 423) {
  const [tags, asked, locked] = [{} as Record<string, number>, [] as string[], new Set<string>()]
  const put = (path: string, text: string) => {
    files[path] = text
    for (let at = `/${path}`; at !== ''; at = at.slice(0, at.lastIndexOf('/'))) tags[at.slice(0, at.lastIndexOf('/') + 1)] = ++count
  }
  let count = 0
  for (const [path, text] of Object.entries(files)) put(path, text)
  const entry = (href: string, inner: string) =>
    `<d:response><d:href>${href}</d:href><d:propstat><d:prop>${inner}</d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response>`
  const folder = (path: string) =>
    entry(
      path,
      `<d:resourcetype><d:collection/></d:resourcetype><d:getetag>"${tags[path]}"</d:getetag><oc:id>1</oc:id><oc:permissions>RG</oc:permissions>`,
    )
  const file = ([path, text]: [string, string]) =>
    entry(`/${path}`, `<d:resourcetype/><d:getetag>"of ${text}"</d:getetag><d:getcontentlength>${text.length}</d:getcontentlength>`)
  const server = createServer((request, response) => {
    const path = request.url ?? ''
    if (request.method === 'GET') return response.writeHead(locked.has(path.slice(1)) ? refusal : 200).end(files[path.slice(1)])
    asked.push(path)
    const within = Object.keys(tags).filter((each) => each !== path && each.replace(/[^/]+\/$/, '') === path)
    const own = Object.entries(files).filter(([each]) => `/${each}`.replace(/[^/]+$/, '') === path)
    const list = [folder(path), ...within.map(folder), ...own.map(file)].join('')
    response.writeHead(207).end(`<d:multistatus xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns">${list}</d:multistatus>`)
  })
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  const port = await listening(server)
  const dms = await startApp({ 'ocr.enabled': false })
  const source = await dms.asAdmin.sources.create({ name: 'Cloud', type: 'webdav', url: `http://127.0.0.1:${port}/` })
  return {
    put,
    locked,
    documents: () => Array.fromAsync(dms.asAdmin.documents.list({ source_id: source.id })),
    /** its result, and the folders that it listed */
    sync: async () => {
      asked.length = 0
      await dms.asAdmin.sources.sync(source.id)
      await dms.runJobs(['sync'])
      return { ...(await dms.asAdmin.sources.syncStatus(source.id)), asked: [...asked].sort() }
    },
  }
}

test('a folder with an unchanged ETag is not listed, and nothing below it is marked as removed', async () => {
  const { put, sync, documents } = await startCloud({ 'a/one.txt': 'alpha', 'a/deep/two.txt': 'beta', 'b/three.txt': 'gamma' })
  expect(await sync()).toMatchObject({ created: 3, asked: ['/', '/a/', '/a/deep/', '/b/'] })
  expect(await sync()).toMatchObject({ state: 'completed', unchanged: 3, removed: 0, total: 3, asked: ['/'] })
  put('b/four.txt', 'delta')
  expect(await sync()).toMatchObject({ created: 1, unchanged: 3, removed: 0, total: 4, asked: ['/', '/b/'] })
  expect((await documents()).filter(({ metadata }) => 'source_removed_at' in metadata)).toEqual([])
})

test('locked files fail alone, however many they are, and are downloaded by the next sync', async () => {
  const names = Array.from({ length: 8 }, (_, index) => `${index}.txt`)
  const { locked, sync } = await startCloud(Object.fromEntries([...names, 'z.txt'].map((name) => [name, `of ${name}`])))
  for (const name of names) locked.add(name)
  const status = await sync()
  expect(status).toMatchObject({ state: 'completed', created: 1, failed: 8, error: null })
  expect(status.errors[0]).toMatchObject({ code: 'SOURCE_BUSY', message: 'The source has locked it.' })
  locked.clear()
  expect(await sync()).toMatchObject({ state: 'completed', created: 8, unchanged: 1, failed: 0 })
})

test('files that answer 401 fail alone, however many they are, while the source can be listed', async () => {
  const names = Array.from({ length: 6 }, (_, index) => `${index}.txt`)
  const { locked, sync } = await startCloud(Object.fromEntries([...names, 'z.txt'].map((name) => [name, `of ${name}`])), 401)
  for (const name of names) locked.add(name)
  expect(await sync()).toMatchObject({ state: 'completed', created: 1, failed: 6, error: null })
  locked.clear()
  expect(await sync()).toMatchObject({ state: 'completed', created: 6, unchanged: 1, failed: 0 })
})

test('a source that lists its files and sends none ends the sync after 1,000 of them', async () => {
  const names = Array.from({ length: 1100 }, (_, index) => `${index}.txt`)
  const { locked, sync } = await startCloud(Object.fromEntries(names.map((name) => [name, `of ${name}`])), 401)
  for (const name of names) locked.add(name)
  expect(await sync()).toMatchObject({ state: 'failed', created: 0, error: { code: 'SOURCE_UNAUTHORIZED' } })
})
