import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Client } from '../../src/client/client.ts'
import { addressOf } from '../../src/documents/stored-files.ts'
import { openDisk } from '../../src/files/stores/disk.ts'
import { startApp, upload } from '../support/app.ts'
import {
  boundary,
  fieldPart,
  filePart,
  multipartBody,
  multipartType,
  openFiles,
  startServer,
  storeFiles,
} from '../support/servers/server.ts'
import { mountSmallDisk } from '../support/small-disk.ts'

const sha = (bytes: string | Buffer) => createHash('sha256').update(bytes).digest('hex')
/** Type of Array.fromAsync, which TypeScript's library lacks. */
async function gather<T, U = T>(list: AsyncIterable<T>, of: (item: T) => U): Promise<U[]> {
  const items: U[] = []
  for await (const item of list) items.push(of(item))
  return items
}
const file = (filename: string, bytes: string | Buffer) => ({ filename, size: Buffer.byteLength(bytes), open: () => [Buffer.from(bytes)] })
const failure = async (work: Promise<unknown>) =>
  work.then(
    () => 'nothing',
    (error: Error & { code?: string }) => error.code ?? String(error.stack),
  )

interface Answer {
  id: string
  ocr_queued: boolean
  error: { code: string; message: string; details: Record<string, unknown> }
  document: Awaited<ReturnType<Client['documents']['get']>>
}

async function post(fetch: Awaited<ReturnType<typeof startServer>>['fetch'], body: Buffer, headers: Record<string, string> = {}) {
  const response = await fetch('/api/documents/upload', {
    method: 'POST',
    body: body as BodyInit,
    headers: { 'content-type': multipartType, ...headers },
  })
  return { status: response.status, answer: (await response.json()) as Answer }
}

test('201 with the document after the file is flushed and the job is queued', async () => {
  const { app, asAda, ada, dataDir } = await startApp()
  const answer = await asAda.documents.upload(file('Größe 1.tar.gz', 'hello'))
  expect(answer).toMatchObject({ message: expect.any(String), ocr_queued: true })
  expect(answer.document).toMatchObject({
    id: answer.id,
    owner_id: ada.id,
    owner: 'ada',
    title: 'Größe 1.tar',
    filename: 'Größe 1.tar.gz',
    content: '',
    status: 'pending',
    mime_type: 'text/plain',
    size: 5,
    sha256: sha('hello'),
    language: 'auto',
    ocr_confidence: null,
    page_count: null,
    labels: [],
    metadata: {},
    error: null,
    duplicate_of: null,
    processed_at: null,
  })
  expect(answer.document?.updated_at).toBe(answer.document?.created_at)
  expect(await storeFiles(dataDir)).toEqual({ named: [sha('hello')], staged: [] })
  const jobs = await app.db.selectFrom('jobs').select(['kind', 'status']).orderBy('kind').execute()
  expect(jobs).toEqual([
    { kind: 'index', status: 'pending' },
    { kind: 'ocr', status: 'pending' },
  ])
})

test('fields are used at any position, before and after the file', async () => {
  const { app, fetch } = await startServer()
  const label = await app.db
    .insertInto('labels')
    .values({ name: 'Tax', name_key: 'tax', color: '#aabbcc' })
    .returning('id')
    .executeTakeFirstOrThrow()
  const before = await post(
    fetch,
    multipartBody([fieldPart('title', ' Mine '), fieldPart('labels', 'tax'), fieldPart('ocr_enabled', 'false'), filePart('a')]),
  )
  expect([before.status, before.answer.ocr_queued]).toEqual([201, false])
  expect(before.answer.document).toMatchObject({ title: 'Mine', labels: ['Tax'], label_ids: [label.id] })
  const after = await post(fetch, multipartBody([filePart('b'), fieldPart('language', 'deu+eng'), fieldPart('labels', `${label.id}, TAX`)]))
  expect(after.answer.document).toMatchObject({ language: 'deu+eng', labels: ['Tax'] })
  expect(await app.db.selectFrom('jobs').select('kind').where('kind', 'in', ['ocr', 'extract']).orderBy('id').execute()).toEqual([
    { kind: 'extract' },
    { kind: 'ocr' },
  ])
})

test('201 whatever the case, quotes and order of the parameters of Content-Type, also with an empty one', async () => {
  const { fetch } = await startServer()
  const body = multipartBody([filePart('a')])
  for (const type of [`${multipartType};`, `${multipartType} ; `, `Multipart/Form-Data;charset=utf-8; Boundary="${boundary}"`])
    expect([type, (await post(fetch, body, { 'content-type': type })).status]).toEqual([type, 201])
})

test('a repeated field of labels has all of them; a repeated choice is 400 VALIDATION_ERROR', async () => {
  const { asAda, fetch } = await startServer()
  for (const name of ['Tax', 'Bank']) await asAda.call('POST', '/api/labels', { name, color: '#aabbcc' })
  const { answer } = await post(fetch, multipartBody([fieldPart('labels', 'tax'), filePart('a'), fieldPart('labels', 'bank')]))
  expect(answer.document.labels).toEqual(['Bank', 'Tax'])
  const twice = [fieldPart('ocr_enabled', 'false'), fieldPart('ocr_enabled', 'true'), filePart('b')]
  expect((await post(fetch, multipartBody(twice))).answer.error.code).toBe('VALIDATION_ERROR')
})

