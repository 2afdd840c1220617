/** Confusable names: users, labels, titles, files, numbers, cells. */
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { formatCsv, parseCsv } from '../../src/cli/output/csv.ts'
import { startApp, upload } from '../support/app.ts'
import { here } from '../support/places.ts'
import { fieldPart, filePart, multipartBody, multipartType } from '../support/servers/server.ts'

const password = 'correct horse battery'

test('400 VALIDATION_ERROR for a user name that looks like an id or like another name, at registration, by an admin and in an import', async () => {
  const { asStranger, asAdmin } = await startApp({ 'limits.registrations_per_hour': 0 })
  const ids = [randomUUID(), randomUUID().toUpperCase(), randomUUID().replaceAll('-', '')]
  // Latin with a Cyrillic, or a Greek letter; Cyrillic with Greek; Hangul with Hiragana; whom the audit log names; a zero-width space; a mark that turns text around.
  const others = ['\u0430dmin', 'r\u03bfot', 'жλ', '한ひ', 'Operator', 'ad\u200bmin', 'ad\u202emin']
  for (const username of [...ids, ...others]) {
    const person = { username, email: 'new@example.org', password }
    for (const [client, path] of [
      [asStranger, '/api/auth/register'],
      [asAdmin, '/api/users'],
    ] as const) {
      const answer = await client.send('POST', path, person)
      expect([username, answer.status, (await answer.json()).error?.details.issues[0].path]).toEqual([username, 400, 'username'])
    }
    const report = await asAdmin.users.import([person])
    expect(report).toMatchObject({ created: 0, failed: 1, results: [{ error: { code: 'VALIDATION_ERROR' } }] })
  }
})

test('201 for user names of one script, and of scripts that are written together', async () => {
  const { asAdmin } = await startApp()
  for (const [index, username] of ['Ünal-2', 'Вера', 'Ελένη_7', '田中さくらA', 'kim김철수', '张伟.w', 'علي', 'राम'].entries())
    expect((await asAdmin.users.create({ username, email: `u${index}@example.org`, password })).username).toBe(username)
})

test('409 DUPLICATE_RESOURCE for a user name that looks like another one in letters of another script, whichever was first', async () => {
  const { asAdmin } = await startApp()
  const create = (username: string) =>
    asAdmin.send('POST', '/api/users', { username, email: `${Buffer.from(username).toString('hex')}@example.org`, password })
  for (const [first, second] of [
    ['ace7', 'асе7'],
    ['СОХ', 'cox'],
    ['Tokio', 'τοκιο'],
  ] as const) {
    expect((await create(first)).status).toBe(201)
    const answer = await create(second)
    expect([answer.status, (await answer.json()).error]).toMatchObject([
      409,
      { code: 'DUPLICATE_RESOURCE', details: { field: 'username' } },
    ])
  }
  expect((await create('вера')).status).toBe(201)
})

test('an id means the user with this id, also if another user has it as name', async () => {
  const { app, ada, bob, asAdmin } = await startApp()
  await app.db.updateTable('users').set({ username: bob.id, username_key: bob.id }).where('id', '=', ada.id).execute()
  // An update of an indexed column moves his row behind hers: a search for name or id then finds her row first.
  for (const email_key of ['moved@example.org', bob.email_key])
    await app.db.updateTable('users').set({ email_key }).where('id', '=', bob.id).execute()
  expect((await upload(asAdmin, 'a.txt', 'a', { owner: bob.id })).owner_id).toBe(bob.id)
  expect((await upload(asAdmin, 'b.txt', 'b', { owner: bob.id.toUpperCase() })).owner_id).toBe(bob.id)
  expect((await upload(asAdmin, 'c.txt', 'c', { owner: 'ada@example.org' })).owner_id).toBe(ada.id)
  for (const owner of [bob.id, 'bob', 'BOB@example.org']) {
    const names: string[] = []
    for await (const { filename } of asAdmin.documents.list({ owner })) names.push(filename)
    expect(names.sort()).toEqual(['a.txt', 'b.txt'])
  }
})

