import { once } from 'node:events'
import { truncate } from 'node:fs/promises'
import sharp from 'sharp'
import { expect, test } from 'vitest'
import { addressOf } from '../../src/documents/stored-files.ts'
import { ReadFailure } from '../../src/ports/document-reader.ts'
import { startApp, upload } from '../support/app.ts'
import { textPdf } from '../support/data/page-image.ts'
import { openFiles, startServer } from '../support/servers/server.ts'
import { storedPath } from '../support/stored-path.ts'

const bytes = '0123456789'

async function startWithFile() {
  const dms = await startApp()
  const document = await upload(dms.asAda, 'ten bytes.txt', bytes)
  const get = (headers: Record<string, string> = {}, how = 'download') =>
    dms.asAda.send('GET', `/api/documents/${document.id}/${how}`, undefined, headers)
  return { ...dms, document, get }
}

test('200 with the bytes as an attachment, with checksum, and with headers that prevent execution', async () => {
  const { get, document } = await startWithFile()
  const response = await get()
  expect([response.status, await response.text()]).toEqual([200, bytes])
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'content-type': 'text/plain',
    'content-length': '10',
    'content-disposition': 'attachment; filename="ten bytes.txt"',
    etag: `"${document.sha256}"`,
    'repr-digest': `sha-256=:${Buffer.from(document.sha256, 'hex').toString('base64')}:`,
    'accept-ranges': 'bytes',
    'cache-control': 'private, no-cache',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; sandbox",
  })
})

test('206 with the range, 416 RANGE_NOT_SATISFIABLE past the end, 200 for anything but a single range', async () => {
  const { get } = await startWithFile()
  const cases: [range: string, status: number, body: string | null, contentRange: string | null][] = [
    ['bytes=0-3', 206, '0123', 'bytes 0-3/10'],
    ['bytes=4-', 206, '456789', 'bytes 4-9/10'],
    ['bytes=-3', 206, '789', 'bytes 7-9/10'],
    ['bytes=-99', 206, bytes, 'bytes 0-9/10'],
    ['bytes=8-99', 206, '89', 'bytes 8-9/10'],
    ['Bytes=9-9', 206, '9', 'bytes 9-9/10'],
    ['bytes=10-', 416, null, 'bytes */10'],
    ['bytes=-0', 416, null, 'bytes */10'],
    ['bytes=99999999999999999999999-', 416, null, 'bytes */10'],
    ['bytes=5-2', 200, bytes, null],
    ['bytes=0-1,3-4', 200, bytes, null],
    ['bytes=-', 200, bytes, null],
    ['bytes=a-b', 200, bytes, null],
    ['lines=0-1', 200, bytes, null],
  ]
  for (const [range, status, body, contentRange] of cases) {
    const response = await get({ range })
    const text = await response.text()
    expect([range, response.status, response.headers.get('content-range')]).toEqual([range, status, contentRange])
    if (body !== null) expect([range, text, response.headers.get('content-length')]).toEqual([range, body, String(body.length)])
    else expect(JSON.parse(text)).toMatchObject({ error: { code: 'RANGE_NOT_SATISFIABLE' } })
  }
})

test('304 for a known ETag; If-Range with another ETag returns the whole file', async () => {
  const { get, document } = await startWithFile()
  const tag = `"${document.sha256}"`
  for (const known of [tag, `W/${tag}`, `"x", ${tag}`, '*']) {
    const response = await get({ 'if-none-match': known, range: 'bytes=0-1' })
    expect([known, response.status, await response.text(), response.headers.get('etag')]).toEqual([known, 304, '', tag])
  }
  expect(await (await get({ 'if-none-match': '"x"' })).text()).toBe(bytes)
  expect(await (await get({ 'if-range': tag, range: 'bytes=0-1' })).text()).toBe('01')
  expect(await (await get({ 'if-range': '"x"', range: 'bytes=0-1' })).text()).toBe(bytes)
  expect(await (await get({ 'if-range': `W/${tag}`, range: 'bytes=0-1' })).text()).toBe(bytes)
})