test('400 VALIDATION_ERROR for anything but an upload, and nothing is stored', async () => {
  const { app, fetch, dataDir } = await startServer()
  const many = Array.from({ length: 60 }, (_, index) => fieldPart(`f${index}`, 'x'))
  const bodies: Record<string, Buffer> = {
    'no file': multipartBody([fieldPart('title', 'x')]),
    'empty file': multipartBody([filePart('')]),
    'another field': multipartBody([filePart('a', 'a.txt', 'files')]),
    'a file, and a list of files in one part': multipartBody([
      filePart('a'),
      {
        disposition: '; name="file"\r\ncontent-type: multipart/mixed; boundary=inner',
        body: '--inner\r\ncontent-disposition: attachment; filename="b.txt"\r\n\r\nb\r\n--inner--',
      },
    ]),
    'encoded file': multipartBody([{ disposition: '; name="file"; filename="a.txt"\r\ncontent-transfer-encoding: base64', body: 'YWJj' }]),
    'encoded field': multipartBody([
      filePart('a'),
      { disposition: '; name="title"\r\ncontent-transfer-encoding: Quoted-Printable', body: '=C3=A4' },
    ]),
    'two files': multipartBody([filePart('a'), filePart('b')]),
    'no final boundary': multipartBody([filePart('a')], ''),
    'cut in the middle': multipartBody([filePart('a'.repeat(10_000))]).subarray(0, 5000),
    'unknown label': multipartBody([filePart('a'), fieldPart('labels', 'nothing')]),
    'too many labels': multipartBody([filePart('a'), fieldPart('labels', 'nothing,'.repeat(1001))]),
    'unknown language': multipartBody([filePart('a'), fieldPart('language', 'xxx')]),
    'malformed language': multipartBody([filePart('a'), fieldPart('language', '../eng')]),
    'no boolean': multipartBody([filePart('a'), fieldPart('ocr_enabled', 'maybe')]),
    'long title': multipartBody([filePart('a'), fieldPart('title', 'x'.repeat(1001))]),
    'long field': multipartBody([filePart('a'), fieldPart('title', 'x'.repeat(70_000))]),
    'zero character': multipartBody([filePart('a'), fieldPart('title', 'a\0b')]),
    'too many fields': multipartBody([filePart('a'), ...many]),
    'nothing at all': Buffer.alloc(0),
    'a million header bytes': multipartBody([{ disposition: `; name="file"; filename="${'x'.repeat(1_000_000)}"`, body: 'a' }]),
  }
  for (const [name, body] of Object.entries(bodies)) {
    const { status, answer } = await post(fetch, body)
    expect([name, status, answer.error.code]).toEqual([name, 400, 'VALIDATION_ERROR'])
  }
  const { answer } = await post(fetch, bodies['too many labels'] as Buffer)
  expect(answer.error.details.issues).toEqual([{ path: 'labels', message: 'at most 1000 entries' }])
  const { status } = await post(fetch, multipartBody([filePart('a')]), { 'content-type': 'multipart/form-data' })
  expect(status).toBe(400)
  expect(await storeFiles(dataDir)).toEqual({ named: [], staged: [] })
  expect(await app.db.selectFrom('documents').select('id').execute()).toEqual([])
  expect(await app.db.selectFrom('stored_files').select('sha256').execute()).toEqual([])
})

test('400 lists the installed languages', async () => {
  const { fetch } = await startServer()
  const { answer } = await post(fetch, multipartBody([filePart('a'), fieldPart('language', 'eng+xxx')]))
  expect(answer.error.details).toEqual({
    issues: [{ path: 'language', message: expect.stringMatching(/^not installed: xxx; installed are .*\beng\b/) }],
  })
})

test('401 UNAUTHORIZED without a token, 415 UNSUPPORTED_MEDIA_TYPE for another type of body', async () => {
  const { asStranger, fetch } = await startServer()
  expect(await failure(asStranger.documents.upload(file('a.txt', 'a')))).toBe('UNAUTHORIZED')
  expect((await post(fetch, Buffer.from('{}'), { 'content-type': 'application/json' })).status).toBe(415)
  expect((await post(fetch, multipartBody([filePart('a')]), { 'content-encoding': 'gzip' })).status).toBe(415)
})

