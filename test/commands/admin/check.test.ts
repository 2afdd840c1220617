import { mkdir, readFile, stat, utimes, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { type CheckName, check, checks, type Finding } from '../../../src/check/check.ts'
import { withLock } from '../../../src/db/lock.ts'
import { addressOf } from '../../../src/documents/stored-files.ts'
import { startApp, upload } from '../../support/app.ts'
import { copyUnindexed, dms, folder, here } from '../../support/places.ts'
import { storeFiles } from '../../support/servers/server.ts'
import { storedPath } from '../../support/stored-path.ts'

type Started = Awaited<ReturnType<typeof startApp>>

/** Runs the given checks (default: all) and returns the findings. */
async function findings({ app }: Started, { only, repair = false }: { only?: CheckName; repair?: boolean } = {}): Promise<Finding[]> {
  const found: Finding[] = []
  const names = only ? [only] : (Object.keys(checks) as CheckName[])
  const signal = new AbortController().signal
  await check(app, { only: names, repair, sample: 1, signal, onProgress() {} }, (finding) => found.push(finding))
  return found
}

async function readDocument(started: Started, text = 'The harbour is closed') {
  const document = await upload(started.asAda, 'note.txt', text)
  await started.runJobs()
  const { sha256 } = await started.app.db.selectFrom('documents').select('sha256').where('id', '=', document.id).executeTakeFirstOrThrow()
  return { id: document.id, sha256, path: await storedPath(started.app, sha256) }
}

test('check finds nothing in an intact installation', async () => {
  const started = await startApp()
  await readDocument(started)
  await upload(started.asBob, 'waiting.txt', 'not read yet')
  expect(await findings(started)).toEqual([])
})

test('a missing, truncated or changed stored file is reported with all its documents and left untouched', async () => {
  const started = await startApp()
  const { id } = await readDocument(started)
  const twin = await upload(started.asBob, 'same.txt', 'The harbour is closed')
  await started.runJobs()
  const { sha256 } = await started.asAda.documents.get(id)
  const whole = { id, sha256, path: await storedPath(started.app, sha256) }
  const bytes = await readFile(whole.path)
  await writeFile(whole.path, `X${bytes.toString().slice(1)}`)
  expect(await findings(started, { repair: true })).toEqual(
    [whole.id, twin.id].sort().map((document_id) => ({
      check: 'checksums',
      severity: 'error',
      message: expect.stringContaining('corrupt'),
      document_id,
      version: 1,
      sha256: whole.sha256,
      path: whole.path,
      expected: whole.sha256,
      actual: expect.stringMatching(/^[0-9a-f]{64}$/),
      repaired: null,
    })),
  )
  expect((await readFile(whole.path)).toString()).toMatch(/^X/)
  await writeFile(whole.path, bytes.subarray(1))
  expect(await findings(started, { only: 'files' })).toContainEqual(
    expect.objectContaining({ document_id: whole.id, expected: 21, actual: 20 }),
  )
  await started.app.files.remove(await addressOf(started.app.db, whole.sha256))
  expect(await findings(started, { only: 'files' })).toContainEqual(
    expect.objectContaining({ document_id: whole.id, message: expect.stringContaining('missing') }),
  )
  await mkdir(whole.path)
  expect((await findings(started, { only: 'files' })).map(({ document_id }) => document_id)).toContain(whole.id)
})

test('--repair quarantines an orphaned file and ignores a recent one, which may belong to an upload', async () => {
  const started = await startApp()
  await readDocument(started)
  const orphan = 'ab'.repeat(32)
  const path = join(started.dataDir, 'files', 'ab', 'ab', orphan)
  await mkdir(dirname(path), { recursive: true })
  await writeFile(path, 'whose is this?')
  expect(await findings(started)).toEqual([])
  await utimes(path, new Date(0), new Date(0))
  expect(await findings(started)).toMatchObject([{ check: 'orphans', severity: 'warning', sha256: orphan, repaired: null }])
  const place = join(started.dataDir, 'files', '.quarantine', orphan)
  expect(await findings(started, { repair: true })).toMatchObject([{ sha256: orphan, repaired: `moved to ${place}` }])
  expect(await readFile(place, 'utf8')).toBe('whose is this?')
  expect(await findings(started)).toEqual([])
  expect((await storeFiles(started.dataDir)).named).toContain(orphan)
})

test('--repair queues the removal of stored files without document and job', async () => {
  const started = await startApp()
  const { id, sha256 } = await readDocument(started)
  await started.app.db.deleteFrom('documents').where('id', '=', id).execute()
  expect(await findings(started, { only: 'orphans', repair: true })).toMatchObject([
    { sha256, repaired: expect.stringContaining('removed') },
  ])
  await started.runJobs()
  expect((await storeFiles(started.dataDir)).named).toEqual([])
  expect(await findings(started, { only: 'orphans' })).toEqual([])
})

test('--repair queues an unfinished document without a job, and OCR finishes', async () => {
  const started = await startApp()
  const { id } = await readDocument(started)
  await started.app.db.updateTable('documents').set({ status: 'processing' }).where('id', '=', id).execute()
  expect(await findings(started)).toMatchObject([{ check: 'status', document_id: id, actual: 'processing', repaired: null }])
  expect(await findings(started, { repair: true })).toMatchObject([{ repaired: 'queued again' }])
  expect(await findings(started)).toEqual([])
  await started.runJobs()
  expect((await started.asAda.documents.get(id)).status).toBe('completed')
})

test('--repair queues an abandoned job again', async () => {
  const started = await startApp()
  const { id } = await readDocument(started)
  const long = new Date(Date.now() - 3_600_000)
  await started.app.db
    .updateTable('jobs')
    .set({ status: 'processing', worker: 'gone/1', lease_until: long, finished_at: null })
    .where('document_id', '=', id)
    .execute()
  expect(await findings(started, { only: 'queue' })).toMatchObject([{ document_id: id, message: expect.stringContaining('gone/1') }])
  expect(await findings(started, { only: 'queue', repair: true })).toMatchObject([{ repaired: 'queued again' }])
  expect(await findings(started, { only: 'queue' })).toEqual([])
})

test('--repair rebuilds an index without an entry; waiting index jobs are no finding', async () => {
  const started = await startApp()
  const { id } = await readDocument(started)
  await copyUnindexed(started.app, id)
  expect(await findings(started)).toMatchObject([{ check: 'index', expected: 2, actual: 1, repaired: null }])
  expect(await findings(started, { repair: true })).toMatchObject([{ repaired: 'rebuilt' }])
  expect(await findings(started)).toEqual([])
})

test('findings for a wrong duplicate_of and for a link with too many views', async () => {
  const started = await startApp()
  const first = await readDocument(started)
  await started.app.db.updateTable('documents').set({ duplicate_of: first.id }).where('id', '=', first.id).execute()
  const link = await started.asAda.sharedLinks.create({ document_id: first.id, max_views: 1 })
  await started.app.db.updateTable('shared_links').set({ view_count: 2 }).where('id', '=', link.id).execute()
  expect((await findings(started, { repair: true })).map(({ check, repaired }) => [check, repaired])).toEqual([
    ['references', 'removed the mark'],
    ['links', null],
  ])
  expect((await findings(started)).map(({ check }) => check)).toEqual(['links'])
})

test('check exits 0 without findings, 3 with findings as JSON Lines and in --rejects, 2 for an unknown check, 75 during another check', async () => {
  const started = await startApp()
  const { id, sha256 } = await readDocument(started)
  const place = { databaseUrl: started.databaseUrl, dataDir: started.dataDir }
  expect(await here(place, ['check', '--sample', '100%'])).toMatchObject({ code: 0, stdout: '', stderr: '' })
  await started.app.files.remove(await addressOf(started.app.db, sha256))
  const rejects = join(await folder(), 'rejects.jsonl')
  const { code, stdout } = await dms(place, ['check', '--checks', 'files,orphans', '-o', 'jsonl', '--rejects', rejects])
  const [finding, summary] = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
  expect(code).toBe(3)
  expect(finding).toMatchObject({ type: 'finding', check: 'files', severity: 'error', document_id: id, sha256, repaired: null })
  expect(summary).toMatchObject({ type: 'summary', command: 'check', findings: 1, checks: ['files', 'orphans'], exit_code: 3 })
  expect(JSON.parse(await readFile(rejects, 'utf8'))).toEqual(finding)
  expect((await stat(rejects)).mode & 0o777).toBe(0o600)
  const nowhere = join(await folder(), 'missing', 'rejects.jsonl')
  const unwritable = await dms(place, ['check', '--checks', 'files', '--rejects', nowhere])
  expect(unwritable).toMatchObject({ code: 2, stderr: expect.stringContaining(`error: --rejects ${nowhere}`) })
  expect((await here(place, ['check', '--checks', 'nonsense'])).code).toBe(2)
  expect((await here(place, ['check', '--sample', '200%'])).code).toBe(2)
  const other = () => here(place, ['check', '--lock-timeout', '100ms', '--json', '--rejects', rejects])
  const { code: busy, stderr } = await withLock(started.app.database, 'check', 0, other)
  const details = { holder: 'dms check', host: hostname(), pid: process.pid, since: expect.any(String) }
  expect([busy, JSON.parse(stderr)]).toMatchObject([75, { error: { code: 'BUSY', details }, exit_code: 75 }])
  // The file may be that of the other check.
  expect(JSON.parse(await readFile(rejects, 'utf8'))).toEqual(finding)
  expect((await here(place, ['check', '--checks', 'files', '--rejects', rejects])).code).toBe(3)
  expect(JSON.parse(await readFile(rejects, 'utf8'))).toEqual(finding)
})
