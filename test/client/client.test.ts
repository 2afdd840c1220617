import { readdir, readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { type Client, createClient } from '../../src/client/client.ts'
import { allRoutes } from '../../src/server/http/assemble.ts'
import { startApp, upload } from '../support/app.ts'

const busy = (status: number, headers: Record<string, string> = {}) =>
  Response.json({ error: { code: status === 429 ? 'RATE_LIMITED' : 'SERVICE_UNAVAILABLE', message: 'later' } }, { status, headers })

/** A client of a server that gives these answers, one after the other (of the last one as many as it is asked for); what it was sent, and the pauses made. */
function clientOf(...answers: (() => Response)[]) {
  const bodies: string[] = []
  const pauses: number[] = []
  const client = createClient(
    async (request) => {
      bodies.push(await request.text())
      const answer = answers.length > 1 ? answers.shift() : answers[0]
      return (answer as () => Response)()
    },
    {
      pause: async (seconds) => {
        pauses.push(seconds)
      },
    },
  )
  return { client, bodies, pauses }
}

const created = () => Response.json({ id: 'x' }, { status: 201 })
const file = { filename: 'a.txt', size: 3, open: () => [Buffer.from('abc')] }

test('429 and 503 are asked again after the pause that the server names, the file being sent anew', async () => {
  const { client, bodies, pauses } = clientOf(
    () => busy(429, { 'retry-after': '12' }),
    () => busy(503),
    created,
  )
  expect(await client.documents.upload(file)).toMatchObject({ id: 'x', created: true })
  expect(pauses).toEqual([12, 5])
  expect(bodies.map((body) => body.includes('abc'))).toEqual([true, true, true])
})

test('429 is the answer once five minutes were waited in all, at once for a longer pause, and at once for what can be sent only once', async () => {
  const patient = clientOf(() => busy(429, { 'retry-after': '100' }))
  await expect(patient.client.documents.get('x')).rejects.toMatchObject({ status: 429, code: 'RATE_LIMITED' })
  expect(patient.pauses).toEqual([100, 100, 100])
  const long = clientOf(() => busy(429, { 'retry-after': '900' }))
  await expect(long.client.documents.get('x')).rejects.toMatchObject({ status: 429 })
  expect(long.pauses).toEqual([])
  const pipe = clientOf(() => busy(503))
  await expect(pipe.client.documents.upload({ ...file, size: null })).rejects.toMatchObject({ status: 503 })
  expect(pipe.pauses).toEqual([])
})

test('other answers are never asked for again', async () => {
  const { client, bodies, pauses } = clientOf(() => busy(500, { 'retry-after': '1' }))
  await expect(client.documents.get('x')).rejects.toMatchObject({ status: 500 })
  expect([bodies.length, pauses.length]).toEqual([1, 0])
})

/** What no method is for: the same thing under the name that older clients know, and what only browsers go to. */
const aliases = [
  'GET /api/auth/oidc/login',
  'GET /api/auth/oidc/callback',
  'GET /api/auth/me',
  'POST /api/documents',
  'POST /api/documents/:id/ocr/retry',
  'GET /api/labels/documents/:id',
  'PUT /api/labels/documents/:id',
  'PUT /api/notifications/read/all',
  'POST /api/notifications/read/all',
  'POST /api/notifications/:id/read',
  'POST /api/shared/links',
  'GET /api/shared/links',
  'GET /api/sources/:id/sync/status',
  'GET /api/shared/links/document/:document_id',
  'DELETE /api/shared/links/:id',
]

/** Every method, called; ids need signs that a path must not take as its own. */
const calls: Record<string, (client: Client) => unknown> = {
  'auth.login': ({ auth }) => auth.login('ada', 'secret'),
  'auth.register': ({ auth }) => auth.register({ username: 'ada', email: 'ada@example.org', password: 'secret' }),
  'auth.logout': ({ auth }) => auth.logout(),
  'auth.refresh': ({ auth }) => auth.refresh('old'),
  'auth.verifyEmail': ({ auth }) => auth.verifyEmail('a'.repeat(43)),
  'auth.resendVerification': ({ auth }) => auth.resendVerification('ada@example.org'),
  'auth.exchange': ({ auth }) => auth.exchange('code', 'a'.repeat(43)),
  'auth.profile': ({ auth }) => auth.profile(),
  'auth.updateProfile': ({ auth }) => auth.updateProfile({ display_name: 'Ada' }),
  'auth.changePassword': ({ auth }) => auth.changePassword('old', 'new'),
  'audit.all': ({ audit }) => Array.fromAsync(audit.all({ outcome: 'refused' })),
  'audit.list': ({ audit }) => audit.list({ outcome: 'refused' }),
  'audit.verify': ({ audit }) => audit.verify({ seq: 1, hash: 'a'.repeat(64) }),
  'tokens.list': ({ tokens }) => tokens.list({ user: 'ada' }),
  'tokens.get': ({ tokens }) => tokens.get('a/b'),
  'tokens.create': ({ tokens }) => tokens.create({ name: 'scanner', scopes: ['upload'] }),
  'tokens.revoke': ({ tokens }) => tokens.revoke('a/b'),
  'users.list': ({ users }) => Array.fromAsync(users.list({ q: 'a' })),
  'users.page': ({ users }) => users.page({ page: 2 }),
  'users.get': ({ users }) => users.get('a/b'),
  'users.create': ({ users }) => users.create({ username: 'bob', email: 'bob@example.org', password: 'secret' }),
  'users.update': ({ users }) => users.update('a/b', { role: 'admin' }),
  'users.delete': ({ users }) => users.delete('a/b', { documents: 'transfer', to: 'ada' }),
  'users.import': ({ users }) => users.import([], { dry_run: true }),
  'users.groups': ({ users }) => users.groups('ada@example.org'),
  'documents.get': ({ documents }) => documents.get('a/b'),
  'documents.getWithEtag': ({ documents }) => documents.getWithEtag('a/b'),
  'documents.list': ({ documents }) => Array.fromAsync(documents.list({ status: 'failed' })),
  'documents.page': ({ documents }) => documents.page({ per_page: 5 }),
  'documents.upload': ({ documents }) => documents.upload(file, { title: 'A' }),
  'documents.bulkUpload': ({ documents }) => documents.bulkUpload([file, file], { labels: 'x' }),
  'documents.known': async ({ documents }) => documents.known(['a']).catch(() => {}),
  'documents.update': ({ documents }) => documents.update('a/b', { title: 'B' }, { etag: '"1"' }),
  'documents.delete': ({ documents }) => documents.delete('a/b'),
  'documents.download': ({ documents }) => documents.download('a/b', { range: 'bytes=0-1' }),
  'documents.view': ({ documents }) => documents.view('a/b'),
  'documents.thumbnail': ({ documents }) => documents.thumbnail('a/b', { width: 50 }),
  'documents.pages': ({ documents }) => documents.pages('a/b'),
  'documents.text': ({ documents }) => documents.text('a/b'),
  'documents.retryOcr': ({ documents }) => documents.retryOcr('a/b', { priority: 'high' }),
  'labels.list': ({ labels }) => labels.list(),
  'labels.create': ({ labels }) => labels.create({ name: 'x', color: '#000000' }),
  'labels.update': ({ labels }) => labels.update('a/b', { name: 'y' }),
  'labels.delete': ({ labels }) => labels.delete('a/b'),
  'labels.assign': ({ labels }) => labels.assign('a/b', ['c']),
  'labels.unassign': ({ labels }) => labels.unassign('a/b', ['c']),
  'search.query': ({ search }) => search.query('words', { filters: { mime_types: ['text/plain'] }, fuzzy: true }),
  'search.advanced': ({ search }) => search.advanced({ query: { must: [{ field: 'title', value: 'x', type: 'exact' }] } }),
  'search.suggest': ({ search }) => search.suggest('wor', 5),
  'search.similar': ({ search }) => search.similar('a/b', 5),
  'ocrQueue.status': ({ ocrQueue }) => ocrQueue.status(),
  'ocrQueue.list': ({ ocrQueue }) => Array.fromAsync(ocrQueue.list({ priority: 'high' })),
  'ocrQueue.page': ({ ocrQueue }) => ocrQueue.page(),
  'ocrQueue.get': ({ ocrQueue }) => ocrQueue.get('a/b'),
  'ocrQueue.prioritise': ({ ocrQueue }) => ocrQueue.prioritise('a/b', 'low'),
  'ocrQueue.cancel': ({ ocrQueue }) => ocrQueue.cancel('a/b'),
  'ocrQueue.retry': ({ ocrQueue }) => ocrQueue.retry({ status: 'failed' }),
  'ocrQueue.pause': ({ ocrQueue }) => ocrQueue.pause(),
  'ocrQueue.resume': ({ ocrQueue }) => ocrQueue.resume(),
  'ocrQueue.recover': ({ ocrQueue }) => ocrQueue.recover(),
  'ocrQueue.languages': ({ ocrQueue }) => ocrQueue.languages(),
  'comments.all': ({ comments }) => Array.fromAsync(comments.all('a/b')),
  'comments.allReplies': ({ comments }) => Array.fromAsync(comments.allReplies('a/b', 'c')),
  'comments.list': ({ comments }) => comments.list('a/b', { limit: 5 }),
  'comments.replies': ({ comments }) => comments.replies('a/b', 'c', { offset: 5 }),
  'comments.count': ({ comments }) => comments.count('a/b'),
  'comments.create': ({ comments }) => comments.create('a/b', { content: 'x' }),
  'comments.update': ({ comments }) => comments.update('a/b', 'c', 'y'),
  'comments.delete': ({ comments }) => comments.delete('a/b', 'c'),
  'sharedLinks.create': ({ sharedLinks }) => sharedLinks.create({ document_id: 'x', max_views: 1 }),
  'sharedLinks.list': ({ sharedLinks }) => Array.fromAsync(sharedLinks.list()),
  'sharedLinks.page': ({ sharedLinks }) => sharedLinks.page({ page: 1 }),
  'sharedLinks.listOf': ({ sharedLinks }) => Array.fromAsync(sharedLinks.listOf('a/b')),
  'sharedLinks.revoke': ({ sharedLinks }) => sharedLinks.revoke('a/b'),
  'publicLinks.get': ({ publicLinks }) => publicLinks.get('a/b'),
  'publicLinks.verify': ({ publicLinks }) => publicLinks.verify('a/b', 'secret'),
  'publicLinks.download': ({ publicLinks }) => publicLinks.download('a/b', 'secret'),
  'publicLinks.view': ({ publicLinks }) => publicLinks.view('a/b'),
  'notifications.list': ({ notifications }) => Array.fromAsync(notifications.list({ unread_only: true })),
  'notifications.page': ({ notifications }) => notifications.page(),
  'notifications.read': ({ notifications }) => notifications.read('a/b'),
  'notifications.readAll': ({ notifications }) => notifications.readAll(),
  'notifications.delete': ({ notifications }) => notifications.delete('a/b'),
  'settings.get': ({ settings }) => settings.get(),
  'settings.update': ({ settings }) => settings.update({ theme: 'dark' }),
  'sources.list': ({ sources }) => sources.list(),
  'sources.get': ({ sources }) => sources.get('a/b'),
  'sources.create': ({ sources }) => sources.create({ name: 'x', type: 'webdav', url: 'https://dav.example.org' }),
  'sources.update': ({ sources }) => sources.update('a/b', { name: 'y' }),
  'sources.delete': ({ sources }) => sources.delete('a/b', { documents: 'delete' }),
  'sources.test': ({ sources }) => sources.test('a/b'),
  'sources.testAddress': ({ sources }) => sources.testAddress({ type: 'webdav', url: 'https://dav.example.org' }),
  'sources.sync': ({ sources }) => sources.sync('a/b', { full: true }),
  'sources.syncStatus': ({ sources }) => sources.syncStatus('a/b'),
  'sources.cancelSync': ({ sources }) => sources.cancelSync('a/b'),
  'metrics.system': ({ metrics }) => metrics.system(),
  'metrics.ocr': ({ metrics }) => metrics.ocr(),
  'metrics.prometheus': ({ metrics }) => metrics.prometheus(),
  'health.check': ({ health }) => health.check(),
  'health.oidc': ({ health }) => health.oidc(),
  'health.probe': ({ health }) => health.probe(),
  'health.ready': ({ health }) => health.ready(),
  'openapi.get': ({ openapi }) => openapi.get(),
  'openapi.page': ({ openapi }) => openapi.page(),
}

test('every route has its method, and every method a route', async () => {
  const { app } = await startApp()
  const routes = allRoutes(app).map(({ method, path }) => ({
    name: `${method} ${path}`,
    method,
    path,
    pattern: new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/:\w+/g, '[^/]+')}$`),
  }))
  const reached = new Map<string, string>()
  for (const [name, ask] of Object.entries(calls)) {
    const client = createClient(async ({ method, url }) => {
      const { pathname } = new URL(url)
      const found = routes.filter((route) => route.method === method && route.pattern.test(pathname))
      const route = found.find(({ path }) => path === pathname) ?? found[0]
      reached.set(name, route?.name ?? `${method} ${pathname}, which is no route`)
      return Response.json({ pagination: { has_next: false }, checks: {} })
    })
    await ask(client)
  }
  const client = createClient(async () => Response.json({}))
  const methods = Object.entries(client).flatMap(([domain, value]) =>
    typeof value === 'function' ? [] : Object.keys(value as object).map((name) => `${domain}.${name}`),
  )
  expect(Object.keys(calls).sort()).toEqual(methods.sort())
  expect([...new Set([...reached.values(), ...aliases])].sort()).toEqual(routes.map(({ name }) => name).sort())
  expect([...reached.values()].filter((name) => aliases.includes(name))).toEqual([])
})

test('what the methods answer is what the server has, of every domain', async () => {
  const { asAda, asAdmin, asStranger, ada } = await startApp()
  const document = await upload(asAda, 'letter.txt', 'Dear Bob')
  const label = await asAda.labels.create({ name: 'post', color: '#aabbcc' })
  expect(await asAda.labels.assign(label.id, [document.id])).toMatchObject({ assigned: 1 })
  expect((await asAda.labels.list()).find(({ id }) => id === label.id)).toMatchObject({ name: 'post', document_count: 1 })
  const { etag } = await asAda.documents.getWithEtag(document.id)
  expect(await asAda.documents.update(document.id, { title: 'A letter' }, { etag })).toMatchObject({ title: 'A letter', labels: ['post'] })
  await expect(asAda.documents.update(document.id, { title: 'No' }, { etag })).rejects.toMatchObject({ code: 'PRECONDITION_FAILED' })
  expect(await (await asAda.documents.download(document.id, { range: 'bytes=5-' })).text()).toBe('Bob')
  const comment = await asAda.comments.create(document.id, { content: 'first' })
  await asAda.comments.create(document.id, { content: 'second', parent_id: comment.id })
  expect((await asAda.comments.list(document.id)).comments).toMatchObject([{ content: 'first', replies: [{ content: 'second' }] }])
  expect(await asAda.comments.count(document.id)).toBe(2)
  const link = await asAda.sharedLinks.create({ document_id: document.id, password: 'open', max_views: 1 })
  expect(await asStranger.publicLinks.get(link.token)).toMatchObject({ filename: 'letter.txt', requires_password: true })
  expect(await asStranger.publicLinks.verify(link.token, 'shut')).toBe(false)
  expect(await (await asStranger.publicLinks.download(link.token, 'open')).text()).toBe('Dear Bob')
  expect(await Array.fromAsync(asAda.sharedLinks.listOf(document.id))).toMatchObject([{ id: link.id, view_count: 1 }])
  expect(await Array.fromAsync(asAda.notifications.list())).toMatchObject([{ type: 'shared_link_exhausted', read: false }])
  expect(await asAda.notifications.readAll()).toEqual({ updated: 1 })
  expect(await asAda.settings.update({ theme: 'dark' })).toMatchObject({ theme: 'dark' })
  expect((await asAdmin.users.page({ q: 'ada' })).data).toMatchObject([{ id: ada.id }])
  expect(await asStranger.health.ready()).toMatchObject({ status: 'degraded', checks: { database: 'ok', worker: 'fail' } })
  await expect(asStranger.auth.profile()).rejects.toMatchObject({ status: 401, code: 'UNAUTHORIZED' })
})

test('the client loads nothing of the server: from the domains it takes types only', async () => {
  const folder = new URL('../../src/client/', import.meta.url)
  // local.ts is the server in this very process.
  const files = (await readdir(folder)).filter((name) => name !== 'local.ts')
  const lines = (await Promise.all(files.map((name) => readFile(new URL(name, folder), 'utf8')))).join('\n').split('\n')
  expect(lines.filter((line) => /\bfrom '\.\.\//.test(line) && !/^(?:import|export) type /.test(line))).toEqual([])
})

const lost = (code: string) => () => {
  throw Object.assign(new Error(code), { code })
}
const answer = () => Response.json({ id: 'x' })

test('a server that was not reached is tried again at growing distances, four times', async () => {
  const { client, pauses } = clientOf(lost('ECONNREFUSED'))
  await expect(client.labels.create({ name: 'a', color: '#123456' })).rejects.toMatchObject({ code: 'ECONNREFUSED' })
  expect(pauses).toEqual([0.25, 0.5, 1, 2])
})

test('what broke on its way is sent again only where it does no harm to be done twice', async () => {
  const reading = clientOf(lost('ECONNRESET'), answer)
  expect(await reading.client.documents.get('x')).toEqual({ id: 'x' })
  const making = clientOf(lost('ECONNRESET'), answer)
  await expect(making.client.labels.create({ name: 'a', color: '#123456' })).rejects.toMatchObject({ code: 'ECONNRESET' })
  const uploading = clientOf(lost('ECONNRESET'), created)
  await expect(uploading.client.documents.upload(file)).rejects.toMatchObject({ code: 'ECONNRESET' })
  const keyed = clientOf(lost('UND_ERR_SOCKET'), created)
  expect(await keyed.client.documents.upload(file, { idempotencyKey: 'k' })).toMatchObject({ id: 'x' })
  expect(keyed.bodies.map((body) => body.includes('abc'))).toEqual([true, true])
  const wrong = clientOf(lost('DEPTH_ZERO_SELF_SIGNED_CERT'))
  await expect(wrong.client.documents.get('x')).rejects.toMatchObject({ code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
  expect([making, uploading, wrong].map(({ pauses }) => pauses)).toEqual([[], [], []])
})

test('a refused token is exchanged once; the missing password of a link is no refused token', async () => {
  const refusal = (code: string) => Response.json({ error: { code, message: 'no' } }, { status: 401 })
  const seen: (string | null)[] = []
  const asked: (string | null)[] = []
  const client = (code: string) =>
    createClient(
      async ({ headers }) => {
        seen.push(headers.get('authorization'))
        return refusal(code)
      },
      {
        token: async () => 'old',
        renew: async (refused) => {
          asked.push(refused)
          return 'new'
        },
      },
    )
  await expect(client('UNAUTHORIZED').documents.get('x')).rejects.toMatchObject({ status: 401 })
  expect([seen, asked]).toEqual([['Bearer old', 'Bearer new'], ['old']])
  await expect(client('SHARED_LINK_PASSWORD_REQUIRED').documents.get('x')).rejects.toMatchObject({ code: 'SHARED_LINK_PASSWORD_REQUIRED' })
  await expect(client('UNAUTHORIZED').auth.login('ada', 'wrong')).rejects.toMatchObject({ status: 401 })
  expect(asked).toEqual(['old'])
})

test('a path that leads to another server is refused before anything is sent', async () => {
  const { client, bodies } = clientOf(answer)
  for (const path of ['//elsewhere.example/api', 'https://elsewhere.example/api', '/\\elsewhere.example/api'])
    await expect(client.send('GET', path)).rejects.toThrow('is not a path of')
  expect(bodies).toEqual([])
})
