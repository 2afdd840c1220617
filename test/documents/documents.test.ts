import { expect, test } from 'vitest'
import type { Client, Page } from '../../src/client/client.ts'
import type { DocumentView } from '../../src/documents/view.ts'
import { startApp, upload } from '../support/app.ts'
import { storeFiles } from '../support/servers/server.ts'

const none = '0198f000-0000-7000-8000-000000000000'
const list = (client: Client, query = '') => client.call<Page<DocumentView>>('GET', `/api/documents${query}`)
const titles = async (client: Client, query = '') => (await list(client, query)).data.map(({ title }) => title)
const code = async (response: Response) => ((await response.json()) as { error: { code: string } }).error.code
const put = (client: Client, id: string, changes: unknown, headers = {}) => client.send('PUT', `/api/documents/${id}`, changes, headers)

type App = Awaited<ReturnType<typeof startApp>>['app']
const label = async (app: App, name: string) =>
  (
    await app.db
      .insertInto('labels')
      .values({ name, name_key: name.toLowerCase(), color: '#aabbcc' })
      .returning('id')
      .executeTakeFirstOrThrow()
  ).id

test('404 DOCUMENT_NOT_FOUND for documents of others, unknown and malformed ids; 401 UNAUTHORIZED without a token', async () => {
  const { asAda, asBob, asStranger } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  const ask = (client: Client, id: string) =>
    Promise.all([
      client.send('GET', `/api/documents/${id}`),
      client.send('PUT', `/api/documents/${id}`, { title: 'mine' }),
      client.send('GET', `/api/documents/${id}/download`),
      client.send('GET', `/api/documents/${id}/view`),
      client.send('GET', `/api/documents/${id}/thumbnail`),
      client.send('GET', `/api/documents/${id}/pages`),
      client.send('GET', `/api/documents/${id}/pages/1/image`),
      client.send('GET', `/api/documents/${id}/matches?q=hello`),
      client.send('GET', `/api/documents/${id}/text`),
      client.send('DELETE', `/api/documents/${id}`),
    ])
  for (const which of [id, none, 'x', id.slice(1), `${id}0`, `{${id}}`, `urn:uuid:${id}`]) {
    for (const answer of await ask(asBob, which))
      expect([which, answer.status, await code(answer)]).toEqual([which, 404, 'DOCUMENT_NOT_FOUND'])
  }
  for (const which of [id, none])
    for (const answer of await ask(asStranger, which)) expect([answer.status, await code(answer)]).toEqual([401, 'UNAUTHORIZED'])
  expect((await asStranger.send('GET', '/api/documents')).status).toBe(401)
  expect(await asAda.documents.get(id.toUpperCase())).toMatchObject({ id, title: 'a' })
})

test('a user sees own documents; an admin sees all, or those of one owner', async () => {
  const { asAda, asBob, asAdmin, bob } = await startApp()
  await upload(asAda, 'of ada', 'a')
  await upload(asBob, 'of bob', 'b')
  expect(await titles(asAda)).toEqual(['of ada'])
  expect(await titles(asAda, '?owner=bob')).toEqual([])
  expect(await titles(asAdmin)).toEqual(['of bob', 'of ada'])
  expect(await titles(asAdmin, '?owner=BOB')).toEqual(['of bob'])
  expect(await titles(asAdmin, `?owner=${bob.id}`)).toEqual(['of bob'])
  expect(await titles(asAdmin, '?owner=nobody')).toEqual([])
})

test('pages: newest first, envelope, past the end', async () => {
  const { asAda } = await startApp()
  for (const name of ['a', 'b', 'c']) await upload(asAda, name, name)
  const first = await list(asAda, '?per_page=2')
  expect([first.data.map(({ title }) => title), first.pagination]).toEqual([
    ['c', 'b'],
    { page: 1, per_page: 2, total: 3, total_pages: 2, has_next: true, has_prev: false, next_cursor: expect.any(String) },
  ])
  expect((await list(asAda, '?per_page=2&page=2')).data.map(({ title }) => title)).toEqual(['a'])
  expect(await list(asAda, '?page=1000000000')).toEqual({
    data: [],
    pagination: { page: 1_000_000_000, per_page: 20, total: 3, total_pages: 1, has_next: false, has_prev: true, next_cursor: null },
  })
})

