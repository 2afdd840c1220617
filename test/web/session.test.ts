/** The web page without a browser: sessions, forms of other sites, redirects, headers, files. */
import { expect, test, vi } from 'vitest'
import { SearchFailure } from '../../src/ports/search-engine.ts'
import { upload } from '../support/app.ts'
import { docx, paragraph } from '../support/data/office-files.ts'
import { doc95 } from '../support/data/word-files.ts'
import { makeReadOnly } from '../support/servers/read-only-database.ts'
import { startServer } from '../support/servers/server.ts'

const html = { accept: 'text/html' }
const password = 'correct horse 7 battery!'

async function start(settings: Parameters<typeof startServer>[0] = {}) {
  const dms = await startServer(settings)
  await dms.app.db
    .updateTable('users')
    .set({ password_hash: await dms.app.passwords.hash(password), email_verified_at: dms.app.now() })
    .execute()
  const { host } = new URL(dms.url)
  const get = (path: string, headers: Record<string, string> = {}) =>
    fetch(dms.url + path, { redirect: 'manual', headers: { ...html, ...headers } })
  const post = (path: string, form: Record<string, string>, headers: Record<string, string> = {}) =>
    fetch(dms.url + path, {
      method: 'POST',
      redirect: 'manual',
      body: new URLSearchParams(form),
      headers: { ...html, origin: `http://${host}`, ...headers },
    })
  const signIn = async (username = 'ada', next = '/') => {
    const response = await post('/sign-in', { username, password, next })
    const line = response.headers.getSetCookie()[0] ?? ''
    return { response, line, cookie: line.split(';')[0] ?? '', location: response.headers.get('location') }
  }
  return { ...dms, get, post, signIn }
}

test('303 to the login without a session, back to the page after it; the API takes no cookie; the logout ends the session', async () => {
  const { get, post, signIn, url, app } = await start()
  const anonymous = await get('/?q=harbour')
  expect([anonymous.status, anonymous.headers.get('location')]).toEqual([303, '/sign-in?next=%2F%3Fq%3Dharbour'])
  const { response, line, cookie, location } = await signIn('ada', '/?q=harbour')
  expect([response.status, location]).toEqual([303, '/?q=harbour'])
  expect(line).toMatch(/^dms_session=[\w-]+\.[\w-]+\.[\w-]+; Max-Age=86400; Path=\/; HttpOnly; SameSite=Lax$/)
  const page = await get('/', { cookie })
  expect([page.status, page.headers.get('cache-control')]).toEqual([200, 'private, no-store'])
  expect(page.headers.get('content-security-policy')).toBe(
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  )
  expect((await fetch(`${url}/api/documents`, { headers: { cookie } })).status).toBe(401)
  expect((await post('/sign-out', {}, { cookie })).headers.getSetCookie()[0]).toMatch(/^dms_session=; Max-Age=0; Path=\/; HttpOnly/)
  expect((await get('/', { cookie })).status).toBe(303)
  const entries = await app.db.selectFrom('audit_entries').selectAll().execute()
  expect(entries).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ action: 'POST /api/auth/login', actor: 'ada', outcome: 'ok' }),
      expect.objectContaining({ action: 'POST /api/auth/logout', actor: 'ada', outcome: 'ok' }),
    ]),
  )
})

test('the logout while the database is read-only removes the cookie', async () => {
  const { databaseUrl, post, signIn } = await start()
  const { cookie } = await signIn()
  await makeReadOnly(databaseUrl)
  const answer = await post('/sign-out', {}, { cookie })
  expect([answer.status, answer.headers.get('location')]).toEqual([303, '/sign-in'])
  expect(answer.headers.getSetCookie()[0]).toMatch(/^dms_session=; Max-Age=0;/)
})

test('a session ends by its time, with its user, and for a changed cookie', async () => {
  const { get, signIn, later, app, bob } = await start()
  const { cookie } = await signIn('ada')
  expect((await get('/', { cookie: `${cookie}x` })).status).toBe(303)
  const { cookie: ofBob } = await signIn('bob')
  expect((await get('/queue', { cookie: ofBob })).status).toBe(200)
  await app.db.updateTable('users').set({ disabled: true }).where('id', '=', bob.id).execute()
  expect((await get('/queue', { cookie: ofBob })).status).toBe(303)
  await later(25 * 3_600_000)
  expect((await get('/', { cookie })).status).toBe(303)
})

