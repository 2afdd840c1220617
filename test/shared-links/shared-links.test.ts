import { unlink } from 'node:fs/promises'
import type { Kysely } from 'kysely'
import { pino } from 'pino'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { down, up } from '../../migrations/0033_viewed_files.ts'
import { operator } from '../../src/actor.ts'
import type { App } from '../../src/app.ts'
import { type Client, createClient } from '../../src/client/client.ts'
import { localClient } from '../../src/client/local.ts'
import { openLog } from '../../src/log/log.ts'
import { openApp } from '../../src/open-app.ts'
import { buildServer } from '../../src/server/http/assemble.ts'
import { startApp, upload } from '../support/app.ts'
import { conforming } from '../support/conformance.ts'
import { connectAll } from '../support/connect-all.ts'
import { replace } from '../support/data/versions.ts'
import { startKillable } from '../support/processes/killable.ts'
import { storedPath } from '../support/stored-path.ts'

interface Link {
  id: string
  document_id: string
  token: string
  url: string
  status: string
  view_count: number
}
interface Links {
  shared_links: Link[]
  pagination: { total: number; total_pages: number }
}

const unknown = '01890a5d-ac96-774b-bcce-b302099a8057'
const nobodys = 'x'.repeat(43)
const minute = 60_000

const share = (client: Client, document: { id: string }, terms: object = {}) =>
  client.call<Link>('POST', '/api/shared-links', { document_id: document.id, ...terms })

const publicPath = ({ token }: { token: string }, what = '') => `/api/public/shared/${token}${what}`

/** Creates a visitor with this address, on servers of their own. */
function visitor(app: App, ip: string): Client {
  const h3 = buildServer(app)
  return createClient(conforming(app, async (request) => h3.request(request, undefined, { ip })))
}

/** Starts a second App on the same database, as another server process would. */
async function secondServer(app: App): Promise<App> {
  const other = await openApp(app.config, openLog({ level: 'error', format: 'json' }), { migrate: 'never' })
  onTestFinished(() => other.close())
  return other
}

const codeOf = async (response: Response): Promise<unknown[]> => [
  response.status,
  ((await response.json()) as { error: { code: string } }).error.code,
]
const statuses = (answers: readonly Response[]) => answers.map(({ status }) => status).sort()

async function sharedFile(terms: object = {}, settings: Parameters<typeof startApp>[0] = {}) {
  const dms = await startApp(settings)
  const document = await upload(dms.asAda, 'letter.txt', 'Dear Bob, dear Alice')
  const link = await share(dms.asAda, document, terms)
  const linkNow = async () => (await dms.asAda.call<Links>('GET', '/api/shared-links')).shared_links.find(({ id }) => id === link.id)
  return { ...dms, document, link, linkNow }
}