test('413 PAYLOAD_TOO_LARGE for one byte above the limit, returned to a client that is still sending', async () => {
  const { app, fetch, say, token, dataDir } = await startServer({ 'limits.max_upload_size': '100kB' })
  expect((await post(fetch, multipartBody([filePart('x'.repeat(100_000))]))).status).toBe(201)
  const { status, answer } = await post(fetch, multipartBody([filePart('x'.repeat(100_001))]))
  expect([status, answer.error.code]).toEqual([413, 'PAYLOAD_TOO_LARGE'])
  expect(answer.error.details).toEqual({ max_bytes: 100_000, field: 'file', filename: 'a.txt' })
  expect(answer.error.message).toBe('The file "a.txt" is too large.')

  const body = multipartBody([filePart('y'.repeat(5_000_000))])
  const head = (length: string) =>
    `POST /api/documents/upload HTTP/1.1\r\nhost: a\r\nconnection: close\r\nauthorization: Bearer ${token}\r\ncontent-type: ${multipartType}\r\n${length}\r\n\r\n`
  const chunks = [Buffer.from(`${body.length.toString(16)}\r\n`), body, Buffer.from('\r\n0\r\n\r\n')]
  expect(await say(Buffer.concat([Buffer.from(head(`content-length: ${body.length}`)), body]))).toMatch(/^HTTP\/1.1 413 /)
  expect(await say(Buffer.concat([Buffer.from(head('transfer-encoding: chunked')), ...chunks]))).toMatch(/^HTTP\/1.1 413 /)
  expect((await storeFiles(dataDir)).staged).toEqual([])
  expect(await app.db.selectFrom('documents').select('size').execute()).toEqual([{ size: 100_000 }])
})