test('303 from a form without a session to the login, and after it back to the page with the form', async () => {
  const { post, signIn, url } = await start()
  const nextOf = async (path: string, referer?: string) => {
    const { status, headers } = await post(path, {}, referer === undefined ? {} : { referer })
    return [status, headers.get('location')]
  }
  const next = `/sign-in?${new URLSearchParams({ next: '/documents/x?q=fees&page=2' })}`
  expect(await nextOf('/documents/x/restore', `${url}/documents/x?q=fees&page=2`)).toEqual([303, next])
  for (const referer of [undefined, '', 'about:blank', `${url}/`, `${url}//evil.example`])
    expect([referer, await nextOf('/documents/x/restore', referer)]).toEqual([referer, [303, '/sign-in']])
  expect((await signIn('ada', '/documents/x?q=fees&page=2')).location).toBe('/documents/x?q=fees&page=2')
})

test('the cookie lasts as long as the session if the clock of the server is days ahead of the database', async () => {
  const { get, signIn, setProcessClock } = await start({ 'auth.session_lifetime_hours': 12 })
  setProcessClock(3 * 86_400_000)
  const { line, cookie } = await signIn()
  expect(line).toContain('; Max-Age=43200;')
  expect((await get('/queue', { cookie })).status).toBe(200)
})

test('200 without the filter for an impossible date', async () => {
  const { get, signIn } = await start()
  const { cookie } = await signIn()
  for (const [day, isFilter] of [
    ['from=2026-02-28', true],
    ['from=2026-02-30', false],
    ['from=2026-13-01', false],
    ['from=0000-01-01', false],
    ['from=yesterday', false],
    ['year=2026', true],
    ['year=0000', false],
    ['year=26', false],
  ] as const) {
    const response = await get(`/?${day}`, { cookie })
    expect([day, response.status, (await response.text()).includes('Filters in use')]).toEqual([day, 200, isFilter])
  }
})

test('the types in the filters have names of their own, also the two kinds of Word documents', async () => {
  const { get, signIn, asAda, runJobs } = await start()
  await upload(asAda, 'new.docx', docx(paragraph('Harbour')))
  await upload(asAda, 'old.doc', doc95(Buffer.from('Harbour'), 0x409))
  await upload(asAda, 'fees.txt', 'Harbour')
  await runJobs()
  const { cookie } = await signIn()
  const page = await (await get('/', { cookie })).text()
  const names = [...page.matchAll(/<span>([^<]+)<\/span> <span class="count">/g)].map(([, name]) => name)
  expect(names.sort()).toEqual(['2024', 'Text', 'Word document (DOC)', 'Word document (DOCX)'])
})

test('the search field keeps the filters of the page, and has none without them', async () => {
  const { get, signIn } = await start()
  const { cookie } = await signIn()
  const fields = async (path: string) => {
    const [, form = ''] = /<form class="search"(.*?)<\/form>/s.exec(await (await get(path, { cookie })).text()) ?? []
    return [...form.matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g)].map(([, name, value]) => `${name}=${value}`)
  }
  const filters = ['type=text/plain', 'label=red', 'label=blue', 'year=2026', 'from=2026-01-01', 'to=2026-12-31']
  expect(await fields(`/?q=harbour&page=2&${filters.join('&')}`)).toEqual(filters)
  expect(await fields('/?q=harbour')).toEqual([])
})

test('a page past the end links to the last page, and calls neither the documents nor the trash empty', async () => {
  const { get, signIn, asAda, runJobs } = await start()
  const { id } = await upload(asAda, 'trashed.txt', 'one')
  await upload(asAda, 'harbour.txt', 'harbour fees')
  await asAda.documents.delete(id)
  await runJobs()
  const { cookie } = await signIn()
  for (const [path, last] of [
    ['/?page=3', '/'],
    ['/?q=harbour&page=3', '/?q=harbour'],
    ['/trash?page=3', '/trash?page=1'],
  ] as const) {
    const page = await (await get(path, { cookie })).text()
    expect([path, /rel="prev" href="([^"]*)"/.exec(page)?.[1], page.includes('class="empty')]).toEqual([path, last, false])
  }
})

test('404 with the navigation of the user for an unknown path; with a link to page 1 for a page that no search has', async () => {
  const { get, signIn } = await start()
  const { cookie } = await signIn()
  const unknown = await get('/nowhere', { cookie })
  expect([unknown.status, (await unknown.text()).includes('<nav aria-label="Main">')]).toEqual([404, true])
  expect([(await get('/nowhere')).status, (await (await get('/nowhere')).text()).includes('<nav')]).toEqual([404, false])
  const beyond = await get('/?q=harbour&label=red&page=60', { cookie })
  const page = await beyond.text()
  expect([beyond.status, page.includes('There is no such page'), page.includes('href="/?q=harbour&amp;label=red"')]).toEqual([
    404,
    true,
    true,
  ])
})