test('sort by every field both ways, ties by id', async () => {
  const { app, asAda } = await startApp()
  const sizes = { b: 3, a: 3, c: 1 }
  for (const [name, size] of Object.entries(sizes)) await upload(asAda, name, name.repeat(size))
  await app.db.updateTable('documents').set({ ocr_confidence: 0.5 }).where('title', '=', 'a').execute()
  const sorted = async (query: string) => (await titles(asAda, `?sort=${query}`)).join('')
  expect(await sorted('created_at&order=asc')).toBe('bac')
  expect(await sorted('updated_at')).toBe('cab')
  expect(await sorted('title&order=asc')).toBe('abc')
  expect(await sorted('filename')).toBe('cba')
  expect(await sorted('size')).toBe('abc')
  expect(await sorted('size&order=asc')).toBe('cba')
  expect(await sorted('status&order=asc')).toBe('bac')
  expect((await sorted('ocr_confidence'))[0]).toBe('a')
})

test('filters: status, labels (all of them), source, dates (inclusive, a bare date means the whole day)', async () => {
  const { app, asAda } = await startApp()
  const [tax, home] = [await label(app, 'Tax'), await label(app, 'Home')]
  const both = await upload(asAda, 'both', 'a', { labels: 'tax,home' })
  const one = await upload(asAda, 'one', 'b', { labels: 'tax' })
  await app.db.updateTable('documents').set({ status: 'failed' }).where('id', '=', one.id).execute()
  expect(await titles(asAda, '?status=failed')).toEqual(['one'])
  expect(await titles(asAda, '?status=failed,pending')).toEqual(['one', 'both'])
  expect(await titles(asAda, `?label_ids=${tax}`)).toEqual(['one', 'both'])
  expect(await titles(asAda, `?label_ids=${tax},${home}`)).toEqual(['both'])
  expect(await titles(asAda, `?label_ids=${none}`)).toEqual([])
  const more = await Promise.all(Array.from({ length: 10 }, (_, i) => asAda.labels.create({ name: `label ${i}`, color: '#000000' })))
  const ids = more.map(({ id }) => id)
  await asAda.documents.update(both.id, { labels: ids })
  expect(await titles(asAda, `?label_ids=${ids},${ids[3]?.toUpperCase()}`)).toEqual(['both'])
  const strange = Array.from({ length: 200 }, (_, i) => none.slice(0, -3) + (100 + i))
  expect(await titles(asAda, `?label_ids=${ids},${strange}`)).toEqual([])
  expect(await titles(asAda, `?source_id=${none}`)).toEqual([])
  const day = both.created_at.slice(0, 10)
  const at = encodeURIComponent(both.created_at)
  expect(await titles(asAda, `?date_from=${day}&date_to=${one.created_at.slice(0, 10)}`)).toEqual(['one', 'both'])
  expect(await titles(asAda, `?date_from=${at}&date_to=${at}`)).toContain('both')
  expect(await titles(asAda, `?date_to=${encodeURIComponent(new Date(Date.parse(both.created_at) - 1).toISOString())}`)).toEqual([])
  expect(await titles(asAda, '?date_from=2999-01-01')).toEqual([])
  expect(await titles(asAda, '?date_from=2026-01-01T00:00:00%2B01:00&date_to=2026-01-01')).toEqual([])
})

test('a repeated list has all of its values; 400 VALIDATION_ERROR for a repeated number or choice', async () => {
  const { asAda } = await startApp()
  await upload(asAda, 'a.txt', 'a')
  const get = (query: string) => asAda.send('GET', `/api/documents?${query}`)
  const { data } = (await (await get('status=pending&status=failed&fields=title&fields=status')).json()) as { data: object[] }
  expect(data).toEqual([{ title: 'a', status: 'pending' }])
  for (const query of ['page=1&page=2', 'order=asc&order=desc', 'date_from=2026-01-01&date_from=2025-01-01'])
    expect([query, (await get(query)).status]).toEqual([query, 400])
})