test('Last-Modified is the creation of the document; 304 for If-Modified-Since from then on, 412 PRECONDITION_FAILED for an earlier If-Unmodified-Since', async () => {
  const { app, get, document } = await startWithFile()
  const at = new Date('2026-03-01T10:20:30.400Z')
  await app.db.updateTable('documents').set({ file_replaced_at: at }).where('id', '=', document.id).execute()
  const [exact, before, after] = [0, -1000, 1000].map((ms) => new Date(at.getTime() + ms).toUTCString()) as [string, string, string]
  const answer = await get({})
  expect([answer.status, answer.headers.get('last-modified')]).toEqual([200, exact])
  const tag = `"${document.sha256}"`
  for (const [headers, status] of [
    [{ 'if-modified-since': exact }, 304],
    [{ 'if-modified-since': after }, 304],
    [{ 'if-modified-since': before }, 200],
    [{ 'if-modified-since': '2026-03-01' }, 200],
    [{ 'if-modified-since': after, 'if-none-match': '"x"' }, 200],
    [{ 'if-unmodified-since': exact }, 200],
    [{ 'if-unmodified-since': before }, 412],
    [{ 'if-unmodified-since': before, 'if-match': tag }, 200],
    [{ 'if-unmodified-since': 'yesterday' }, 200],
    [{ 'if-range': exact, range: 'bytes=0-1' }, 206],
    [{ 'if-range': before, range: 'bytes=0-1' }, 200],
    [{ 'if-range': after, range: 'bytes=0-1' }, 200],
  ] as const) {
    const response = await get(headers as Record<string, string>)
    const text = await response.text()
    expect([headers, response.status]).toEqual([headers, status])
    if (status === 412) expect(JSON.parse(text)).toMatchObject({ error: { code: 'PRECONDITION_FAILED' } })
  }
})

test('412 PRECONDITION_FAILED for If-Match with another ETag, the whole file with its own', async () => {
  const { get, document } = await startWithFile()
  const tag = `"${document.sha256}"`
  for (const [headers, status] of [
    [{ 'if-match': tag }, 200],
    [{ 'if-match': `"x", ${tag}` }, 200],
    [{ 'if-match': '*' }, 200],
    [{ 'if-match': '"x"' }, 412],
    [{ 'if-match': `W/${tag}` }, 412],
    [{ 'if-match': '"x"', range: 'bytes=0-1' }, 412],
    [{ 'if-match': '"x"', 'if-none-match': tag }, 412],
  ] as const) {
    const response = await get(headers as Record<string, string>)
    const text = await response.text()
    expect([headers, response.status]).toEqual([headers, status])
    if (status === 412) expect(JSON.parse(text)).toMatchObject({ error: { code: 'PRECONDITION_FAILED' } })
    else expect(text).toBe(bytes)
  }
})

test('If-Range with the date of a file of the current second returns the whole file', async () => {
  const { app, get, document } = await startWithFile()
  const at = new Date(Date.now() + 60_000)
  await app.db.updateTable('documents').set({ file_replaced_at: at }).where('id', '=', document.id).execute()
  expect((await get({ 'if-range': at.toUTCString(), range: 'bytes=0-1' })).status).toBe(200)
  const shown = (await get({})).headers.get('last-modified') ?? ''
  expect(Date.parse(shown)).toBeLessThanOrEqual(Date.now())
})

test('Last-Modified does not depend on other users: it is the age of the own document, not of an equal file', async () => {
  const { app, asBob, bob } = await startWithFile()
  await app.db
    .updateTable('stored_files')
    .set({ created_at: new Date('2020-01-01') } as never)
    .execute()
  const { id, created_at } = await upload(asBob, 'mine.txt', bytes)
  const answer = await asBob.send('GET', `/api/documents/${id}/download`)
  expect([bob.username, answer.headers.get('last-modified')]).toEqual(['bob', new Date(created_at).toUTCString()])
})

