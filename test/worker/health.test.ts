import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { startApp, upload } from '../support/app.ts'
import { until } from '../support/processes/processes.ts'
import { bareEnvironment, executable } from '../support/processes/run.ts'

/** A worker in a process of its own, with its endpoints and its log. */
function begin({ databaseUrl, dataDir }: { databaseUrl: string; dataDir: string }, args: string[], env: Record<string, string> = {}) {
  const child = spawn(process.execPath, [executable, 'worker', ...args], {
    env: bareEnvironment({ DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir, DMS_LOG_FORMAT: 'json', ...env }),
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const exit = once(child, 'exit')
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await exit
  })
  const said: string[] = []
  createInterface(child.stderr).on('line', (line) => said.push(line))
  const hears = (part: string) => until(() => said.some((line) => line.includes(part)), 20_000)
  return { child, exit, said, hears }
}

test('worker.health_listen: /healthz, /readyz and /metrics of a worker only; --name; SIGUSR1 prints the state; a second SIGTERM returns its job', async () => {
  const dms = await startApp()
  const { app } = dms
  const { child, exit, said, hears } = begin(dms, ['--name', 'left'], { DMS_WORKER_HEALTH_LISTEN: '127.0.0.1:0' })
  await hears('"health":')
  const url = /"health":"([^"]+)"/.exec(said.join())?.[1] ?? ''
  expect(await app.db.selectFrom('workers').select('name').execute()).toEqual([{ name: `${hostname()}/${child.pid}/left` }])
  expect(await (await fetch(`${url}/healthz`)).text()).toBe('ok\n')
  const ready = await fetch(`${url}/readyz`)
  expect([ready.status, await ready.json()]).toMatchObject([200, { checks: { database: 'ok', worker: 'ok' } }])
  expect(await (await fetch(`${url}/metrics`)).text()).toContain('dms_jobs{')
  for (const path of ['/api/documents', '/api/auth/login', '/']) expect((await fetch(url + path)).status).toBe(404)
  const { id: document_id } = await upload(dms.asAda, 'a.txt', 'some words')
  const isRead = (line: string) => line.includes('job done') && line.includes('"kind":"ocr"')
  await until(() => said.some(isRead), 20_000)
  expect(JSON.parse(said.find(isRead) ?? '')).toMatchObject({ document_id, attempt: 1, language: expect.any(String), pages: 1 })
  // It may be at the index still.
  await until(() => child.kill('SIGUSR1') && said.some((line) => line.includes('no job runs')), 20_000)
  child.kill('SIGTERM')
  expect(await exit).toEqual([0, null])

  // A sync that waits for its server's first word.
  const silent = createServer().listen(0, '127.0.0.1')
  await once(silent, 'listening')
  onTestFinished(() => void silent.close())
  const { port } = silent.address() as AddressInfo
  const { id } = await dms.asAdmin.sources.create({ name: 'Silent', type: 'webdav', url: `http://127.0.0.1:${port}/` })
  const asked = once(silent, 'connection')
  const busy = begin(dms, [])
  const { job_id } = await dms.asAdmin.sources.sync(id)
  const [socket] = (await asked) as [Socket]
  onTestFinished(() => void socket.destroy())
  const job = () =>
    app.db.selectFrom('jobs').select(['status', 'attempts', 'worker', 'lease_until']).where('id', '=', job_id).executeTakeFirst()
  expect(await job()).toMatchObject({ status: 'processing', attempts: 1 })
  busy.child.kill('SIGUSR1')
  await busy.hears('job runs')
  busy.child.kill('SIGTERM')
  busy.child.kill('SIGUSR1')
  await until(() => busy.said.filter((line) => line.includes('job runs')).length === 2, 20_000)
  // A repeat within 300 ms is ignored.
  await sleep(400)
  busy.child.kill('SIGTERM')
  expect(await busy.exit).toEqual([null, 'SIGTERM'])
  expect(await job()).toEqual({ status: 'pending', attempts: 0, worker: null, lease_until: null })
  expect(await app.db.selectFrom('workers').select('name').execute()).toEqual([])
})

test('--once -q prints nothing on success with any log.level; --log-level and a log file still log', async () => {
  const dms = await startApp()
  await upload(dms.asAda, 'a.txt', 'some words')
  const { said, exit } = begin(dms, ['--once', '-q'], { DMS_LOG_LEVEL: 'info' })
  expect([await exit, said]).toEqual([[0, null], []])
  const asked = begin(dms, ['--once', '-q', '--log-level', 'info'])
  expect(await asked.exit).toEqual([0, null])
  expect(asked.said.join()).toContain('working')
  const file = join(dms.dataDir, 'worker.log')
  const logged = begin(dms, ['--once', '-q'], { DMS_LOG_FILE: file })
  expect([await logged.exit, logged.said]).toEqual([[0, null], []])
  expect(await readFile(file, 'utf8')).toContain('working')
})
