import { mkdir, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startApp } from './support/app.ts'

/** A dms with a folder that it may read, and a source of that folder. */
async function start(fields: Record<string, unknown> = {}) {
  const root = await realpath(await mkdtemp(join(tmpdir(), 'dms-source-')))
  onTestFinished(() => rm(root, { recursive: true, force: true }))
  const dms = await startApp({ 'sources.local_roots': root, 'ocr.enabled': false })
  const source = await dms.asAdmin.sources.create({ name: 'Share', type: 'local_folder', url: root, ...fields })
  return {
    ...dms,
    root,
    source,
    put: async (path: string, bytes: string | Uint8Array) => {
      await mkdir(dirname(join(root, path)), { recursive: true })
      await writeFile(join(root, path), bytes)
    },
    /** syncs it; how that ended */
    sync: async (options = {}) => {
      await dms.asAdmin.sources.sync(source.id, options)
      await dms.runJobs(['sync'])
      return dms.asAdmin.sources.syncStatus(source.id)
    },
    documents: async () => {
      const all = await Array.fromAsync(dms.asAdmin.documents.list({ source_id: source.id }))
      return new Map(all.map((document) => [document.source_path ?? '', document]))
    },
  }
}

test('files of a folder become documents', async () => {
  const { put, sync, documents } = await start()
  await put('a.txt', 'alpha')
  await put('sub/b.txt', 'beta')
  expect(await sync()).toMatchObject({ state: 'completed', total: 2, processed: 2, created: 2, failed: 0, bytes: 9 })
  expect([...(await documents()).keys()].sort()).toEqual(['a.txt', 'sub/b.txt'])
  expect(await sync()).toMatchObject({ state: 'completed', created: 0, unchanged: 2, bytes: 0 })
})