test('file names are never paths: no control characters, at most 255 bytes, and they are returned unchanged', async () => {
  const { fetch, asAda, dataDir } = await startServer()
  const long = `${'ä'.repeat(300)}.pdf`
  const names: [given: string, kept: string][] = [
    ['../../../etc/cron.d/x', 'x'],
    ['..\\\\..\\\\x.txt', 'x.txt'],
    ['/etc/passwd', 'passwd'],
    ['C:\\\\windows\\\\a.txt', 'a.txt'],
    ['\\\\\\\\host\\\\share\\\\a.txt', 'a.txt'],
    ['folder\\\\..\\\\x.txt', 'x.txt'],
    ['a\tb.txt', 'a_b.txt'],
    ['.', 'document'],
    ['..', 'document'],
    ['   ', 'document'],
    ['CON', 'CON'],
    ['invoice\u202efdp.exe', 'invoice_fdp.exe'],
    ['e\u0301.txt', 'é.txt'],
    ['日本語 😀.txt', '日本語 😀.txt'],
    ["; rm -rf $(x) '`.txt", "; rm -rf $(x) '`.txt"],
    ['say \\"hi\\".txt', 'say "hi".txt'],
    ['say %22ho%22 100%41.txt', 'say "ho" 100%41.txt'],
    ['two%0D%0Alines.txt', 'two__lines.txt'],
    ['<img src=x onerror=alert(1)>.svg', '<img src=x onerror=alert(1)>.svg'],
    [long, `${'ä'.repeat(125)}.pdf`],
  ]
  for (const [given, kept] of names) {
    const bytes = `bytes of ${given}`
    const { status, answer } = await post(fetch, multipartBody([filePart(bytes, given)]))
    expect([given, status, answer.document?.filename]).toEqual([given, 201, kept])
    const download = await fetch(`/api/documents/${answer.id}/download`)
    expect(await download.text()).toBe(bytes)
    const header = download.headers.get('content-disposition') ?? ''
    expect(header).toMatch(
      /^attachment; filename="(?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"(?:; filename\*=UTF-8''[\w.%!#$&+^`|~-]+)?$|^attachment; filename=[\w.!#$%&'*+^`|~-]+$/,
    )
    const extended = /filename\*=UTF-8''(.*)$/.exec(header)?.[1]
    if (extended) expect(decodeURIComponent(extended)).toBe(kept)
  }
  const star = await post(fetch, multipartBody([{ disposition: `; name="file"; filename*=UTF-8''..%2f..%2f%e2%82%ac.txt`, body: 'a' }]))
  expect(star.answer.document.filename).toBe('€.txt')
  const { named, staged } = await storeFiles(dataDir)
  expect([named.length, staged]).toEqual([new Set(await gather(asAda.documents.list(), ({ sha256 }) => sha256)).size, []])
})

test('a file name that is not UTF-8 is read as latin1, and a field may hold U+FFFD', async () => {
  const { fetch } = await startServer()
  const latin1 = (body: Buffer) => Buffer.from(body.toString('utf8'), 'latin1')
  const names = await post(fetch, latin1(multipartBody([filePart('bytes', 'größe.txt')])))
  expect([names.status, names.answer.document?.filename]).toEqual([201, 'größe.txt'])
  const { status, answer } = await post(fetch, multipartBody([filePart('a'), fieldPart('title', 'gr\ufffdße')]))
  expect([status, answer.document?.title]).toEqual([201, 'gr\ufffdße'])
  const utf8 = await post(fetch, multipartBody([filePart('b', 'größe €.txt'), fieldPart('title', 'größe €')]))
  expect([utf8.status, utf8.answer.document?.filename, utf8.answer.document?.title]).toEqual([201, 'größe €.txt', 'größe €'])
})

test('a backslash in a file name does not cut it, unless it is a Windows path', async () => {
  const { fetch } = await startServer()
  const names: [given: string, kept: string][] = [
    ['a\\\\b.pdf', 'a\\b.pdf'],
    ['not a path\\b.pdf', 'not a path\\b.pdf'],
    ['AC\\\\DC 1\\\\2.txt', 'AC\\DC 1\\2.txt'],
  ]
  for (const [given, kept] of names) {
    const { status, answer } = await post(fetch, multipartBody([filePart(`bytes of ${given}`, given)]))
    expect([given, status, answer.document?.filename]).toEqual([given, 201, kept])
  }
})

test('the title is the name without its extension; digits after the last dot are part of a date or a version', async () => {
  const { asAda } = await startApp()
  for (const [name, title] of [
    ['Brief vom 24.12.2025', 'Brief vom 24.12.2025'],
    ['Brief vom 24.12.2025.pdf', 'Brief vom 24.12.2025'],
    ['manual v1.2', 'manual v1.2'],
    ['scans.7z', 'scans'],
  ] as const)
    expect((await upload(asAda, name, name)).title).toBe(title)
})

test('the type is detected from the bytes, whatever name and client say', async () => {
  const { asAda } = await startApp()
  expect((await upload(asAda, 'picture.png', '%PDF-1.4\n')).mime_type).toBe('application/pdf')
  expect((await upload(asAda, 'a.pdf', '<svg xmlns="http://www.w3.org/2000/svg"/>')).mime_type).not.toBe('application/pdf')
  expect((await upload(asAda, 'a.bin', randomBytes(5000))).mime_type).toBe('application/octet-stream')
})

test('201 for extensions that are names of the prototype of objects', async () => {
  const { fetch } = await startServer()
  for (const name of ['a.constructor', 'a.__proto__']) {
    const { status, answer } = await post(fetch, multipartBody([filePart(`text of ${name}`, name)]))
    expect([name, status, answer.document?.mime_type]).toEqual([name, 201, 'text/plain'])
  }
})

test('equal bytes again: allow creates a document with the same file, reject is 409, return is 200; for another user they are new', async () => {
  const { asAda, asBob, dataDir, runJobs } = await startApp()
  const first = await upload(asAda, 'a.txt', 'same')
  const second = await asAda.documents.upload(file('b.txt', 'same'))
  expect(second.document).toMatchObject({ duplicate_of: first.id, filename: 'b.txt' })
  const returned = await asAda.documents.upload(file('c.txt', 'same'), { on_duplicate: 'return' })
  expect([returned.id, returned.ocr_queued, returned.document.filename]).toEqual([first.id, false, 'a.txt'])
  const rejected = await asAda.documents.upload(file('d.txt', 'same'), { on_duplicate: 'reject' }).catch((error) => error)
  expect(rejected).toMatchObject({ status: 409, code: 'DUPLICATE_RESOURCE', details: { document_id: first.id } })
  expect((await upload(asBob, 'a.txt', 'same', { on_duplicate: 'reject' })).duplicate_of).toBeNull()
  await runJobs(['maintenance'])
  expect(await storeFiles(dataDir)).toEqual({ named: [sha('same')], staged: [] })
  expect(await gather(asAda.documents.list(), ({ id }) => id)).toHaveLength(2)
})

test('documents.on_duplicate is the default; the query string can set it too', async () => {
  const { asAda, fetch } = await startServer({ 'documents.on_duplicate': 'reject' })
  const { id } = await upload(asAda, 'a.txt', 'same')
  expect(await failure(asAda.documents.upload(file('a.txt', 'same')))).toBe('DUPLICATE_RESOURCE')
  const response = await fetch('/api/documents?on_duplicate=return', {
    method: 'POST',
    body: multipartBody([filePart('same')]) as BodyInit,
    headers: { 'content-type': multipartType },
  })
  expect([response.status, ((await response.json()) as Answer).id]).toEqual([200, id])
})

test('only an admin uploads for another user', async () => {
  const { asAda, asAdmin, bob } = await startApp()
  expect((await upload(asAdmin, 'a.txt', 'a', { owner: 'bob' })).owner_id).toBe(bob.id)
  expect((await upload(asAdmin, 'a.txt', 'b', { owner: bob.id })).owner_id).toBe(bob.id)
  expect(await failure(upload(asAdmin, 'a.txt', 'c', { owner: 'nobody' }))).toBe('VALIDATION_ERROR')
  expect(await failure(upload(asAda, 'a.txt', 'd', { owner: 'bob' }))).toBe('FORBIDDEN')
})

test('Idempotency-Key: a repeated request gets the first answer for a day, also of twenty at once', async () => {
  const { app, asAda, asBob, later, dataDir, runJobs } = await startApp({ 'database.pool_max': 3 })
  const send = (client: Client, bytes = 'a') => client.documents.upload(file('a.txt', bytes), { idempotencyKey: 'one' })
  const answers = await Promise.all(Array.from({ length: 20 }, () => send(asAda)))
  expect(new Set(answers.map(({ id }) => id)).size).toBe(1)
  expect((await send(asBob)).id).not.toBe(answers[0]?.id)
  expect(await app.db.selectFrom('documents').select('id').execute()).toHaveLength(2)
  await runJobs(['maintenance'])
  expect(await storeFiles(dataDir)).toEqual({ named: [sha('a')], staged: [] })
  expect(await failure(asAda.documents.upload(file('a.txt', 'a'), { idempotencyKey: 'a b' }))).toBe('VALIDATION_ERROR')
  await later(25 * 3600 * 1000)
  expect((await send(asAda)).id).not.toBe(answers[0]?.id)
})

test('422 IDEMPOTENCY_KEY_REUSED, and nothing stored, for another file, name, field or route with the same Idempotency-Key', async () => {
  const { app, asAda, asBob, dataDir } = await startApp()
  const idempotencyKey = 'one'
  const first = await asAda.documents.upload(file('a.txt', 'a'), { idempotencyKey, title: 'A' })
  for (const [name, bytes, title] of [
    ['a.txt', 'other bytes', 'A'],
    ['b.txt', 'a', 'A'],
    ['a.txt', 'a', 'B'],
  ] as const) {
    const other = await asAda.documents.upload(file(name, bytes), { idempotencyKey, title }).catch((error) => error)
    expect(other).toMatchObject({ status: 422, code: 'IDEMPOTENCY_KEY_REUSED' })
  }
  expect(await failure(asAda.documents.bulkUpload([file('a.txt', 'a')], { idempotencyKey }))).toBe('IDEMPOTENCY_KEY_REUSED')
  expect(await asAda.documents.upload(file('a.txt', 'a'), { idempotencyKey, title: 'A' })).toEqual(first)
  expect((await asBob.documents.upload(file('a.txt', 'other bytes'), { idempotencyKey })).document.sha256).toBe(sha('other bytes'))
  expect(await app.db.selectFrom('documents').select('id').execute()).toHaveLength(2)
  expect((await storeFiles(dataDir)).named).toEqual([sha('a'), sha('other bytes')].sort())
})

test('Idempotency-Key on bulk-upload: the first answer again, also of eight at once; other files are 422 IDEMPOTENCY_KEY_REUSED', async () => {
  const { app, asAda, dataDir } = await startApp({ 'database.pool_max': 3 })
  const files = () => [file('b.txt', 'b'), file('empty.txt', ''), file('a.txt', 'a')]
  const send = (list = files()) => asAda.documents.bulkUpload(list, { idempotencyKey: 'many' })
  const answers = await Promise.all(Array.from({ length: 8 }, () => send()))
  expect(answers[0]).toMatchObject({
    uploaded: 2,
    failed: 1,
    documents: [
      { filename: 'b.txt', status: 'uploaded', sha256: sha('b') },
      { filename: 'empty.txt', status: 'failed', error: { code: 'VALIDATION_ERROR' } },
      { filename: 'a.txt', status: 'uploaded', sha256: sha('a') },
    ],
  })
  // Byte by byte, with the keys in their order.
  for (const answer of answers) expect(JSON.stringify(answer)).toBe(JSON.stringify(answers[0]))
  expect(await failure(send(files().reverse()))).toBe('IDEMPOTENCY_KEY_REUSED')
  expect(await app.db.selectFrom('documents').select('id').execute()).toHaveLength(2)
  expect(await storeFiles(dataDir)).toEqual({ named: [sha('a'), sha('b')].sort(), staged: [] })
})

test('Idempotency-Key: the first answer again although a label of the upload has been deleted', async () => {
  const { asAda } = await startApp()
  const label = await asAda.labels.create({ name: 'inbox', color: '#336699' })
  const one = () => asAda.documents.upload(file('a.txt', 'a'), { labels: 'inbox', idempotencyKey: 'one' })
  const many = () => asAda.documents.bulkUpload([file('b.txt', 'b')], { labels: 'inbox', idempotencyKey: 'many' })
  const first = [await one(), await many()]
  await asAda.labels.delete(label.id)
  expect([await one(), await many()]).toEqual(first)
})

test('a refused request does not use its Idempotency-Key', async () => {
  const { asAda } = await startApp()
  expect(await failure(asAda.documents.upload(file('a.txt', ''), { idempotencyKey: 'k' }))).toBe('VALIDATION_ERROR')
  expect((await asAda.documents.upload(file('a.txt', 'a'), { idempotencyKey: 'k' })).document.size).toBe(1)
})

test('bulk-upload: a result for each file, in order', async () => {
  const { asAda, app } = await startApp()
  await app.db.insertInto('labels').values({ name: 'Tax', name_key: 'tax', color: '#aabbcc' }).execute()
  const answer = await asAda.documents.bulkUpload([file('a.txt', 'a'), file('empty.txt', ''), file('b.txt', 'b'), file('a2.txt', 'a')], {
    labels: 'Tax',
    on_duplicate: 'reject',
  })
  expect(answer).toMatchObject({
    uploaded: 2,
    failed: 2,
    documents: [
      { filename: 'a.txt', status: 'uploaded', title: 'a', ocr_queued: true },
      { filename: 'empty.txt', status: 'failed', error: { code: 'VALIDATION_ERROR', message: 'the file is empty' } },
      { filename: 'b.txt', status: 'uploaded' },
      { filename: 'a2.txt', status: 'failed', error: { code: 'DUPLICATE_RESOURCE' } },
    ],
  })
  expect((await gather(asAda.documents.list(), (document) => document)).every(({ labels }) => labels[0] === 'Tax')).toBe(true)
})

test('known: which of these bytes the owner has, with the first document; 403 for another owner, 400 for a malformed SHA-256', async () => {
  const { asAda, asBob, asAdmin } = await startApp()
  const first = await upload(asAda, 'a.txt', 'a')
  const second = await upload(asAda, 'copy.txt', 'a')
  const bobs = await upload(asBob, 'b.txt', 'b')
  expect(second.duplicate_of).toBe(first.id)
  expect(await asAda.documents.known([first.sha256.toUpperCase(), bobs.sha256])).toEqual(new Map([[first.sha256, first.id]]))
  expect(await asAdmin.documents.known([first.sha256, bobs.sha256], { owner: 'bob' })).toEqual(new Map([[bobs.sha256, bobs.id]]))
  await expect(asAda.documents.known([bobs.sha256], { owner: 'bob' })).rejects.toMatchObject({ status: 403 })
  await expect(asAda.documents.known(['abc'])).rejects.toMatchObject({ status: 400 })
})

test('metadata of an upload: stored unchanged; 400 if it is no object, too large or too deep', async () => {
  const { asAda } = await startApp()
  const one = await asAda.documents.upload(file('a.txt', 'a'), { metadata: { box: '7', none: null } })
  expect(one.document.metadata).toEqual({ box: '7' })
  const { documents } = await asAda.documents.bulkUpload([file('b.txt', 'b'), file('a.txt', 'a')], {
    metadata: { n: 1 },
    on_duplicate: 'return',
  })
  expect(documents).toMatchObject([{ created: true }, { created: false, id: one.id, sha256: one.document.sha256 }])
  expect((await asAda.documents.get((documents[0] as { id: string }).id)).metadata).toEqual({ n: 1 })
  const deep = JSON.parse(`{"a":${'['.repeat(40)}${']'.repeat(40)}}`)
  for (const metadata of [[1], { x: 'y'.repeat(70_000) }, { x: 'a\0' }, deep])
    expect(await failure(asAda.documents.upload(file('c.txt', 'c'), { metadata: metadata as object as Record<string, unknown> }))).toBe(
      'VALIDATION_ERROR',
    )
})

test('metadata of an upload may have 65,536 bytes; 400 for one more', async () => {
  const { fetch } = await startServer()
  const statusOf = async (bytes: number) => {
    const metadata = JSON.stringify({ a: 'x'.repeat(bytes - 8) })
    return (await post(fetch, multipartBody([filePart('a'), fieldPart('metadata', metadata)]))).status
  }
  expect([await statusOf(65_536), await statusOf(65_537)]).toEqual([201, 400])
})

test('400 with the field metadata, and the path within it, for JSON that is malformed or cannot be stored', async () => {
  const { fetch } = await startServer()
  const issues = async (metadata: string) =>
    (await post(fetch, multipartBody([filePart('a'), fieldPart('metadata', metadata)]))).answer.error.details.issues
  expect(await issues('{"box":')).toEqual([{ path: 'metadata', message: 'not valid JSON' }])
  expect(await issues('{"box":{"a":"\\u0000"}}')).toEqual([{ path: 'metadata.box.a', message: expect.stringContaining('U+0000') }])
})

test('400 lists the problems of all fields, because each attempt sends the file again', async () => {
  const { fetch, token } = await startServer()
  const fields = [fieldPart('language', 'xxx'), fieldPart('labels', 'none,neither'), fieldPart('on_duplicate', 'allow')]
  const { status, answer } = await post(fetch, multipartBody([filePart('a'), ...fields]))
  const issues = answer.error.details.issues as { path: string }[]
  expect([status, issues.map(({ path }) => path)]).toEqual([400, ['language', 'labels', 'labels']])
  const deep = `{"a":${'['.repeat(40)}${']'.repeat(40)}}`
  const malformed = [fieldPart('metadata', deep), fieldPart('ocr_enabled', 'maybe'), fieldPart('document_date', 'soon')]
  expect((await post(fetch, multipartBody([filePart('a'), ...malformed]))).answer.error.details.issues).toEqual([
    { path: 'ocr_enabled', message: expect.any(String) },
    { path: 'metadata', message: 'must have at most 32 levels' },
    { path: 'document_date', message: expect.any(String) },
  ])
  const response = await fetch('/api/documents/bulk-upload', {
    method: 'POST',
    body: multipartBody([filePart('a', 'a.txt', 'files'), fieldPart('language', 'xxx'), fieldPart('default_labels', 'none')]) as BodyInit,
    headers: { 'content-type': multipartType, authorization: `Bearer ${token}` },
  })
  const { error } = (await response.json()) as Answer
  expect((error.details.issues as { path: string }[]).map(({ path }) => path)).toEqual(['language', 'default_labels'])
})

test('bulk-upload with an 11th file, a file that is too large, or an unknown label: refused as a whole, and nothing is stored', async () => {
  const { asAda, app, dataDir } = await startApp({ 'limits.max_upload_size': '1kB' })
  const files = Array.from({ length: 11 }, (_, index) => file(`${index}.txt`, `bytes ${index}`))
  expect(await failure(asAda.documents.bulkUpload(files))).toBe('VALIDATION_ERROR')
  expect(await failure(asAda.documents.bulkUpload([files[0]!, file('big', 'x'.repeat(1001))]))).toBe('PAYLOAD_TOO_LARGE')
  expect(await failure(asAda.documents.bulkUpload([files[0]!], { labels: 'nothing' }))).toBe('VALIDATION_ERROR')
  expect(await storeFiles(dataDir)).toEqual({ named: [], staged: [] })
  expect(await app.db.selectFrom('documents').select('id').execute()).toEqual([])
  expect(await asAda.documents.bulkUpload(files.slice(0, 10))).toMatchObject({ uploaded: 10, failed: 0 })
})

test('bulk-upload returns what it stored, even if the rest cannot be stored', async () => {
  const { asAda, app } = await startApp()
  const stage = app.files.stage.bind(app.files)
  app.files.stage = async (...given) => {
    const file = await stage(...given)
    const again = Promise.withResolvers<void>()
    let calls = 0
    return {
      ...file,
      commit: async () => {
        if (file.size === 3) throw new Error('the disk failed')
        // A first call that still runs when the third file fails meets the second one.
        if (calls++ === 0) await Promise.race([again.promise, sleep(200)])
        else {
          again.resolve()
          await new Promise(setImmediate)
        }
        await file.commit()
      },
    }
  }
  const log = app.log as { error: unknown }
  log.error = () => {}
  const answer = await asAda.documents.bulkUpload([file('a', 'a'), file('b', 'b'), file('c', 'ccc'), file('d', 'd')])
  expect(answer).toMatchObject({ uploaded: 3, failed: 1 })
  expect(answer.documents[2]).toMatchObject({ filename: 'c', status: 'failed', error: { code: 'SERVICE_UNAVAILABLE' } })
})

test('bulk-upload whose first file cannot be stored lists the files that were stored with others', async () => {
  const { asAda, app } = await startApp()
  await asAda.documents.bulkUpload([file('old', 'old')])
  const stage = app.files.stage.bind(app.files)
  // A comparison happens only with bytes that are stored already.
  app.files.stage = async (...given) => {
    const file = await stage(...given)
    return file.size === 3 ? { ...file, equals: () => Promise.reject(new Error('the disk failed')) } : file
  }
  const log = app.log as { error: unknown }
  log.error = () => {}
  const answer = await asAda.documents.bulkUpload([file('old', 'old'), file('a', 'a'), file('b', 'b')])
  expect(answer.documents.map(({ filename, status }) => [filename, status])).toEqual([
    ['old', 'failed'],
    ['a', 'uploaded'],
    ['b', 'uploaded'],
  ])
})

test('a client that disconnects during an upload leaves no row, no file, and nothing open', async () => {
  const { app, dial, token, dataDir } = await startServer()
  const head = `POST /api/documents/upload HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\ncontent-type: multipart/form-data; boundary=${boundary}\r\n`
  const body = multipartBody([fieldPart('title', 'x'), filePart(randomBytes(600_000)), fieldPart('language', 'eng')])
  const request = Buffer.concat([Buffer.from(`${head}content-length: ${body.length}\r\n\r\n`), body])
  for (let round = 0; round < 40; round++) {
    const socket = await dial()
    const offset = 1 + Math.floor(((round * 0.618_033_988_7) % 1) * (request.length - 2))
    socket.write(request.subarray(0, offset))
    // Some go at once, some when the server is in the middle of it; some say goodbye, some do not.
    await new Promise((resolve) => setTimeout(resolve, round % 4 === 0 ? 0 : 10))
    if (round % 2) socket.destroy()
    else socket.resetAndDestroy()
  }
  await expect.poll(async () => (await storeFiles(dataDir)).staged).toEqual([])
  await expect.poll(() => openFiles(dataDir)).toEqual([])
  expect((await storeFiles(dataDir)).named).toEqual([])
  expect(await app.db.selectFrom('documents').select('id').execute()).toEqual([])
})

test('an upload that takes longer than server.upload_timeout is aborted', async () => {
  const { dial, token, dataDir } = await startServer({ 'server.upload_timeout': '1s' })
  const socket = await dial()
  const heard: Buffer[] = []
  socket.on('data', (chunk: Buffer) => heard.push(chunk))
  socket.write(
    `POST /api/documents/upload HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${token}\r\ncontent-type: ${multipartType}\r\ntransfer-encoding: chunked\r\n\r\n`,
  )
  const start = multipartBody([filePart('x')], '')
    .toString()
    .slice(0, -2)
  socket.write(`${start.length.toString(16)}\r\n${start}\r\n`)
  const trickle = setInterval(() => socket.write('1\r\nx\r\n'), 50)
  await expect.poll(() => Buffer.concat(heard).toString()).toMatch(/^HTTP\/1.1 400 [\s\S]*took longer than 1 s/)
  clearInterval(trickle)
  socket.destroy()
  expect((await storeFiles(dataDir)).staged).toEqual([])
})

test('equal bytes uploaded and deleted concurrently: every document has its bytes, and unused files are removed', async () => {
  const { app, asAda, asBob, runJobs, dataDir } = await startApp({ 'database.pool_max': 20 })
  const bytes = 'contended'
  await upload(asAda, 'first.txt', bytes)
  for (let round = 0; round < 6; round++) {
    const ids = await gather(asAda.documents.list(), ({ id }) => id)
    await Promise.all([
      ...ids.map((id) => asAda.documents.delete(id, { permanent: true })),
      ...[asAda, asBob, asAda].map((client, index) => upload(client, `${round}-${index}.txt`, bytes)),
      runJobs(['maintenance']),
    ])
    await runJobs(['maintenance'])
    const left = await app.db.selectFrom('documents').select('id').execute()
    expect(left.length).toBeGreaterThan(0)
    expect(await storeFiles(dataDir)).toEqual({ named: [sha(bytes)], staged: [] })
    expect(await app.db.selectFrom('stored_files').select('size').execute()).toEqual([{ size: bytes.length }])
  }
  for await (const { id } of asAda.documents.list()) await asAda.documents.delete(id, { permanent: true })
  for await (const { id } of asBob.documents.list()) await asBob.documents.delete(id, { permanent: true })
  await runJobs(['maintenance'])
  expect(await storeFiles(dataDir)).toEqual({ named: [], staged: [] })
  expect(await app.db.selectFrom('stored_files').select('sha256').execute()).toEqual([])
})

test('503 SERVICE_UNAVAILABLE while the disk is full: nothing is stored, reads work, and uploads work again with free space', async ({
  skip,
}) => {
  const folder = await mountSmallDisk(skip, 'size=4m,nr_inodes=200')
  const { app, asAda } = await startApp({ 'storage.path': folder })
  const log = app.log as { error: unknown }
  log.error = () => {}
  const small = await upload(asAda, 'small.txt', randomBytes(1_000_000))
  const full = await asAda.documents.upload(file('big.bin', randomBytes(6_000_000))).catch((error) => error)
  expect(full).toMatchObject({ status: 503, code: 'SERVICE_UNAVAILABLE', details: { retry_after_secs: 300 } })
  expect((await (await asAda.documents.download(small.id)).arrayBuffer()).byteLength).toBe(1_000_000)
  const medium = await upload(asAda, 'medium.bin', randomBytes(2_000_000))
  expect((await asAda.documents.upload(file('b.bin', randomBytes(2_000_000))).catch((error) => error)).code).toBe('SERVICE_UNAVAILABLE')
  const files = execFileSync('find', [folder, '-name', '*.part'], { encoding: 'utf8' })
  expect(files).toBe('')
  const address = await addressOf(app.db, medium.sha256)
  await asAda.documents.delete(medium.id, { permanent: true })
  await app.files.remove(address)
  expect((await upload(asAda, 'b.bin', randomBytes(2_000_000))).size).toBe(2_000_000)
})

test('503 SERVICE_UNAVAILABLE for an upload that would use the space of storage.min_free', async ({ skip }) => {
  const folder = await mountSmallDisk(skip, 'size=120m')
  const { app, asAda } = await startApp({ 'storage.path': folder, 'storage.min_free': '80MB' })
  const log = app.log as { error: unknown }
  log.error = () => {}
  const megabytes = Array.from({ length: 100 }, () => Buffer.alloc(1_000_000))
  const large = { filename: 'large.bin', size: 100_000_000, open: () => megabytes }
  await expect(asAda.documents.upload(large)).rejects.toMatchObject({ status: 503, code: 'SERVICE_UNAVAILABLE' })
  expect((await upload(asAda, 'small.txt', 'small')).size).toBe(5)
})

test('503 SERVICE_UNAVAILABLE below storage.min_free', async () => {
  const { asAda, app } = await startApp({ 'storage.min_free': '1000TB' })
  const log = app.log as { error: unknown }
  log.error = () => {}
  const refused = await asAda.documents.upload(file('a', 'a')).catch((error) => error)
  expect(refused).toMatchObject({ status: 503, message: 'The document store is full.' })
  await expect(
    openDisk({ path: app.config.storage.path || join(app.config.data_dir, 'files'), tmp_path: '', min_free: 0, fsync: true }),
  ).resolves.toBeDefined()
})