test('200 for HEAD with the headers of GET, which ignores ranges', async () => {
  const { fetch, asAda } = await startServer()
  const { id } = await upload(asAda, 'a.txt', bytes)
  const head = await fetch(`/api/documents/${id}/download`, { method: 'HEAD', headers: { range: 'bytes=2-4' } })
  expect([head.status, head.headers.get('content-length'), head.headers.get('content-range')]).toEqual([200, '10', null])
})

test('only types that cannot run scripts are served inline, and with their own type', async () => {
  const { asAda } = await startApp()
  const png = await sharp({ create: { width: 4, height: 4, channels: 3, background: 'red' } })
    .png()
    .toBuffer()
  const cases: [name: string, bytes: string | Buffer, type: string, disposition: string][] = [
    ['a.pdf', textPdf([['x']]), 'application/pdf', 'inline'],
    ['a.png', png, 'image/png', 'inline'],
    ['a.txt', 'x', 'text/plain; charset=utf-8', 'inline'],
    ['a.csv', 'a,b\n1,2', 'text/plain; charset=utf-8', 'inline'],
    ['a.ics', 'BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n', 'text/plain; charset=utf-8', 'inline'],
    ['a.yaml', 'a: 1', 'text/plain; charset=utf-8', 'inline'],
    ['a.tif', await sharp(png).tiff().toBuffer(), 'image/tiff', 'inline'],
    ['a.html', '<!doctype html><script>alert(1)</script>', 'application/octet-stream', 'attachment'],
    ['page.png', '<html><body onload=alert(1)>', 'application/octet-stream', 'attachment'],
    ['a.svg', '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>', 'image/svg+xml', 'attachment'],
    ['a.xml', '<?xml version="1.0"?><?xml-stylesheet href="x"?><a/>', 'application/xml', 'attachment'],
    ['a.zip', Buffer.from('504b0506000000000000000000000000000000000000', 'hex'), 'application/zip', 'attachment'],
  ]
  for (const [name, content, type, disposition] of cases) {
    const { id } = await upload(asAda, name, content)
    for (const how of ['view', 'download']) {
      const response = await asAda.send('GET', `/api/documents/${id}/${how}`)
      await response.arrayBuffer()
      const headers = Object.fromEntries(response.headers)
      expect([name, how, headers['content-disposition']?.split(';')[0]]).toEqual([name, how, how === 'view' ? disposition : 'attachment'])
      if (how === 'view') expect([name, headers['content-type']]).toEqual([name, type])
      expect(headers['content-type']).not.toMatch(/html/)
      expect(headers).toMatchObject({
        'x-content-type-options': 'nosniff',
        'content-security-policy': "default-src 'none'; sandbox",
        'cross-origin-resource-policy': 'same-origin',
      })
    }
  }
})

test('503 SERVICE_UNAVAILABLE for a missing or truncated file; another upload of it repairs it', async () => {
  const { app, get, document, asAda } = await startWithFile()
  const log = app.log as { error: unknown }
  log.error = () => {}
  await truncate(await storedPath(app, document.sha256), 4)
  const cut = await get()
  expect([cut.status, ((await cut.json()) as { error: { code: string } }).error.code]).toEqual([503, 'SERVICE_UNAVAILABLE'])
  await upload(asAda, 'again.txt', bytes)
  expect(await (await get()).text()).toBe(bytes)
  await app.files.remove(await addressOf(app.db, document.sha256))
  expect((await get()).status).toBe(503)
  expect((await asAda.send('GET', `/api/documents/${document.id}`)).status).toBe(200)
})

test('a client that disconnects during a download leaves nothing open', async () => {
  const { asAda, dial, token, dataDir } = await startServer()
  const { id } = await upload(asAda, 'big.bin', Buffer.alloc(8_000_000, 'x'))
  for (let round = 0; round < 15; round++) {
    const socket = await dial()
    socket.write(`GET /api/documents/${id}/download HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\n\r\n`)
    if (round % 3) await once(socket, 'data')
    socket.destroy()
  }
  await expect.poll(() => openFiles(dataDir)).toEqual([])
})