describe('sharing', () => {
  test('201 with all fields; the address is the configured one, for any Host header', async () => {
    const { asAda, link: _, document } = await sharedFile({}, { 'server.public_url': 'https://docs.example.org/dms/' })
    const fields = { document_id: document.id, password: 'open sesame', expires_at: '2999-01-01T00:00:00+01:00', max_views: 3 }
    const response = await asAda.send('POST', '/api/shared-links', fields, { host: 'evil.test', 'x-forwarded-host': 'evil.test' })
    const link = (await response.json()) as Link
    expect(response.status).toBe(201)
    expect(link).toEqual({
      id: expect.any(String),
      document_id: document.id,
      filename: 'letter.txt',
      token: expect.stringMatching(/^\w[\w-]{42}$/),
      url: `https://docs.example.org/dms/api/public/shared/${link.token}`,
      has_password: true,
      expires_at: '2998-12-31T23:00:00.000Z',
      max_views: 3,
      view_count: 0,
      status: 'usable',
      created_by: 'ada',
      created_at: expect.any(String),
    })
    expect(Buffer.from(link.token, 'base64url')).toHaveLength(32)
  })

  test('fields that a client must not set are ignored', async () => {
    const { asAda, document, bob } = await sharedFile()
    const requested = { token: nobodys, view_count: -100, created_by: bob.id, status: 'usable', revoked_at: null, is_revoked: false }
    const link = await share(asAda, document, requested)
    expect(link).toMatchObject({ view_count: 0, created_by: 'ada' })
    expect(link.token).not.toBe(nobodys)
  })

  test('400 VALIDATION_ERROR for invalid terms', async () => {
    const { asAda, document } = await sharedFile()
    const wrong: [terms: object, path: string][] = [
      [{ expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
      [{ expires_at: 'tomorrow' }, 'expires_at'],
      [{ expires_at: '9999-12-31T23:59:59-12:00' }, 'expires_at'],
      [{ max_views: 0 }, 'max_views'],
      [{ max_views: -1 }, 'max_views'],
      [{ max_views: 1.5 }, 'max_views'],
      [{ max_views: 2 ** 31 }, 'max_views'],
      [{ max_views: '5' }, 'max_views'],
      [{ password: '' }, 'password'],
      [{ password: 'x'.repeat(129) }, 'password'],
      [{ document_id: 'nonsense' }, 'document_id'],
      [{ document_id: undefined }, 'document_id'],
    ]
    for (const [terms, path] of wrong)
      await expect(share(asAda, document, terms)).rejects.toMatchObject({
        status: 400,
        code: 'VALIDATION_ERROR',
        details: { issues: [{ path }] },
      })
  })

  test('404 DOCUMENT_NOT_FOUND for an unknown document and one of another user; an admin may share any', async () => {
    const { asBob, asAdmin, asAda, document } = await sharedFile()
    for (const id of [document.id, unknown])
      await expect(share(asBob, { id })).rejects.toMatchObject({ status: 404, code: 'DOCUMENT_NOT_FOUND' })
    const link = await share(asAdmin, document)
    expect(link).toMatchObject({ created_by: 'root' })
    expect((await asAda.send('DELETE', `/api/shared-links/${link.id}`)).status).toBe(204)
  })

  test('a link of the operator counts as one of the owner', async () => {
    const { app, document } = await sharedFile()
    expect(await share(localClient(app, operator), document)).toMatchObject({ created_by: 'ada', status: 'usable' })
  })

  test('429 SHARED_LINK_RATE_LIMITED for the 21st link of a user within an hour, also of 30 at once on two servers', async () => {
    const { app, ada, bob, document, asBob, later } = await sharedFile()
    const other = await secondServer(app)
    await Promise.all([connectAll(app), connectAll(other)])
    const servers = [app, other].map((one) => buildServer(one))
    const body = JSON.stringify({ document_id: document.id })
    const make = (at: number) =>
      servers[at % 2]!.request(
        new Request('http://dms/api/shared-links', { method: 'POST', body, headers: { 'content-type': 'application/json' } }),
        undefined,
        { actor: ada.actor },
      )
    const answers = await Promise.all(Array.from({ length: 30 }, (_, at) => make(at)))
    expect(statuses(answers)).toEqual([...Array(19).fill(201), ...Array(11).fill(429)])
    const refused = answers.find(({ status }) => status === 429)!
    const { error, retry_after_secs } = await refused.json()
    expect([error.code, refused.headers.get('retry-after')]).toEqual(['SHARED_LINK_RATE_LIMITED', String(retry_after_secs)])
    expect(retry_after_secs).toBeGreaterThan(3500)
    expect(retry_after_secs).toBeLessThanOrEqual(3600)
    expect(await share(asBob, await upload(asBob, 'b.txt', 'b'))).toMatchObject({ created_by: bob.username })
    await later(3600_000)
    expect((await make(0)).status).toBe(201)
  })
})

describe('lists of links', () => {
  test('own links newest first, in pages; an admin sees all', async () => {
    const { asAda, asBob, asAdmin, document, link, later } = await sharedFile()
    await later(1000)
    const second = await share(asAda, document)
    const theirs = await share(asBob, await upload(asBob, 'b.txt', 'b'))
    const ids = async (client: Client, query = '') =>
      (await client.call<Links>('GET', `/api/shared-links${query}`)).shared_links.map(({ id }) => id)
    expect(await ids(asAda)).toEqual([second.id, link.id])
    expect(await ids(asBob)).toEqual([theirs.id])
    expect(new Set(await ids(asAdmin))).toEqual(new Set([link.id, second.id, theirs.id]))
    expect(await ids(asAda, '?per_page=1&page=2')).toEqual([link.id])
    expect((await asAda.call<Links>('GET', '/api/shared-links?per_page=1')).pagination).toMatchObject({ total: 2, total_pages: 2 })
    expect((await asAda.send('GET', '/api/shared-links?per_page=101')).status).toBe(400)
  })

  test('all links of a document, whoever created them; 404 DOCUMENT_NOT_FOUND if the user may not see it', async () => {
    const { asAda, asBob, asAdmin, document, link, later } = await sharedFile()
    await later(1000)
    const admins = await share(asAdmin, document)
    const path = `/api/shared-links/document/${document.id}`
    expect((await asAda.call<Links>('GET', path)).shared_links.map(({ id }) => id)).toEqual([admins.id, link.id])
    expect(await codeOf(await asBob.send('GET', path))).toEqual([404, 'DOCUMENT_NOT_FOUND'])
    for (const id of [unknown, 'nonsense'])
      expect(await codeOf(await asAda.send('GET', `/api/shared-links/document/${id}`))).toEqual([404, 'DOCUMENT_NOT_FOUND'])
  })

  test('status says usable, expired, revoked, exhausted', async () => {
    const { app, asAda, document, later } = await sharedFile()
    await share(asAda, document, { expires_at: new Date(Date.now() + minute) })
    const spent = await share(asAda, document, { max_views: 1 })
    const revoked = await share(asAda, document)
    await asAda.send('DELETE', `/api/shared-links/${revoked.id}`)
    await visitor(app, '192.0.2.1').send('POST', publicPath(spent, '/download'))
    await later(2 * minute)
    const { shared_links } = await asAda.call<Links>('GET', '/api/shared-links')
    expect(shared_links.map(({ status }) => status)).toEqual(['revoked', 'exhausted', 'expired', 'usable'])
  })

  test('the paths of existing clients give equal answers', async () => {
    const { asAda, asStranger, document } = await sharedFile()
    const link = await asAda.call<Link>('POST', '/api/shared/links', { document_id: document.id })
    expect((await asAda.call<Links>('GET', '/api/shared/links')).pagination.total).toBe(2)
    expect((await asAda.call<Links>('GET', `/api/shared/links/document/${document.id}`)).pagination.total).toBe(2)
    expect((await asAda.send('DELETE', `/api/shared/links/${link.id}`)).status).toBe(204)
    expect(await codeOf(await asStranger.send('GET', publicPath(link)))).toEqual([410, 'SHARED_LINK_REVOKED'])
  })
})

describe('revoking', () => {
  test('204, also ten times at once, and then 410 SHARED_LINK_REVOKED everywhere', async () => {
    const { asAda, asStranger, link } = await sharedFile()
    const answers = await Promise.all(Array.from({ length: 10 }, () => asAda.send('DELETE', `/api/shared-links/${link.id}`)))
    expect(statuses(answers)).toEqual(Array(10).fill(204))
    expect(await codeOf(await asStranger.send('GET', publicPath(link)))).toEqual([410, 'SHARED_LINK_REVOKED'])
    for (const what of ['verify', 'download', 'view'])
      expect(await codeOf(await asStranger.send('POST', publicPath(link, `/${what}`)))).toEqual([410, 'SHARED_LINK_REVOKED'])
  })

  test('404 SHARED_LINK_NOT_FOUND for an unknown link and one of another user', async () => {
    const { asBob, asAdmin, asStranger, link } = await sharedFile()
    for (const id of [link.id, unknown, 'nonsense'])
      expect(await codeOf(await asBob.send('DELETE', `/api/shared-links/${id}`))).toEqual([404, 'SHARED_LINK_NOT_FOUND'])
    expect((await asStranger.send('GET', publicPath(link))).status).toBe(200)
    expect((await asAdmin.send('DELETE', `/api/shared-links/${link.id}`)).status).toBe(204)
  })

  test('a link stops working when its creator may no longer see the document, and is deleted with it', async () => {
    const { app, admin, ada, asAda, asAdmin, asStranger, document, link } = await sharedFile()
    const admins = await share(asAdmin, document)
    await app.db.updateTable('users').set({ role: 'user' }).where('id', '=', admin.id).execute()
    expect(await codeOf(await asStranger.send('POST', publicPath(admins, '/download')))).toEqual([410, 'SHARED_LINK_REVOKED'])
    expect((await asStranger.send('POST', publicPath(link, '/download'))).status).toBe(200)
    await app.db.updateTable('users').set({ disabled: true }).where('id', '=', ada.id).execute()
    expect(await codeOf(await asStranger.send('POST', publicPath(link, '/download')))).toEqual([410, 'SHARED_LINK_REVOKED'])
    await asAda.send('DELETE', `/api/documents/${document.id}?permanent=true`)
    expect(await codeOf(await asStranger.send('GET', publicPath(link)))).toEqual([404, 'SHARED_LINK_NOT_FOUND'])
  })
})

test('410 SHARED_LINK_REVOKED for the link of a deleted user to a document that was transferred', async () => {
  const { ada, bob, asAdmin, asBob, asStranger, document, link } = await sharedFile()
  expect((await asAdmin.send('DELETE', `/api/users/${ada.id}?documents=transfer&to=bob`)).status).toBe(204)
  for (const path of ['/download', '/view'])
    expect(await codeOf(await asStranger.send('POST', publicPath(link, path)))).toEqual([410, 'SHARED_LINK_REVOKED'])
  expect(await codeOf(await asStranger.send('GET', publicPath(link)))).toEqual([410, 'SHARED_LINK_REVOKED'])
  const { shared_links } = await asBob.call<Links>('GET', `/api/shared-links/document/${document.id}`)
  expect(shared_links).toMatchObject([{ id: link.id, status: 'revoked', created_by: bob.username }])
})

describe('link information', () => {
  test('200 with the document, which is no view', async () => {
    const { asStranger, link, linkNow, document } = await sharedFile({ password: 'p', max_views: 1 })
    for (const method of ['GET', 'HEAD', 'GET']) expect((await asStranger.send(method, publicPath(link))).status).toBe(200)
    expect(await asStranger.call('GET', publicPath(link))).toEqual({
      filename: 'letter.txt',
      title: 'letter',
      size: document.size,
      mime_type: 'text/plain',
      requires_password: true,
      expires_at: null,
      created_at: expect.any(String),
    })
    expect(await linkNow()).toMatchObject({ view_count: 0 })
  })

  test('404 SHARED_LINK_NOT_FOUND for an unknown or malformed token', async () => {
    const { asStranger } = await startApp()
    for (const token of [nobodys, 'short', `${nobodys}x`, 'x'.repeat(8000), '\0', "' or 1=1 --"]) {
      for (const [method, what] of [
        ['GET', ''],
        ['POST', '/verify'],
        ['POST', '/download'],
        ['POST', '/view'],
      ] as const) {
        const response = await asStranger.send(method, publicPath({ token: encodeURIComponent(token) }, what))
        expect(await codeOf(response)).toEqual([404, 'SHARED_LINK_NOT_FOUND'])
      }
    }
  })

  test('410 SHARED_LINK_EXPIRED after expires_at, and not before', async () => {
    const { asStranger, link, later } = await sharedFile({ expires_at: new Date(Date.now() + minute), max_views: 1 })
    expect((await asStranger.send('POST', publicPath(link, '/download'))).status).toBe(200)
    expect(await codeOf(await asStranger.send('GET', publicPath(link)))).toEqual([410, 'SHARED_LINK_MAX_VIEWS'])
    await later(2 * minute)
    expect(await codeOf(await asStranger.send('GET', publicPath(link)))).toEqual([410, 'SHARED_LINK_EXPIRED'])
  })
})

describe('passwords', () => {
  test('verify: 200 with whether the password is right, which is no view; without a password any is right', async () => {
    const { asAda, asStranger, document, link, linkNow } = await sharedFile({ password: 'pässwörd' })
    const valid = async (to: Link, body: object) =>
      (await asStranger.call<{ valid: boolean }>('POST', publicPath(to, '/verify'), body)).valid
    expect([await valid(link, { password: 'pässwörd' }), await valid(link, { password: 'no' }), await valid(link, {})]).toEqual([
      true,
      false,
      false,
    ])
    expect(await valid(await share(asAda, document), { password: 'no' })).toBe(true)
    expect(await linkNow()).toMatchObject({ view_count: 0 })
  })

  test.each(['download', 'view'])('%s: 401 SHARED_LINK_PASSWORD_REQUIRED, 403 SHARED_LINK_INVALID_PASSWORD, then 200', async (what) => {
    const { asStranger, link, linkNow } = await sharedFile({ password: 'right' })
    const path = publicPath(link, `/${what}`)
    expect(await codeOf(await asStranger.send('POST', path))).toEqual([401, 'SHARED_LINK_PASSWORD_REQUIRED'])
    expect(await codeOf(await asStranger.send('POST', `${path}?password=right`, {}))).toEqual([401, 'SHARED_LINK_PASSWORD_REQUIRED'])
    expect(await codeOf(await asStranger.send('POST', path, { password: 'wrong' }))).toEqual([403, 'SHARED_LINK_INVALID_PASSWORD'])
    expect(await linkNow()).toMatchObject({ view_count: 0 })
    expect(await (await asStranger.send('POST', path, { password: 'right' })).text()).toBe('Dear Bob, dear Alice')
    expect(await linkNow()).toMatchObject({ view_count: 1 })
  })

  test('long ones are not cut: the last character counts', async () => {
    const { asStranger, link } = await sharedFile({ password: `${'a'.repeat(127)}X` })
    const response = await asStranger.send('POST', publicPath(link, '/download'), { password: `${'a'.repeat(127)}Y` })
    expect(await codeOf(response)).toEqual([403, 'SHARED_LINK_INVALID_PASSWORD'])
    expect(await codeOf(await asStranger.send('POST', publicPath(link, '/verify'), { password: 'a'.repeat(5000) }))).toEqual([
      400,
      'VALIDATION_ERROR',
    ])
  })

  test('429 SHARED_LINK_RATE_LIMITED for the eleventh wrong one of an address, on any route and also at once; then for the right one too', async () => {
    const { app, link, later } = await sharedFile({ password: 'right' }, { 'limits.shared_password_failures': 1000 })
    const [guesser, neighbour] = [visitor(app, '192.0.2.1'), visitor(app, '192.0.2.2')]
    const guess = (at: number) =>
      guesser.send('POST', publicPath(link, ['/verify', '/download', '/view'][at % 3]), { password: `guess ${at}` })
    const answers = await Promise.all(Array.from({ length: 15 }, (_, at) => guess(at)))
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(5)
    const response = await guesser.send('POST', publicPath(link, '/download'), { password: 'right' })
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await codeOf(response)).toEqual([429, 'SHARED_LINK_RATE_LIMITED'])
    expect((await neighbour.send('POST', publicPath(link, '/download'), { password: 'right' })).status).toBe(200)
    await later(minute)
    expect((await guesser.send('POST', publicPath(link, '/download'), { password: 'right' })).status).toBe(200)
  })

  test('429 SHARED_LINK_RATE_LIMITED for a link after ten wrong ones of all addresses: 25 addresses cannot guess a PIN', async () => {
    const { app, asAda, asAdmin, link, document, later } = await sharedFile({ password: '1234' })
    const other = await share(asAda, document, { password: '1234' })
    const guess = (address: number, password: string, what = '/verify', to = link) =>
      visitor(app, `192.0.2.${address}`).send('POST', publicPath(to, what), { password })
    const friend = await guess(200, '1234', '/download')
    expect(friend.status).toBe(200)
    const answers: Response[] = []
    for (let at = 0; at < 30; at++) answers.push(await guess(at % 25, `${9000 + at}`, ['/verify', '/download', '/view'][at % 3]))
    expect(answers.filter(({ status }) => status !== 429)).toHaveLength(10)
    const refused = await guess(100, '1234', '/view')
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(800)
    expect(await codeOf(refused)).toEqual([429, 'SHARED_LINK_RATE_LIMITED'])
    // Whoever opened the link before is let in, and another link is not concerned.
    expect((await guess(200, '1234', '/download')).status).toBe(200)
    expect((await guess(100, '1234', '/download', other)).status).toBe(200)
    for (const client of [asAda, asAdmin]) {
      const { notifications } = await client.notifications.page()
      const told = notifications.filter(({ type }) => type === 'shared_link_locked')
      expect(told).toMatchObject(client === asAda ? [{ data: { shared_link_id: link.id, document_id: document.id } }] : [])
    }
    await later(15 * minute)
    expect((await guess(101, '1234', '/download')).status).toBe(200)
  })

  test('the second lock of a link within a day is twice as long; an earlier visitor who guesses is locked out too', async () => {
    const { app, link, later } = await sharedFile({ password: 'right' })
    const guess = (address: number, password = 'wrong') =>
      visitor(app, `192.0.2.${address}`).send('POST', publicPath(link, '/verify'), { password })
    expect((await guess(1, 'right')).status).toBe(200)
    for (let at = 0; at < 10; at++) await guess(100 + at)
    await later(15 * minute)
    for (let at = 0; at < 10; at++) expect((await guess(120 + at)).status).toBe(200)
    const wait = Number((await guess(140, 'right')).headers.get('retry-after'))
    expect([wait > 1700, wait <= 1800]).toEqual([true, true])
    for (let at = 0; at < 9; at++) expect((await guess(1)).status).toBe(200)
    await later(minute)
    expect((await guess(1, 'right')).status).toBe(200)
    await guess(1)
    await later(minute)
    expect((await guess(1, 'right')).status).toBe(429)
  })

  test('right ones of many visitors at once lock nothing', async () => {
    const { app, link } = await sharedFile({ password: 'right' })
    const open = (at: number) => visitor(app, `192.0.2.${at}`).send('POST', publicPath(link, '/download'), { password: 'right' })
    const answers = await Promise.all(Array.from({ length: 30 }, (_, at) => open(at)))
    expect(statuses(answers)).toEqual(Array(30).fill(200))
  })

  test('right ones count at verify only', async () => {
    const { app, link } = await sharedFile({ password: 'right' })
    const guest = visitor(app, '192.0.2.1')
    for (let at = 0; at < 12; at++)
      expect((await guest.send('POST', publicPath(link, '/download'), { password: 'right' })).status).toBe(200)
    for (let at = 0; at < 10; at++) expect((await guest.send('POST', publicPath(link, '/verify'), { password: 'right' })).status).toBe(200)
    expect(await codeOf(await guest.send('POST', publicPath(link, '/verify'), { password: 'right' }))).toEqual([
      429,
      'SHARED_LINK_RATE_LIMITED',
    ])
  })
})

test('no log line has a token or a password', async () => {
  const { app, link, document } = await sharedFile({ password: 'canary-right' })
  const said: string[] = []
  const log = pino({ level: 'trace' }, { write: (line) => void said.push(line) })
  const guest = visitor({ ...app, log, config: { ...app.config, log: { ...app.config.log, access: true } } }, '192.0.2.1')
  await guest.send('GET', publicPath(link))
  await guest.send('POST', publicPath(link, '/verify?password=canary-query'), { password: 'canary-wrong' })
  await unlink(await storedPath(app, document.sha256))
  expect((await guest.send('POST', publicPath(link, '/download'), { password: 'canary-right' })).status).toBe(503)
  expect(said).toHaveLength(5)
  for (const mistyped of ['/api/public//shared/', '/api/public/shared//', '/api/public%2Fshared/'])
    expect((await guest.send('GET', mistyped + link.token)).status).toBe(404)
  expect(said.join('')).toContain('/api/public/shared/…/download')
  expect(said.join('')).not.toMatch(new RegExp(`canary|${link.token}`))
})

describe('downloading', () => {
  test('the bytes, as attachment or inline, with headers that prevent scripts and caching', async () => {
    const { asStranger, link, linkNow } = await sharedFile()
    for (const [what, how] of [
      ['download', 'attachment'],
      ['view', 'inline'],
    ] as const) {
      const response = await asStranger.send('POST', publicPath(link, `/${what}`))
      expect(response.status).toBe(200)
      expect(Object.fromEntries(response.headers)).toMatchObject({
        'content-disposition': `${how}; filename=letter.txt`,
        'content-security-policy': expect.stringContaining('sandbox'),
        'x-content-type-options': 'nosniff',
        'cache-control': 'private, no-store',
        'content-length': '20',
      })
      expect(await response.text()).toBe('Dear Bob, dear Alice')
    }
    expect(await linkNow()).toMatchObject({ view_count: 2 })
  })

  test('one view with storage.redirect_downloads, if the store has no URLs', async () => {
    const { asStranger, link, linkNow } = await sharedFile({}, { 'storage.redirect_downloads': true })
    expect((await asStranger.send('POST', publicPath(link, '/download'))).status).toBe(200)
    expect(await linkNow()).toMatchObject({ view_count: 1 })
  })

  test('types that can run scripts are an attachment also at view', async () => {
    const { asAda, asStranger } = await startApp()
    const evil = {
      'x.svg': '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>',
      'x.html': '<!doctype html><script>alert(1)</script>',
    }
    for (const [name, bytes] of Object.entries(evil)) {
      const response = await asStranger.send('POST', publicPath(await share(asAda, await upload(asAda, name, bytes)), '/view'))
      expect(response.headers.get('content-disposition')).toMatch(/^attachment/)
      expect(response.headers.get('content-type')).not.toMatch(/^text\/html/)
    }
  })

  test('410 SHARED_LINK_REVOKED if the document is trashed, or the creator disabled, while the password is checked', async () => {
    const { app, ada, asAda, asStranger, document, link, linkNow } = await sharedFile({ password: 'open sesame' })
    const verify = vi.spyOn(app.passwords, 'verify')
    onTestFinished(() => verify.mockRestore())
    const downloadDuring = (change: () => Promise<unknown>) => {
      verify.mockImplementationOnce(() => change().then(() => true))
      return asStranger.send('POST', publicPath(link, '/download'), { password: 'open sesame' })
    }
    const setDisabled = (disabled: boolean) => app.db.updateTable('users').set({ disabled }).where('id', '=', ada.id).execute()
    expect(await codeOf(await downloadDuring(() => setDisabled(true)))).toEqual([410, 'SHARED_LINK_REVOKED'])
    await setDisabled(false)
    expect(await codeOf(await downloadDuring(() => asAda.documents.delete(document.id)))).toEqual([410, 'SHARED_LINK_REVOKED'])
    await asAda.documents.undelete(document.id)
    expect(await linkNow()).toMatchObject({ view_count: 0 })
    expect((await downloadDuring(async () => {})).status).toBe(200)
  })

  test('410 SHARED_LINK_MAX_VIEWS after the last view; its creator is notified once', async () => {
    const { asAda, asStranger, link, document } = await sharedFile({ max_views: 2 })
    const path = publicPath(link, '/download')
    expect([(await asStranger.send('POST', path)).status, (await asStranger.send('POST', path)).status]).toEqual([200, 200])
    expect(await codeOf(await asStranger.send('POST', path))).toEqual([410, 'SHARED_LINK_MAX_VIEWS'])
    const { notifications } = await asAda.call<{ notifications: object[] }>('GET', '/api/notifications')
    expect(notifications).toEqual([
      expect.objectContaining({
        type: 'shared_link_exhausted',
        message: 'The link to letter.txt was opened 2 times, as often as it allows.',
        data: { shared_link_id: link.id, document_id: document.id, filename: 'letter.txt' },
      }),
    ])
  })

  test('of 100 visitors at once for 5 views on two servers 5 get the whole file', async () => {
    const { link, linkNow, dataDir, databaseUrl } = await sharedFile({ max_views: 5 })
    const settings = { DATABASE_URL: databaseUrl, DMS_TRUSTED_PROXIES: '127.0.0.1' }
    const servers = await Promise.all([1, 2].map(() => startKillable(dataDir, settings)))
    onTestFinished(async () => void (await Promise.all(servers.map((server) => server.stop()))))
    const fetchOne = async (at: number) => {
      const headers = { 'x-forwarded-for': `192.0.2.${at}` }
      const response = await fetch(new URL(publicPath(link, '/download'), servers[at % 2]?.url), { method: 'POST', headers })
      return { status: response.status, text: await response.text() }
    }
    const answers = await Promise.all(Array.from({ length: 100 }, (_, at) => fetchOne(at)))
    const served = answers.filter(({ status }) => status === 200)
    expect(served.map(({ text }) => text)).toEqual(Array(5).fill('Dear Bob, dear Alice'))
    expect(answers.filter(({ status }) => status === 410)).toHaveLength(95)
    expect(await linkNow()).toMatchObject({ view_count: 5, status: 'exhausted' })
  })

  test('503 SERVICE_UNAVAILABLE for an unreadable file, which uses no view', async () => {
    const { app, asStranger, link, linkNow, document } = await sharedFile({ max_views: 1 })
    await unlink(await storedPath(app, document.sha256))
    expect(await codeOf(await asStranger.send('POST', publicPath(link, '/download')))).toEqual([503, 'SERVICE_UNAVAILABLE'])
    expect(await linkNow()).toMatchObject({ view_count: 0, status: 'usable' })
  })

  test('412 PRECONDITION_FAILED for a known ETag, which uses no view: 304 is for GET', async () => {
    const { asStranger, link, linkNow, document } = await sharedFile()
    const answer = await asStranger.send('POST', publicPath(link, '/download'), undefined, { 'if-none-match': `"${document.sha256}"` })
    expect(await codeOf(answer)).toEqual([412, 'PRECONDITION_FAILED'])
    expect(await linkNow()).toMatchObject({ view_count: 0 })
  })

  test('405 METHOD_NOT_ALLOWED for GET and HEAD, which use no view', async () => {
    const { asStranger, link, linkNow } = await sharedFile()
    for (const method of ['GET', 'HEAD']) expect((await asStranger.send(method, publicPath(link, '/download'))).status).toBe(405)
    expect(await linkNow()).toMatchObject({ view_count: 0 })
  })

  test('429 SHARED_LINK_RATE_LIMITED for the 61st download of an address within a minute, downloads and views together, with any headers', async () => {
    const { app, link, later } = await sharedFile()
    const guest = visitor(app, '2001:db8:1:2::1')
    const fetchOne = (at: number) =>
      guest.send(
        'POST',
        publicPath(link, at % 2 ? '/view' : '/download'),
        {},
        { 'x-forwarded-for': `203.0.113.${at}`, 'x-real-ip': `203.0.113.${at}` },
      )
    const answers = await Promise.all(Array.from({ length: 65 }, (_, at) => fetchOne(at)))
    expect(statuses(answers)).toEqual([...Array(60).fill(200), ...Array(5).fill(429)])
    const sameNetwork = await visitor(app, '2001:db8:1:2:ffff::1').send('POST', publicPath({ token: nobodys }, '/view'))
    expect(await codeOf(sameNetwork)).toEqual([429, 'SHARED_LINK_RATE_LIMITED'])
    expect((await visitor(app, '2001:db8:1:3::1').send('POST', publicPath(link, '/view'))).status).toBe(200)
    await later(minute)
    expect((await fetchOne(0)).status).toBe(200)
  })
})

test('the limits are configurable', async () => {
  const limits = { shared_links_per_hour: 2, shared_verify_per_minute: 1, shared_download_per_minute: 3 }
  const settings = Object.fromEntries(Object.entries(limits).map(([name, value]) => [`limits.${name}`, value]))
  const { asAda, asStranger } = await startApp(settings)
  const document = await upload(asAda, 'a.txt', 'x')
  const make = () => asAda.send('POST', '/api/shared-links', { document_id: document.id })
  const { token } = (await (await make()).json()) as { token: string }
  const statuses = async (times: number, ask: () => Promise<Response>) => {
    const seen: number[] = []
    for (let time = 0; time < times; time++) seen.push((await ask()).status)
    return seen
  }
  expect(await statuses(2, make)).toEqual([201, 429])
  expect(await statuses(2, () => asStranger.send('POST', `/api/public/shared/${token}/verify`, {}))).toEqual([200, 429])
  expect(await statuses(4, () => asStranger.send('POST', `/api/public/shared/${token}/download`, {}))).toEqual([200, 200, 200, 429])
})

describe('the rest of a file', () => {
  const part = (client: Client, link: Link, range: string) => client.send('POST', publicPath(link, '/download'), {}, { range })

  test('a range that does not start at 0 belongs to the view of the same client within ten minutes, also of the last view', async () => {
    const { app, link, linkNow, later } = await sharedFile({ max_views: 1 })
    const guest = visitor(app, '192.0.2.1')
    const first = await part(guest, link, 'bytes=0-4')
    expect([first.status, await first.text()]).toEqual([206, 'Dear '])
    await later(9 * minute)
    const rest = await part(guest, link, 'bytes=5-')
    expect([rest.status, await rest.text()]).toEqual([206, 'Bob, dear Alice'])
    expect(await linkNow()).toMatchObject({ view_count: 1 })
    expect((await part(visitor(app, '192.0.2.2'), link, 'bytes=5-')).status).toBe(410)
    await later(2 * minute)
    expect((await part(guest, link, 'bytes=5-')).status).toBe(410)
  })

  test('everything else is another view: from 0 again, several ranges, another version, a client without a view', async () => {
    const { app, link, linkNow } = await sharedFile()
    const guest = visitor(app, '192.0.2.1')
    await part(guest, link, 'bytes=5-')
    await part(guest, link, 'bytes=0-')
    await part(guest, link, 'bytes=1-2,4-5')
    await guest.send('POST', publicPath(link, '/download'), {}, { range: 'bytes=5-', 'if-range': '"another"' })
    expect(await linkNow()).toMatchObject({ view_count: 4 })
    expect((await part(guest, link, 'bytes=5-')).status).toBe(206)
    expect(await linkNow()).toMatchObject({ view_count: 4 })
  })

  test('a range of a new version is another view: 410 SHARED_LINK_MAX_VIEWS for a used-up link, until the viewed bytes are restored', async () => {
    const { app, asAda, link, linkNow, document } = await sharedFile({ max_views: 1 })
    const guest = visitor(app, '192.0.2.1')
    await part(guest, link, 'bytes=0-4')
    await replace(asAda, document.id, 'letter.txt', 'Dear Eve, dear Mallory')
    for (const range of ['bytes=1-', 'bytes=-3'])
      expect(await codeOf(await part(guest, link, range))).toEqual([410, 'SHARED_LINK_MAX_VIEWS'])
    await asAda.documents.restore(document.id, 1)
    expect(await (await part(guest, link, 'bytes=5-')).text()).toBe('Bob, dear Alice')
    expect(await linkNow()).toMatchObject({ view_count: 1 })
  })

  test('206 for a range of a new version counts a view; the rest of it belongs to this view', async () => {
    const { app, asAda, link, linkNow, document } = await sharedFile({ max_views: 2 })
    const guest = visitor(app, '192.0.2.1')
    await part(guest, link, 'bytes=0-4')
    await replace(asAda, document.id, 'letter.txt', 'Dear Eve, dear Mallory')
    for (const range of ['bytes=1-4', 'bytes=5-']) {
      expect((await part(guest, link, range)).status).toBe(206)
      expect(await linkNow()).toMatchObject({ view_count: 2 })
    }
  })

  test('the migration keeps views, and the file of a view that is later than the file', async () => {
    const { app, asAda, link, document, later } = await sharedFile({ max_views: 2 })
    const db = app.db as Kysely<unknown>
    const guest = visitor(app, '192.0.2.1')
    const migrate = async () => {
      await down(db)
      await up(db)
      return app.db.selectFrom('shared_link_views').select(['client', 'sha256']).execute()
    }
    await later(1000)
    await part(guest, link, 'bytes=0-4')
    expect(await migrate()).toEqual([{ client: '192.0.2.1', sha256: document.sha256 }])
    expect((await part(guest, link, 'bytes=5-')).status).toBe(206)
    await later(1000)
    await replace(asAda, document.id, 'letter.txt', 'Dear Eve, dear Mallory')
    expect(await migrate()).toEqual([{ client: '192.0.2.1', sha256: null }])
  })

  test('410 SHARED_LINK_MAX_VIEWS for an invalid range, which would return the whole file again', async () => {
    const { app, link } = await sharedFile({ max_views: 1 })
    const guest = visitor(app, '192.0.2.1')
    await part(guest, link, 'bytes=0-')
    expect(await codeOf(await part(guest, link, 'bytes=5-1'))).toEqual([410, 'SHARED_LINK_MAX_VIEWS'])
  })

  test('416 RANGE_NOT_SATISFIABLE past the end, which uses no view', async () => {
    const { app, link, linkNow } = await sharedFile()
    expect(await codeOf(await part(visitor(app, '192.0.2.1'), link, 'bytes=100-'))).toEqual([416, 'RANGE_NOT_SATISFIABLE'])
    expect(await linkNow()).toMatchObject({ view_count: 0 })
  })

  test('downloads are forgotten when they no longer matter', async () => {
    const { app, link, later } = await sharedFile()
    await part(visitor(app, '192.0.2.1'), link, 'bytes=0-')
    await later(11 * minute)
    await part(visitor(app, '192.0.2.2'), link, 'bytes=0-')
    expect(await app.db.selectFrom('shared_link_views').select('client').execute()).toEqual([{ client: '192.0.2.2' }])
  })
})