test('400 VALIDATION_ERROR for hidden characters in names of labels, sources and tokens, and for a label named like an id', async () => {
  const { asAda } = await startApp()
  for (const bad of ['a\u202eb', 'a\u200bb', 'a\nb', 'a\tb', '\ufeffa', 'a\u2066b', '\u3164', 'a\u00adb']) {
    const answers = await Promise.all([
      asAda.send('POST', '/api/labels', { name: bad, color: '#112233' }),
      asAda.send('POST', '/api/tokens', { name: bad, scopes: ['read'] }),
      asAda.send('POST', '/api/sources', { name: bad, type: 'webdav', url: 'https://dav.example.org/' }),
    ])
    // Space at the ends is removed, and a byte order mark counts as space.
    if (bad !== '\ufeffa') expect([bad, ...answers.map(({ status }) => status)]).toEqual([bad, 400, 400, 400])
  }
  expect((await asAda.send('POST', '/api/labels', { name: randomUUID(), color: '#112233' })).status).toBe(400)
  for (const name of ['👨‍👩‍👧 family', '❤️', 'می‌خواهم', 'क्‍ष', 'Steuer 2026/04 – „privat“'])
    expect((await asAda.labels.create({ name, color: '#112233' })).name).toBe(name)
})

test('titles and file names are stored without hidden characters, and on one line', async () => {
  const { asAda } = await startApp()
  const document = await upload(asAda, 'in\u200bvoice\u202efdp.txt', 'x', { title: 'one\r\ntwo\u202e\u200bthree' })
  expect([document.filename, document.title]).toEqual(['invoice_fdp.txt', 'one twothree'])
  const changed = await asAda.documents.update(document.id, { title: ' a\u2028b\u2069 👨‍👩‍👧 ' })
  expect(changed.title).toBe('a b 👨‍👩‍👧')
  expect((await asAda.send('PUT', `/api/documents/${document.id}`, { title: '\u200b' })).status).toBe(400)
})

test('400 VALIDATION_ERROR naming the path for an integer that would be rounded; others are stored as they are', async () => {
  const { asAda } = await startApp()
  const { id } = await upload(asAda, 'a.txt', 'x')
  const put = (metadata: string) =>
    asAda.raw('PUT', `/api/documents/${id}`, { open: () => `{"metadata":${metadata}}`, size: null }, { 'content-type': 'application/json' })
  const refused = await put('{"order":{"numbers":[1,12345678901234567890]}}')
  expect([refused.status, (await refused.json()).error?.details.issues]).toEqual([
    400,
    [{ path: 'metadata.order.numbers.1', message: expect.stringContaining('write it as a string') }],
  ])
  expect((await put('{"a":9007199254740993}')).status).toBe(400)
  expect((await put('{"a":-9007199254740992}')).status).toBe(400)
  const stored = await put('{"a":9007199254740991,"b":"12345678901234567890","c":0.1234567890123456789,"d":1e20,"e":[-9007199254740991]}')
  expect([stored.status, (await stored.json()).metadata]).toMatchObject([
    200,
    { a: 9007199254740991, b: '12345678901234567890', d: 1e20, e: [-9007199254740991] },
  ])
  const form = multipartBody([fieldPart('metadata', '{"n":12345678901234567890}'), filePart('b')])
  const answer = await asAda.raw(
    'POST',
    '/api/documents',
    { open: () => form as BodyInit, size: form.length },
    { 'content-type': multipartType },
  )
  expect([answer.status, (await answer.json()).error.details.issues]).toMatchObject([400, [{ path: 'metadata.n' }]])
})

test('documents list -o csv: no cell of a title begins with a formula', async () => {
  const { databaseUrl, dataDir, asAda, ada } = await startApp()
  for (const title of ['=1+1', '+cmd', '-2+3', '@SUM(A1)', '=HYPERLINK("https://example.org","x")'])
    await upload(asAda, 'a.txt', title, { title })
  const args = ['documents', 'list', '--fields', 'title', '-o', 'csv', '--no-header']
  const { code, stdout } = await here({ databaseUrl, dataDir }, args, { env: { DMS_AS: ada.username } })
  expect([code, stdout.trimEnd().split('\n').sort()]).toEqual([
    0,
    [`"'=HYPERLINK(""https://example.org"",""x"")"`, `'+cmd`, `'-2+3`, `'=1+1`, `'@SUM(A1)`],
  ])
})

test('CSV: a text that begins like a formula gets an apostrophe, which reading removes; numbers stay numbers', () => {
  const texts = ['=1+1', '+cmd', '-2+3', '@SUM(A1)', '\t=1', '\r=1', '＝1', "'=1", "''@x", "'quoted'", '', 'a=b', '+49 123', '-5,"x"']
  for (const text of texts) {
    const line = formatCsv([[text, 'x']])
    expect(line).not.toMatch(/^"?[=+\-@\t\r＝]/)
    expect(parseCsv(line)[0]?.fields).toEqual([text, 'x'])
  }
  for (const [value, formatted] of [
    [-5, '-5'],
    ['-5.25', '-5.25'],
    ['+7', '+7'],
    ['-1e-7', '-1e-7'],
    [0, '0'],
    ['-', '-'],
  ] as const)
    expect(formatCsv([[value]])).toBe(`${formatted}\n`)
})