test('control characters of a text have pictures, its direction is that of its letters, and a ready document has no empty line', async () => {
  const { get, signIn, asAda, runJobs } = await start()
  const { id } = await upload(asAda, 'escape.txt', `${'The harbour master called. '.repeat(20)}harbour \x07 fees`)
  await upload(asAda, 'hebrew.txt', 'שלום harbour')
  await runJobs()
  const { cookie } = await signIn()
  const document = await (await get(`/documents/${id}`, { cookie })).text()
  expect(document).toContain('harbour \u2407 fees')
  expect(document).toContain('<pre dir="auto">')
  expect(document).not.toContain('<p class="facts"></p>')
  const results = await (await get('/?q=harbour', { cookie })).text()
  expect(results).toContain('<p class="snippet" dir="auto">')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose
  expect([document, results].filter((page) => /[\x00-\x08\x0e-\x1f\x7f]/.test(page))).toEqual([])
})

test('303 for both clicks of a double click on Move to trash and on Undo; 404 for a document of others', async () => {
  const { post, signIn, asAda, asBob } = await start()
  const { id } = await upload(asAda, 'harbour.txt', 'harbour fees')
  const { cookie } = await signIn()
  const twice = async (path: string) => {
    const responses = [await post(path, { next: '/' }, { cookie }), await post(path, { next: '/' }, { cookie })]
    return responses.map(({ status, headers }) => [status, headers.get('location')])
  }
  const trashed = [303, `/?trashed=${id}`]
  expect(await twice(`/documents/${id}/delete`)).toEqual([trashed, trashed])
  expect(await twice(`/documents/${id}/undelete`)).toEqual([
    [303, '/'],
    [303, '/'],
  ])
  const other = await upload(asBob, 'b.txt', 'of bob')
  for (const verb of ['delete', 'undelete'])
    expect(await twice(`/documents/${other.id}/${verb}`)).toEqual([
      [404, null],
      [404, null],
    ])
})

test('while the search engine is away, the newest documents are shown with a notice, and a search is 503', async () => {
  const { app, get, signIn, asAda } = await start()
  await upload(asAda, 'harbour.txt', 'harbour fees')
  const { cookie } = await signIn()
  for (const name of ['search', 'advanced'] as const) vi.spyOn(app.search, name).mockRejectedValue(new SearchFailure('refused'))
  const response = await get('/', { cookie })
  const page = await response.text()
  expect([response.status, page.includes('harbour'), page.includes('Search is not available right now.')]).toEqual([200, true, true])
  expect((await get('/?q=harbour', { cookie })).status).toBe(503)
})

test('200 with both of two overlapping matches marked in the text of a document', async () => {
  const { get, signIn, asAda, runJobs } = await start()
  const { id } = await upload(asAda, 'tokyo.txt', '東京都の報告書')
  await runJobs()
  const { cookie } = await signIn()
  const page = await (await get(`/documents/${id}?${new URLSearchParams({ q: '東京 京都' })}`, { cookie })).text()
  expect(/<pre[^>]*>(.*?)<\/pre>/s.exec(page)?.[1]).toBe('<mark>東京</mark><mark>都</mark>の報告書')
})

test('an error page in place of a document whose text cannot be read', async () => {
  const { app, get, signIn, asAda, runJobs } = await start()
  const { id } = await upload(asAda, 'harbour.txt', 'harbour fees')
  await runJobs()
  const { cookie } = await signIn()
  expect((await get(`/documents/${id}`, { cookie })).status).toBe(200)
  await app.db.schema.alterTable('document_pages').renameTo('lost_pages').execute()
  const response = await get(`/documents/${id}`, { cookie })
  expect([response.status, (await response.text()).includes('<pre')]).toEqual([500, false])
})

test('no open redirect: after the login only paths of this server', async () => {
  const { signIn } = await start()
  const targets = [
    ['/documents/x?page=2', '/documents/x?page=2'],
    ['//evil.example/', '/'],
    ['/\\evil.example', '/'],
    ['/\t/evil.example', '/'],
    ['https://evil.example', '/'],
    ['javascript:alert(1)', '/'],
    ['/..//evil.example', '/'],
    ['', '/'],
  ] as const
  for (const [next, expected] of targets) expect([next, (await signIn('ada', next)).location]).toEqual([next, expected])
})

test('403 for forms of other sites, also the login; allowed: the own origin, public_url, and what the browser marks as same-origin', async () => {
  const { post, signIn, asAda } = await start({ 'server.public_url': 'http://dms.example.org' })
  const { cookie } = await signIn()
  const { id } = await upload(asAda, 'a.txt', 'a')
  const foreign: Record<string, string>[] = [
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: 'http://dms.example.org', 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { 'sec-fetch-site': 'none' },
  ]
  for (const headers of foreign)
    for (const path of ['/sign-in', '/queue', '/upload', '/sign-out', '/trash', `/documents/${id}/delete`, `/documents/${id}/undelete`])
      expect([path, headers, (await post(path, { username: 'ada', password }, { cookie, ...headers })).status]).toEqual([
        path,
        headers,
        403,
      ])
  const own: Record<string, string>[] = [{ origin: 'https://dms.example.org' }, { origin: 'null', 'sec-fetch-site': 'same-origin' }]
  for (const headers of own) expect((await post('/queue', {}, { cookie, ...headers })).status).toBe(303)
})

