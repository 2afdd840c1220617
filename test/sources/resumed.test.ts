/** Syncs that were interrupted and go on in another turn, which lists the source again. */
import { rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, test } from 'vitest'
import type { App } from '../../src/app.ts'
import type { Job } from '../../src/jobs/queue.ts'
import { sync } from '../../src/sources/sync/sync-job.ts'
import { startApp } from '../support/app.ts'
import { startSynced } from '../support/data/synced-source.ts'
import { startLying } from '../support/servers/lying-server.ts'

/** Returns a function that runs the turns of one sync. Each turn ends as if its process were killed just before it records the end. */
async function turns(app: App, source_id: string) {
  const { rows } = await sql<{ id: string }>`select dms_uuidv7() as id`.execute(app.db)
  const job = { id: rows[0]!.id, kind: 'sync', payload: { source_id, full: false } } as Job<'sync'>
  return async () => {
    await sync.run(app, job, new AbortController().signal)
    const { rows: runs } = await sql<{ created: number; updated: number; unchanged: number; removed: number; failed: number }>`
      update source_syncs set state = 'running' where id = ${job.id} returning created, updated, unchanged, removed, failed`.execute(app.db)
    return runs[0]
  }
}

test('a sync that goes on sees what has changed since its first turn, and counts no file twice', async () => {
  const { app, source, root, fill, put, documents } = await startSynced()
  await fill(['same.txt', 'changed.txt', 'gone.txt', 'in/old.txt'])
  const turn = await turns(app, source.id)
  expect(await turn()).toEqual({ created: 4, updated: 0, unchanged: 0, removed: 0, failed: 0 })
  const before = await documents()
  await put('changed.txt', 'other bytes')
  await rm(join(root, 'gone.txt'))
  await rename(join(root, 'in/old.txt'), join(root, 'in/new.txt'))
  expect(await turn()).toEqual({ created: 4, updated: 2, unchanged: 0, removed: 1, failed: 0 })
  const after = await documents()
  expect(after.get('changed.txt')?.sha256).not.toBe(before.get('changed.txt')?.sha256)
  expect(after.get('gone.txt')?.metadata).toHaveProperty('source_removed_at')
  expect(after.get('in/new.txt')?.id).toBe(before.get('in/old.txt')?.id)
  expect(after.size).toBe(4)
  expect(await turn()).toEqual({ created: 4, updated: 2, unchanged: 0, removed: 1, failed: 0 })
})

test('a sync that goes on fetches new files while it lists: the files of its earlier turns count as known and unchanged', async () => {
  const { app, asAda } = await startApp({ 'ocr.enabled': false })
  const entry = (href: string) =>
    `<D:response><D:href>${href}</D:href><D:propstat><D:prop><D:resourcetype>${href.endsWith('/') ? '<D:collection/>' : ''}</D:resourcetype>` +
    `<D:getetag>"1"</D:getetag></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>`
  let isSecondTurn = false
  let isFetched = (_: unknown) => {}
  const fetched = new Promise((resolve) => {
    isFetched = resolve
  })
  const order: string[] = []
  // Four folders in each other, 20 files in each: in the second turn the first has a new file, and the last is listed after that was fetched.
  const share = await startLying('/', async (request, response) => {
    const path = request.url ?? '/'
    if (request.method === 'GET') {
      if (path === '/new.txt') isFetched(order.push('fetched'))
      return void response.end(`bytes of ${path}`)
    }
    const depth = path.split('next').length - 1
    const files = Array.from({ length: 20 }, (_, at) => `${path}${at}.txt`)
    const added = isSecondTurn && depth === 0 ? ['/new.txt'] : []
    const hrefs = [path, ...files, ...added, ...(depth < 3 ? [`${path}next/`] : [])]
    // Batches are compared after a second.
    if (isSecondTurn && depth === 2) await new Promise((resolve) => setTimeout(resolve, 1200))
    if (isSecondTurn && depth === 3) await Promise.race([fetched, new Promise((resolve) => setTimeout(resolve, 20_000))])
    if (isSecondTurn && depth === 3) order.push('listed')
    response.writeHead(207, { 'content-type': 'application/xml' })
    response.end(`<D:multistatus xmlns:D="DAV:">${hrefs.map(entry).join('')}</D:multistatus>`)
  })
  const { id } = await asAda.sources.create({ name: 'Share', type: 'webdav', url: share.url, sync_interval: 0 })
  const turn = await turns(app, id)
  expect(await turn()).toMatchObject({ created: 80 })
  isSecondTurn = true
  expect(await turn()).toMatchObject({ created: 81, unchanged: 0, removed: 0, failed: 0 })
  expect(order).toEqual(['fetched', 'listed'])
})