test('fields=… returns these fields only', async () => {
  const { asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  expect((await list(asAda, '?fields=id,title')).data).toEqual([{ id, title: 'a' }])
  expect((await list(asAda, '?fields=content')).data).toEqual([{ content: '' }])
  expect((await list(asAda, '?fields=')).data).toMatchObject([{ id, title: 'a', content: '' }])
  expect((await asAda.send('GET', '/api/documents?fields=id,password_hash')).status).toBe(400)
})

test('hostile parameters are 400 or harmless, never 500', async () => {
  const { asAda } = await startApp()
  await upload(asAda, 'a', 'a')
  const values = [
    '0',
    '-1',
    '101',
    '1.5',
    'NaN',
    '1e9',
    '9223372036854775807',
    '',
    ' ',
    "a,b'--",
    'created_at;DROP TABLE',
    '(SELECT pg_sleep(5))',
    'constructor',
    '__proto__',
    '0000-01-01',
    '9999-12-31',
    '275760-09-13',
    '2026-02-30',
    '2026-13-01T00:00:00Z',
    '%00',
    '%ff',
    '%ed%a0%80',
    'x'.repeat(5000),
  ]
  const names = [
    'page',
    'per_page',
    'sort',
    'order',
    'status',
    'source_id',
    'label_ids',
    'date_from',
    'date_to',
    'owner',
    'fields',
    '__proto__[x]',
  ]
  for (const name of names)
    for (const value of values) {
      const { status } = await asAda.send('GET', `/api/documents?${name}=${value.includes('%') ? value : encodeURIComponent(value)}`)
      expect([name, value, [200, 400].includes(status)]).toEqual([name, value, true])
    }
  for (const query of ['?page=0', '?per_page=101', '?sort=sha256', '?order=up', '?status=done', '?date_from=2026-02-30', '?label_ids=x'])
    expect([query, (await asAda.send('GET', `/api/documents${query}`)).status]).toEqual([query, 400])
})

test('PUT changes title, labels and metadata only', async () => {
  const { app, asAda } = await startApp()
  const tax = await label(app, 'Tax')
  const before = await upload(asAda, 'a.txt', 'hello')
  const changed = (await (
    await put(asAda, before.id, {
      title: ' New ',
      labels: ['TAX', tax],
      metadata: { a: { b: 1, c: [null, 1] }, d: 'x' },
      id: none,
      owner_id: none,
      status: 'completed',
      content: 'x',
      size: 0,
      sha256: 'x',
      mime_type: 'text/html',
      ocr_confidence: 1,
    })
  ).json()) as DocumentView
  expect(changed).toEqual({
    ...before,
    title: 'New',
    labels: ['Tax'],
    label_ids: [tax],
    metadata: { a: { b: 1, c: [null, 1] }, d: 'x' },
    updated_at: expect.any(String),
  })
  const merged = await asAda.call<DocumentView>('PUT', `/api/documents/${before.id}`, {
    metadata: { a: { b: null, e: 2 }, d: null },
    labels: [],
  })
  expect([merged.metadata, merged.labels, merged.title]).toEqual([{ a: { c: [null, 1], e: 2 } }, [], 'New'])
})

test('a document that is sent back as read keeps its title, also that of a file name with a space before the extension', async () => {
  const { asAda } = await startApp()
  const { updated_at: _, ...asRead } = await upload(asAda, 'Invoice .pdf', 'hello')
  expect(await (await put(asAda, asRead.id, asRead)).json()).toMatchObject(asRead)
})

test('200 for a change to the values that the document has: no new ETag, updated_at, event or index job', async () => {
  const { app, asAda, runJobs } = await startApp()
  const tax = await label(app, 'Tax')
  const { id } = await upload(asAda, 'a.txt', 'hello', { labels: 'Tax', metadata: { a: { b: 1 } }, document_date: '2021-02-28' })
  await runJobs()
  const retain_until = new Date(Date.now() + 86_400_000).toISOString()
  await asAda.documents.update(id, { retain_until })
  await runJobs()
  const before = await asAda.documents.getWithEtag(id)
  const same = { title: 'a', labels: [tax, 'TAX'], metadata: { a: { b: 1, c: null }, d: null }, document_date: '2021-02-28', retain_until }
  await app.db.deleteFrom('events').execute()
  for (const change of [same, before.document, {}]) {
    const answer = await put(asAda, id, change, { 'if-match': before.etag })
    expect([answer.status, answer.headers.get('etag'), await answer.json()]).toEqual([200, before.etag, before.document])
  }
  expect(await app.db.selectFrom('events').select('data').execute()).toEqual([])
  expect(await app.db.selectFrom('jobs').select('id').where('status', '=', 'pending').execute()).toEqual([])
  await put(asAda, id, { ...same, title: 'b' })
  const [event] = await app.db.selectFrom('events').select('data').execute()
  expect(event?.data).toEqual({ document_id: id, changes: ['title'] })
})

test('400 VALIDATION_ERROR with the problems of all fields: labels, metadata and retention', async () => {
  const { asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  const answer = await put(asAda, id, { labels: ['x', 'y'], metadata: { x: 'y'.repeat(70_000) }, retain_until: '2020-01-01' })
  const { error } = (await answer.json()) as { error: { details: { issues: { path: string }[] } } }
  expect([answer.status, error.details.issues.map(({ path }) => path)]).toEqual([400, ['labels', 'labels', 'metadata', 'retain_until']])
})

test('400 VALIDATION_ERROR for invalid changes', async () => {
  const { asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  const deep = JSON.parse(`${'{"a":'.repeat(40)}1${'}'.repeat(40)}`)
  const changes = [
    { title: '' },
    { title: ' ' },
    { title: 5 },
    { title: null },
    { title: 'x'.repeat(1001) },
    { labels: 'x' },
    { labels: ['nothing'] },
    { labels: [none] },
    { labels: [1] },
    { metadata: [] },
    { metadata: 'x' },
    { metadata: null },
    { metadata: { x: 'y'.repeat(70_000) } },
    { metadata: deep },
  ]
  for (const change of changes) {
    const answer = await put(asAda, id, change)
    expect([change, answer.status, await code(answer)]).toEqual([change, 400, 'VALIDATION_ERROR'])
  }
  expect(await asAda.documents.get(id)).toMatchObject({ title: 'a', labels: [], metadata: {} })
})

test('200 for metadata above 64 KiB, with those of the file, that a change does not enlarge; 400 for more', async () => {
  const { asAda, runJobs } = await startApp()
  const page = `<html><head><title>${'x'.repeat(1500)}</title></head><body>x</body></html>`
  const { id } = await upload(asAda, 'a.html', page, { metadata: { note: 'y'.repeat(65_000) } })
  await runJobs()
  const { metadata } = await asAda.documents.get(id)
  expect(JSON.stringify(metadata).length).toBeGreaterThan(64 << 10)
  expect(await (await put(asAda, id, { title: 'New', metadata })).json()).toMatchObject({ title: 'New', metadata })
  expect((await put(asAda, id, { metadata: { more: 'z' } })).status).toBe(400)
  expect(await (await put(asAda, id, { metadata: { more: 'z', note: null } })).json()).toMatchObject({ metadata: { more: 'z' } })
})

test('412 PRECONDITION_FAILED for the second of two changes with the same ETag', async () => {
  const { asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  const etag = (await asAda.send('GET', `/api/documents/${id}`)).headers.get('etag') ?? ''
  expect(etag).toMatch(/^"[^"]+"$/)
  const answers = await Promise.all([1, 2, 3].map((title) => put(asAda, id, { title: `${title}` }, { 'if-match': etag })))
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 412, 412])
  const winner = answers.find(({ status }) => status === 200)
  expect(winner?.headers.get('etag')).toBe((await asAda.send('GET', `/api/documents/${id}`)).headers.get('etag'))
  expect((await put(asAda, id, { title: 'x' }, { 'if-match': '*' })).status).toBe(200)
})

test('304 until something changes, 200 after any change, also of the name of a label', async () => {
  const { asAda } = await startApp()
  const label = await asAda.labels.create({ name: 'Tax', color: '#000000' })
  const { id } = await upload(asAda, 'a.txt', 'hello', { labels: 'Tax' })
  const get = (headers = {}) => asAda.send('GET', `/api/documents/${id}`, undefined, headers)
  const etag = (await get()).headers.get('etag') ?? ''
  const known = await get({ 'if-none-match': `"x", ${etag}` })
  expect([known.status, await known.text(), known.headers.get('etag')]).toEqual([304, '', etag])
  await asAda.labels.update(label.id, { name: 'Taxes' })
  const renamed = await get({ 'if-none-match': etag })
  expect([renamed.status, await renamed.json()]).toMatchObject([200, { labels: ['Taxes'] }])
  await asAda.labels.delete(label.id)
  expect((await get({ 'if-none-match': renamed.headers.get('etag') })).status).toBe(200)
})

test('DELETE of permanent=true: 204, then 404; removes bytes, pictures, jobs and index entry, except bytes that another document uses', async () => {
  const { app, ada, asAda, asBob, runJobs, dataDir } = await startApp()
  const { id, sha256 } = await upload(asAda, 'a.txt', 'hello')
  const bobs = await upload(asBob, 'b.txt', 'hello')
  const twin = await upload(asAda, 'twin.txt', 'hello')
  const etagOfTwin = async () => (await asAda.send('GET', `/api/documents/${twin.id}`)).headers.get('etag')
  const before = await etagOfTwin()
  await (await asAda.send('GET', `/api/documents/${id}/thumbnail`)).arrayBuffer()
  await runJobs()
  expect((await asAda.send('DELETE', `/api/documents/${id}?permanent=true`)).status).toBe(204)
  expect((await asAda.send('DELETE', `/api/documents/${id}?permanent=true`)).status).toBe(404)
  expect((await asAda.documents.get(twin.id)).duplicate_of).toBeNull()
  expect(await etagOfTwin()).not.toBe(before)
  await runJobs()
  expect(await app.db.selectFrom('search_entries').select('document_id').where('document_id', '=', id).execute()).toEqual([])
  expect((await storeFiles(dataDir)).named).toEqual([sha256])
  expect(await app.files.readDerived({ sha256, ownerId: ada.id }, '200x200.webp')).not.toBeNull()
  await asBob.documents.delete(bobs.id, { permanent: true })
  await asAda.documents.delete(twin.id, { permanent: true })
  await runJobs()
  expect(await storeFiles(dataDir)).toEqual({ named: [], staged: [] })
  expect(await app.files.readDerived({ sha256, ownerId: ada.id }, '200x200.webp')).toBeNull()
  expect(await app.db.selectFrom('jobs').select('kind').execute()).toEqual([])
  expect(await app.db.selectFrom('stored_files').select('sha256').execute()).toEqual([])
})

test.each(['', '?permanent=true'])('ten DELETE%s at once: one 204, the others 404', async (query) => {
  const { asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  const answers = await Promise.all(Array.from({ length: 10 }, () => asAda.send('DELETE', `/api/documents/${id}${query}`)))
  expect(answers.map(({ status }) => status).sort()).toEqual([204, ...Array(9).fill(404)])
})

test('concurrent deletions of all duplicates of a document', async () => {
  const { app, asAda } = await startApp()
  const ids: string[] = []
  for (let index = 0; index < 8; index++) ids.push((await upload(asAda, `${index}`, 'same')).id)
  const answers = await Promise.all(ids.map((id) => asAda.send('DELETE', `/api/documents/${id}?permanent=true`)))
  expect(answers.map(({ status }) => status)).toEqual(Array(8).fill(204))
  expect(await app.db.selectFrom('documents').select('id').execute()).toEqual([])
})

test('a label that is deleted while documents get it: no 5xx', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  for (let round = 0; round < 5; round++) {
    const name = `label ${round}`
    const labelId = await label(app, name)
    const answers = await Promise.all([
      put(asAda, id, { labels: [name] }),
      app.db.deleteFrom('labels').where('id', '=', labelId).execute(),
      put(asAda, id, { labels: [labelId] }),
    ])
    for (const answer of answers) if (answer instanceof Response) expect([200, 400]).toContain(answer.status)
  }
})

test('text and pages are available after extraction', async () => {
  const { asAda, runJobs } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'hello <b>world</b>')
  expect(await asAda.call('GET', `/api/documents/${id}/pages`)).toEqual({ pages: [] })
  await runJobs()
  expect(await asAda.documents.get(id)).toMatchObject({
    status: 'completed',
    content: 'hello <b>world</b>',
    ocr_confidence: null,
    page_count: 1,
    error: null,
    processed_at: expect.any(String),
  })
  const text = await asAda.send('GET', `/api/documents/${id}/text`)
  expect([text.headers.get('content-type'), await text.text()]).toEqual(['text/plain; charset=utf-8', 'hello <b>world</b>'])
  expect(await asAda.call('GET', `/api/documents/${id}/pages`)).toEqual({
    pages: [
      {
        page: 1,
        text: 'hello <b>world</b>',
        source: 'text_layer',
        confidence: null,
        width: null,
        height: null,
        duration: null,
        language: null,
      },
    ],
  })
})

test('metadata set by the user stays when the file is read', async () => {
  const { asAda, runJobs } = await startApp()
  const { id } = await upload(
    asAda,
    'a.html',
    '<html><head><title>From the file</title><meta name="author" content="F"></head><body>x</body></html>',
  )
  await put(asAda, id, { metadata: { title: 'Mine', colour: 'red' } })
  await runJobs()
  expect((await asAda.documents.get(id)).metadata).toMatchObject({ title: 'Mine', colour: 'red' })
})

test('metadata of the file that the user removed stay removed when the file is read again', async () => {
  const { asAda, runJobs } = await startApp()
  const { id } = await upload(asAda, 'a.html', '<html><head><title>T</title><meta name="author" content="F"></head><body>x</body></html>')
  await runJobs()
  expect((await asAda.documents.get(id)).metadata).toEqual({ title: 'T', author: 'F' })
  await put(asAda, id, { metadata: { author: null } })
  for (let reading = 0; reading < 2; reading++) {
    await asAda.call('POST', `/api/documents/${id}/retry-ocr`, {})
    await runJobs()
    expect((await asAda.documents.get(id)).metadata).toEqual({ title: 'T' })
  }
})