test('429 after ten wrong passwords, as in the API; the page shows how long to wait and never the password', async () => {
  const { post, app } = await start()
  const attempt = async () => post('/sign-in', { username: 'ada', password: 'wrong & <b>' })
  const first = await attempt()
  expect([first.status, first.headers.getSetCookie()]).toEqual([401, []])
  const text = await first.text()
  expect(text).toContain('The user name or the password is wrong.')
  expect(text).not.toContain('wrong &')
  for (let at = 0; at < 9; at++) await attempt()
  const last = await attempt()
  expect([last.status, /Try again in \d+ minutes/.test(await last.text())]).toEqual([429, true])
  expect((await app.db.selectFrom('audit_entries').selectAll().where('code', '=', 'UNAUTHORIZED').execute()).length).toBe(10)
})

test('files are not cached and cannot run scripts; 404 for those of others and for malformed ids', async () => {
  const { get, signIn, asAda, asBob } = await start()
  const { cookie } = await signIn()
  const script = await upload(asAda, 'evil.js', 'alert(1)')
  const page = await upload(asAda, 'evil.html', '<script>alert(1)</script>')
  for (const { id } of [script, page])
    for (const how of ['view', 'download', 'versions/1/view', 'versions/1/download']) {
      const { headers, status } = await get(`/documents/${id}/${how}`, { cookie })
      expect(status).toBe(200)
      expect(headers.get('content-type')).toBe('application/octet-stream')
      expect(headers.get('content-disposition')).toMatch(/^attachment; filename=evil\./)
      expect(headers.get('content-security-policy')).toBe("default-src 'none'; sandbox")
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      expect(headers.get('cache-control')).toBe('private, no-store')
    }
  expect((await get(`/documents/${script.id}/view`, { cookie, range: 'bytes=0-4' })).status).toBe(206)
  const other = await upload(asBob, 'b.txt', 'of bob')
  for (const id of [other.id, 'x', '%252e%252e', '..%2f..%2fapi%2fusers'])
    for (const rest of ['', '/view', '/thumbnail', '/pages/1/image', '/delete', '/versions/1/download']) {
      const response = await get(`/documents/${id}${rest}`, { cookie })
      expect([id, rest, response.status, response.headers.get('content-type')]).toEqual([id, rest, 404, 'text/html; charset=utf-8'])
    }
})

test('style and script are cached for a year under the hash of their content, below 15 kB each', async () => {
  const { get } = await start()
  const page = await (await get('/sign-in')).text()
  expect(page).not.toMatch(/<style|\sstyle=|<script(?! src="\/assets\/)|\son\w+=/)
  for (const [, path = ''] of page.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)) {
    const response = await get(path)
    expect(response.headers.get('cache-control')).toBe('public, max-age=31536000, immutable')
    expect((await response.arrayBuffer()).byteLength).toBeLessThan(15_000)
    expect((await get(path, { 'if-none-match': response.headers.get('etag') ?? '' })).status).toBe(304)
  }
  expect((await get('/assets/page-0.css')).status).toBe(404)
})

test('with https the cookie is Secure and bound to the host; server.web = false leaves only the API', async () => {
  const secure = await start({ 'server.public_url': 'https://dms.example.org' })
  expect((await secure.signIn()).line).toMatch(/^__Host-dms_session=.+; Path=\/; HttpOnly; SameSite=Lax; Secure$/)
  const off = await start({ 'server.web': false })
  for (const path of ['/', '/sign-in', '/queue']) expect([path, (await off.get(path)).status]).toEqual([path, 404])
  expect((await off.get('/api/docs')).status).toBe(200)
})

test('HEAD of a long text reserves nothing that its end would have to release: any number of them leave room for the text', async () => {
  const { get, url, signIn, asAda, runJobs } = await start()
  const { cookie } = await signIn()
  const { id } = await upload(asAda, 'long.txt', 'harbour '.repeat(10_000))
  await runJobs()
  for (let i = 0; i < 10; i++) {
    const { status } = await fetch(`${url}/documents/${id}/text`, { method: 'HEAD', headers: { ...html, cookie } })
    expect(status).toBe(200)
  }
  const answer = await get(`/documents/${id}/text`, { cookie })
  expect([answer.status, (await answer.text()).length]).toEqual([200, 80_000])
})
