/** Exports of more documents than memory holds. */
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findExportFiles } from '../../../src/cli/export/find-files.ts'
import { openFolderManifest } from '../../../src/cli/export/folder-manifest.ts'
import type { ManifestEntry } from '../../../src/cli/export/manifest.ts'
import { createClient } from '../../../src/client/client.ts'
import { upload } from '../../support/app.ts'
import { startCli } from '../../support/cli-transports.ts'

test('the first files are found before all documents are listed', async () => {
  let pages = 0
  const client = createClient(async () => {
    const data = Array.from({ length: 100 }, (_, index) => ({ id: `${pages}-${index}`, filename: 'a.txt', size: 1, version: 1 }))
    pages++
    return Response.json({ data, pagination: { total: 5000, next_cursor: pages < 50 ? String(pages) : null } })
  })
  const options = { hasOldVersions: false, rendition: undefined, concurrency: 4, signal: new AbortController().signal }
  const { batches, documentCount, count } = await findExportFiles(client, {}, options)
  expect([documentCount, count, pages]).toEqual([5000, 5000, 1])
  let found = 0
  for await (const batch of batches) {
    if (found === 0) expect(pages).toBeLessThan(15)
    found += batch.length
  }
  expect([found, pages]).toEqual([5000, 50])
})

test('a manifest: earlier lines stay, are replaced or deleted; sorted by id and version; no temporary file is left', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'dms-manifest-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const path = join(folder, 'manifest.jsonl')
  const entry = (id: string, version: number, { isCurrent = true, file = `${id}.txt` } = {}) =>
    ({ id, version, file, ...(isCurrent ? {} : { current: false }) }) as ManifestEntry
  const before = [entry('b', 11), entry('a', 1), entry('c', 1), entry('d', 1, { file: '../etc/passwd' })]
  await writeFile(path, before.map((line) => `${JSON.stringify(line)}\n`).join(''))
  const manifest = await openFolderManifest(folder)
  expect([...manifest.keys()]).toEqual(['b', 'a', 'c'])
  await Promise.all(
    [entry('a', 2, { file: 'é.txt' }), entry('b', 10, { isCurrent: false }), entry('b', 9, { isCurrent: false })].map(manifest.set),
  )
  expect(await manifest.get('a')).toEqual(entry('a', 2, { file: 'é.txt' }))
  manifest.delete('c')
  await manifest.save()
  await manifest.close()
  expect(await readdir(folder)).toEqual(['manifest.jsonl'])
  const lines = (await readFile(path, 'utf8')).trimEnd().split('\n')
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    entry('a', 2, { file: 'é.txt' }),
    entry('b', 9, { isCurrent: false }),
    entry('b', 10, { isCurrent: false }),
    entry('b', 11),
  ])
})

test('1 if a later page of documents fails; --delete-extra deletes nothing then', async () => {
  const { dms, folder, asAda, url } = await startCli('HTTP')
  for (let made = 0; made < 103; made++) await upload(asAda, `${made}.txt`, `bytes ${made}`)
  const to = join(folder, 'mirror')
  expect(await dms(['documents', 'export', '--to', to])).toMatchObject({ code: 0 })
  const before = (await readdir(to)).sort()
  const lines = await readFile(join(to, 'manifest.jsonl'), 'utf8')
  const proxy = createServer(async ({ url: path = '/', headers }, response) => {
    if (path.includes('cursor=')) return void response.writeHead(500).end()
    const answer = await fetch(new URL(path, url), { headers: { authorization: headers.authorization ?? '' } })
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(Buffer.from(await answer.arrayBuffer()))
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  const env = { DMS_URL: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` }
  expect(await dms(['documents', 'export', '--to', to, '--delete-extra'], { env })).toMatchObject({ code: 1, stdout: '' })
  expect((await readdir(to)).sort()).toEqual(before)
  expect(await readFile(join(to, 'manifest.jsonl'), 'utf8')).toBe(lines)
})
