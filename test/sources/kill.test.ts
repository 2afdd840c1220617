import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { CompiledQuery } from 'kysely'
import { expect, onTestFinished, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { makeFolder } from '../support/data/source-folder.ts'
import { killSync } from '../support/processes/kill-sync.ts'
import { bareEnvironment, executable, run } from '../support/processes/run.ts'
import { storeFiles } from '../support/servers/server.ts'

async function start() {
  const folder = await makeFolder()
  const settings = { 'sources.local_roots': folder.root, 'ocr.enabled': false }
  const dms = await startApp(settings)
  const source = await dms.asAdmin.sources.create({ name: 'Share', type: 'local_folder', url: folder.root })
  const env = {
    DATABASE_URL: dms.databaseUrl,
    DMS_DATA_DIR: dms.dataDir,
    DMS_SOURCES_LOCAL_ROOTS: folder.root,
    DMS_STORAGE_MIN_FREE: '0',
    DMS_OCR_ENABLED: 'false',
  }
  const query = async <Row>(text: string) => (await dms.app.db.executeQuery<Row>(CompiledQuery.raw(text))).rows
  return { ...dms, ...folder, source, env, query }
}

test('a sync that is killed at any point continues: nothing twice, nothing lost, nothing downloaded again', {
  timeout: 180_000,
}, async () => {
  const { query, root, source, env, asAdmin, dataDir, runJobs } = await start()
  expect(await killSync({ env, query, source, root, points: 6 })).toEqual([])
  expect(await asAdmin.sources.get(source.id)).toMatchObject({ status: 'active', document_count: 720 })
  // What was on its way when the power went is swept out by the next to come, and its bytes by a job.
  await run(['worker', '--once', '--queues', 'maintenance'], { env })
  await runJobs(['maintenance'])
  const stored = await query<{ sha256: string }>('select sha256 from stored_files order by sha256')
  expect(await storeFiles(dataDir)).toEqual({ named: stored.map(({ sha256 }) => sha256), staged: [] })
})

test('two syncs of one source at once: the first exits with 0, the second with 75 and the pid of the first', async () => {
  const { put, source, env, asAdmin } = await start()
  for (let file = 0; file < 300; file++) await put(`${file}.txt`, `file ${file}`)
  const first = spawn(process.execPath, [executable, 'sources', 'sync', 'share'], { env: bareEnvironment(env), stdio: 'ignore' })
  const ended = once(first, 'exit')
  onTestFinished(() => void first.kill('SIGKILL'))
  while ((await asAdmin.sources.get(source.id)).status !== 'syncing') await sleep(5)
  first.kill('SIGSTOP')
  expect((await asAdmin.sources.get(source.id)).status).toBe('syncing')
  const second = await run(['sources', 'sync', 'share', '--json'], { env })
  expect(second.code).toBe(75)
  expect(JSON.parse(second.stderr.trim().split('\n').at(-1) ?? '')).toMatchObject({
    error: { code: 'SOURCE_SYNC_RUNNING', details: { holder: 'dms sources sync', host: hostname(), pid: first.pid } },
    exit_code: 75,
  })
  const all = await run(['sources', 'sync', '--all', '-o', 'jsonl'], { env })
  expect(all.code).toBe(75)
  first.kill('SIGCONT')
  const waiting = await run(['sources', 'sync', 'share', '--lock-timeout', '2m'], { env })
  expect([(await ended)[0], waiting.code]).toEqual([0, 0])
  expect(await asAdmin.sources.get(source.id)).toMatchObject({ status: 'active', document_count: 300 })
})
