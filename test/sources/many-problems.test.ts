/** Sources with more problems than a sync records one by one. */
import { writeFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { startSynced } from '../support/data/synced-source.ts'
import { startLying } from '../support/servers/lying-server.ts'

const many = Array.from({ length: 1001 }, (_, at) => at)

/** An entry of a WebDAV list; a folder of ownCloud if it ends with a slash. */
function entry(href: string, { etag = '1', status = 200 } = {}): string {
  const own = href.endsWith('/')
    ? '<d:resourcetype><d:collection/></d:resourcetype><oc:id>1</oc:id><oc:permissions>RG</oc:permissions>'
    : ''
  const prop = `${own}<d:getetag>"${etag}"</d:getetag>`
  return `<d:response><d:href>${href}</d:href><d:propstat><d:prop>${prop}</d:prop><d:status>HTTP/1.1 ${status} ?</d:status></d:propstat></d:response>`
}

/** Starts a dms with a WebDAV source that lists what `list` returns for a folder; null: it refuses. */
async function startShare(list: (folder: string) => string[] | null) {
  const share = await startLying('/', (request, response) => {
    const path = request.url ?? '/'
    if (request.method === 'GET') return response.end(`bytes of ${path}`)
    const entries = list(path)
    if (entries === null) return response.writeHead(404).end()
    response.writeHead(207, { 'content-type': 'application/xml' })
    response.end(`<d:multistatus xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns">${entries.join('')}</d:multistatus>`)
  })
  const { asAda, runJobs } = await startApp({ 'ocr.enabled': false })
  const { id } = await asAda.sources.create({ name: 'Cloud', type: 'webdav', url: share.url, sync_interval: 0 })
  return async () => {
    await asAda.sources.sync(id)
    await runJobs(['sync'])
    return asAda.sources.syncStatus(id)
  }
}

test('more than 1,000 names that are not text: a file that is gone is still marked as removed', async () => {
  const { root, fill, remove, sync } = await startSynced()
  await fill(['a.txt', 'b.txt'])
  for (const at of many) await writeFile(Buffer.concat([Buffer.from(`${root}/${at}-`), Buffer.from([0xff])]), 'bytes')
  expect(await sync()).toMatchObject({ created: 2, failed: 1001 })
  await remove(['b.txt'])
  expect(await sync()).toMatchObject({ unchanged: 1, failed: 1001, removed: 1 })
})

test('more than 1,000 folders of a Nextcloud that cannot be listed are tried again by the next sync, though no ETag has changed', async () => {
  let isRefused = true
  const sync = await startShare((folder) => {
    if (folder === '/') return [entry('/'), entry('/in/')]
    if (folder === '/in/') return [entry('/in/'), entry('/in/a.txt'), ...many.map((at) => entry(`/in/${at}/`))]
    if (isRefused) return null
    return [entry(folder), ...(folder === '/in/7/' ? [entry('/in/7/b.txt')] : [])]
  })
  expect(await sync()).toMatchObject({ state: 'completed', created: 1, failed: 1001 })
  isRefused = false
  expect(await sync()).toMatchObject({ state: 'completed', created: 1, failed: 0 })
})

test('a folder with more than 1,000 entries that have another status than 200: a known file among the last is not marked as removed', async () => {
  const good = many.slice(0, 30).map((at) => entry(`/${at}.txt`))
  let isRefused = false
  const sync = await startShare(() => {
    const refused = isRefused ? many.map((at) => entry(`/new-${at}.txt`, { status: 403 })) : []
    return [entry('/', { etag: String(isRefused) }), ...good, ...refused, entry('/z.txt', { status: isRefused ? 403 : 200 })]
  })
  expect(await sync()).toMatchObject({ created: 31 })
  isRefused = true
  expect(await sync()).toMatchObject({ state: 'completed', unchanged: 30, removed: 0, failed: 1001 })
})
