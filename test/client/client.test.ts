import { readdir, readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { type Client, createClient } from '../../src/client/client.ts'
import { allRoutes } from '../../src/server/http/assemble.ts'
import { startApp, upload } from '../support/app.ts'

/** Routes without a method: old names of other routes, and pages for browsers. */
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
  'GET /livez',
]

/** Calls every method. Ids contain characters that must be encoded in a path. */
const file = { filename: 'a.txt', size: 3, open: () => [Buffer.from('abc')] }

test('an upload of a file that cannot be read fails with the error of the file', async () => {
  const { asAda } = await startApp()
  async function* failing() {
    yield Buffer.from('a')
    throw Object.assign(new Error('EIO: i/o error, read'), { code: 'EIO' })
  }
  const upload = { filename: 'a.txt', size: 3, open: failing }
  await expect(asAda.documents.upload(upload)).rejects.toThrow('EIO: i/o error, read')
  await expect(asAda.documents.bulkUpload([file, upload])).rejects.toThrow('EIO: i/o error, read')
  expect(await Array.fromAsync(asAda.documents.list())).toEqual([])
})

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
  'documents.batchGet': ({ documents }) => documents.batchGet(['a'], { withText: true }),
  'documents.known': async ({ documents }) => documents.known(['a']).catch(() => {}),
  'documents.maxUploadSize': async ({ documents }) => documents.maxUploadSize({ owner: 'ada' }).catch(() => {}),
  'documents.update': ({ documents }) => documents.update('a/b', { title: 'B' }, { etag: '"1"' }),
  'documents.delete': ({ documents }) => documents.delete('a/b', { permanent: true }),
  'documents.checkDeletion': ({ documents }) => documents.checkDeletion('a/b', { permanent: true }),
  'documents.undelete': ({ documents }) => documents.undelete('a/b'),
  'documents.replace': ({ documents }) => documents.replace('a/b', file, { etag: '"1"' }),
  'documents.versions': ({ documents }) => documents.versions('a/b'),
  'documents.restore': ({ documents }) => documents.restore('a/b', 1),
  'documents.downloadVersion': ({ documents }) => documents.downloadVersion('a/b', 1),
  'documents.viewVersion': ({ documents }) => documents.viewVersion('a/b', 1),
  'documents.versionText': ({ documents }) => documents.versionText('a/b', 1),
  'documents.deleteVersion': ({ documents }) => documents.deleteVersion('a/b', 1),
  'documents.download': ({ documents }) => documents.download('a/b', { range: 'bytes=0-1' }),
  'documents.view': ({ documents }) => documents.view('a/b'),
  'documents.thumbnail': ({ documents }) => documents.thumbnail('a/b', { width: 50 }),
  'documents.pages': ({ documents }) => documents.pages('a/b'),
  'documents.pageImage': ({ documents }) => documents.pageImage('a/b', 3, { width: '2000' }),
  'documents.text': ({ documents }) => documents.text('a/b'),
  'documents.retryOcr': ({ documents }) => documents.retryOcr('a/b', { priority: 'high' }),
  'documents.renditions': ({ documents }) => documents.renditions('a/b'),
  'documents.makeRendition': ({ documents }) => documents.makeRendition('a/b', 'pdfa'),
  'renditions.status': ({ renditions }) => renditions.status(),
  'renditions.makeMissing': ({ renditions }) => renditions.makeMissing('pdfa'),
  'trash.list': ({ trash }) => Array.fromAsync(trash.list({ owner: 'ada' })),
  'trash.page': ({ trash }) => trash.page({ per_page: 5 }),
  'trash.empty': ({ trash }) => trash.empty({ owner: 'ada' }),
  'trash.checkEmptying': ({ trash }) => trash.checkEmptying({ owner: 'ada' }),
  'holds.list': ({ holds }) => holds.list({ released: 'false' }),
  'holds.get': ({ holds }) => holds.get('a/b'),
  'holds.create': ({ holds }) => holds.create({ name: 'x' }),
  'holds.update': ({ holds }) => holds.update('a/b', { reason: 'y' }),
  'holds.delete': ({ holds }) => holds.delete('a/b'),
  'holds.release': ({ holds }) => holds.release('a/b'),
  'holds.add': ({ holds }) => holds.add('a/b', ['c']),
  'holds.remove': ({ holds }) => holds.remove('a/b', ['c']),
  'holds.removeOne': ({ holds }) => holds.removeOne('a/b', 'c'),
  'holds.report': ({ holds }) => holds.report({ page: 1 }),
  'holds.retained': ({ holds }) => Array.fromAsync(holds.retained({ per_page: 5 })),
  'labels.list': ({ labels }) => labels.list(),
  'labels.create': ({ labels }) => labels.create({ name: 'x', color: '#000000' }),
  'labels.update': ({ labels }) => labels.update('a/b', { name: 'y' }),
  'labels.delete': ({ labels }) => labels.delete('a/b'),
  'labels.assign': ({ labels }) => labels.assign('a/b', ['c']),
  'labels.unassign': ({ labels }) => labels.unassign('a/b', ['c']),
  'search.query': ({ search }) => search.query('words', { filters: { mime_types: ['text/plain'] }, fuzzy: true }),
  'search.advanced': ({ search }) => search.advanced({ query: { must: [{ field: 'title', value: 'x', type: 'exact' }] } }),
  'search.suggest': ({ search }) => search.suggest('wor', 5),
  'search.pending': ({ search }) => search.pending(['a/b']),
  'search.matches': ({ search }) => search.matches('a/b', { q: 'words', boxes: true }),
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
  'sources.planSync': ({ sources }) => sources.planSync('a/b'),
  'sources.sync': ({ sources }) => sources.sync('a/b', { full: true }),
  'sources.syncStatus': ({ sources }) => sources.syncStatus('a/b'),
  'sources.rollback': ({ sources }) => sources.rollback('a/b', { before: '2026-11-20', dry_run: true }),
  'sources.cancelSync': ({ sources }) => sources.cancelSync('a/b'),
  'metrics.system': ({ metrics }) => metrics.system(),
  'metrics.ocr': ({ metrics }) => metrics.ocr(),
  'metrics.prometheus': ({ metrics }) => metrics.prometheus(),
  'health.check': ({ health }) => health.check(),
  'health.oidc': ({ health }) => health.oidc(),
  'health.probe': ({ health }) => health.probe(),
  'health.ready': ({ health }) => health.ready(),
  'health.time': ({ health }) => health.time(),
  'openapi.get': ({ openapi }) => openapi.get(),
  'openapi.page': ({ openapi }) => openapi.page(),
}

test('every route has a method, and every method a route', async () => {
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

test('methods of every domain return the data of the server', async () => {
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

test('the client imports only types from the server', async () => {
  const folder = new URL('../../src/client/', import.meta.url)
  // local.ts is the server in this very process.
  const files = (await readdir(folder, { recursive: true })).filter((name) => name.endsWith('.ts') && name !== 'local.ts')
  const lines = (await Promise.all(files.map((name) => readFile(new URL(name, folder), 'utf8')))).join('\n').split('\n')
  expect(lines.filter((line) => /\bfrom '\.\.\//.test(line) && !/^(?:import|export) type /.test(line))).toEqual([])
})
