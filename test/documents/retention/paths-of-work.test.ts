/** Every job kind, maintenance step and recurring task against documents under retention and under hold. */
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { expect, onTestFinished, test, vi } from 'vitest'
import { moveToTrash } from '../../../src/documents/trash/trash.ts'
import * as jobs from '../../../src/jobs/queue.ts'
import { allSteps, maintain } from '../../../src/worker/maintenance.ts'
import { startSchedule } from '../../../src/worker/schedule.ts'
import { startApp, upload } from '../../support/app.ts'
import { protections, trackProtectedDocuments } from '../../support/protected-documents.ts'

vi.setConfig({ testTimeout: 300_000 })

interface Target {
  id: string
  owner_id: string
  sha256: string
  source_id: string | null
  label_id: string
}

/** The payload of each job kind with a document. The compiler reports a missing kind. */
const payloads: { [K in jobs.Kind]: (target: Target) => jobs.Payloads[K] } = {
  ocr: () => ({ language: 'eng' }),
  extract: () => ({ language: 'eng' }),
  pages: () => ({ language: 'eng' }),
  rendition: () => ({ number: 1, kind: 'pdfa' }),
  index: ({ id }) => ({ document_id: id }),
  reindex: () => ({ anew: true }),
  verify_email: ({ owner_id }) => ({ user_id: owner_id }),
  purge: ({ sha256 }) => ({ sha256 }),
  retain: ({ label_id }) => ({ label_id, days: 1, owner_id: null }),
  sync: ({ source_id }) => ({ source_id: source_id ?? randomUUID(), full: true }),
}

test('no job, maintenance step or recurring task destroys a document under retention or hold', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'dms-protected-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const { app, asAda, asAdmin, ada, later, runJobs } = await startApp({
    'sources.local_roots': folder,
    'documents.trash_days': 1,
    'documents.keep_versions': 1,
    'documents.version_days': 1,
  })
  app.log.level = 'silent'
  const protectedDocuments = trackProtectedDocuments(app)
  for (const name of ['removed', 'changed', 'left']) await writeFile(join(folder, `${name}.txt`), name)
  const source = await asAdmin.sources.create({ name: 'folder', type: 'local_folder', url: folder, sync_interval: 0, owner: ada.id })
  await asAdmin.sources.sync(source.id)
  const label = await asAda.labels.create({ name: 'label', color: '#112233' })
  const replaced: string[] = []
  for (const name of ['live', 'replaced', 'trashed'])
    for (const how of protections) {
      const { id } = await upload(asAda, `${name}.txt`, `${name} ${how}`, { labels: label.id })
      if (name === 'live') continue
      const bytes = Buffer.from(`second ${name} ${how}`)
      await asAda.documents.replace(id, { filename: 'second.txt', size: bytes.length, open: () => [bytes] })
      replaced.push(id)
    }
  await runJobs()
  const { rows: targets } = await sql<Target>`select id, owner_id, sha256, source_id, ${label.id} as label_id from documents`.execute(
    app.db,
  )
  expect(targets).toHaveLength(9)
  for (const [index, { id }] of targets.entries()) await protectedDocuments.protect(id, protections[index % 2]!)
  await app.db.transaction().execute((trx) => moveToTrash(app, trx, ada.id, replaced.slice(2)))
  await rm(join(folder, 'removed.txt'))
  await writeFile(join(folder, 'changed.txt'), 'other bytes')

  await later(400 * 86_400_000)
  for (const kind of Object.keys(payloads) as jobs.Kind[]) {
    await app.db.transaction().execute(async (trx) => {
      for (const target of targets) await jobs.enqueue(trx, kind, payloads[kind](target) as never, { documentId: target.id })
    })
    await runJobs()
    expect(await protectedDocuments.listDestroyed(), kind).toEqual([])
  }
  for (const step of allSteps) {
    await maintain(app, [step])
    expect(await protectedDocuments.listDestroyed(), step).toEqual([])
  }
  await startSchedule(app).stop(60_000)
  await runJobs()
  expect(await protectedDocuments.listDamaged()).toEqual([])
  const { rows } = await sql<{ count: number }>`select count(*)::int as count from document_versions`.execute(app.db)
  expect(rows[0]?.count).toBeGreaterThanOrEqual(targets.length + replaced.length)
})