test('thumbnails: within the box, in the requested type, with an ETag; a placeholder for files without a picture', async () => {
  const { asAda } = await startApp()
  const thumbnail = async (id: string, query = '', headers = {}) => {
    const response = await asAda.send('GET', `/api/documents/${id}/thumbnail${query}`, undefined, headers)
    return { response, picture: response.status === 200 ? await sharp(Buffer.from(await response.arrayBuffer())).metadata() : null }
  }
  const wide = await upload(
    asAda,
    'a.png',
    await sharp({ create: { width: 400, height: 100, channels: 3, background: 'red' } })
      .png()
      .toBuffer(),
  )
  const first = await thumbnail(wide.id)
  expect([first.response.headers.get('content-type'), first.picture]).toMatchObject([
    'image/webp',
    { format: 'webp', width: 200, height: 50 },
  ])
  const jpeg = await thumbnail(wide.id, '?width=100&height=10', { accept: 'image/jpeg' })
  expect([jpeg.response.headers.get('content-type'), jpeg.picture]).toMatchObject(['image/jpeg', { format: 'jpeg', width: 40, height: 10 }])
  const etag = first.response.headers.get('etag') ?? ''
  expect((await thumbnail(wide.id, '', { 'if-none-match': etag })).response.status).toBe(304)
  expect(jpeg.response.headers.get('etag')).not.toBe(etag)
  for (const [accept, type] of [
    ['image/jpeg;q=0.5, image/webp;q=0.4', 'image/jpeg'],
    ['image/jpg, */*;q=0.8', 'image/jpeg'],
    ['image/*, image/webp;q=0', 'image/jpeg'],
    ['image/jpeg, image/webp', 'image/webp'],
    ['image/png', 'image/webp'],
  ] as const)
    expect([accept, (await thumbnail(wide.id, '?width=10', { accept })).response.headers.get('content-type')]).toEqual([accept, type])

  const pdf = await upload(asAda, 'a.pdf', textPdf([['hello']]))
  expect((await thumbnail(pdf.id)).picture).toMatchObject({ height: 200 })
  const text = await upload(asAda, 'a.bin', Buffer.from([0, 1, 2, 3]))
  expect((await thumbnail(text.id, '?width=1000&height=1000')).picture).toMatchObject({ format: 'webp', height: 1000 })
  const broken = await upload(asAda, 'broken.pdf', '%PDF-1.4 nothing')
  expect((await thumbnail(broken.id, '?width=1&height=1')).picture).toMatchObject({ format: 'webp' })
  for (const query of ['?width=0', '?height=1001', '?width=x', '?width=1.5', '?width=-1'])
    expect([query, (await thumbnail(wide.id, query)).response.status]).toEqual([query, 400])
})

test('a thumbnail that failed temporarily is tried again; a permanent failure is remembered', async () => {
  const { app, ada, asAda } = await startApp()
  const { id, sha256 } = await upload(asAda, 'a.pdf', '%PDF-1.4 nothing')
  const get = async () => {
    const { headers } = await asAda.send('GET', `/api/documents/${id}/thumbnail`)
    return [headers.get('etag') !== null, headers.get('cache-control')]
  }
  const failWith = (failure: ReadFailure) => {
    app.previewer.thumbnail = () => Promise.reject(failure)
  }
  failWith(new ReadFailure('READ_CRASHED', undefined, { isRetryable: true }))
  expect(await get()).toEqual([false, 'no-store'])
  expect(await app.files.readDerived({ sha256, ownerId: ada.id }, '200x200.webp')).toBeNull()
  failWith(new ReadFailure('READ_TIMEOUT'))
  await get()
  expect(await app.files.readDerived({ sha256, ownerId: ada.id }, '200x200.webp')).toBeNull()
  failWith(new ReadFailure('FILE_CORRUPT'))
  expect(await get()).toEqual([true, 'private, no-cache'])
  expect(await app.files.readDerived({ sha256, ownerId: ada.id }, '200x200.webp')).not.toBeNull()
})
