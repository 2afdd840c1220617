import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { hostname } from 'node:os'
import { createInterface } from 'node:readline'
import { expect, onTestFinished, test } from 'vitest'
import { startApp } from './support/app.ts'
import { until } from './support/processes.ts'
import { bareEnvironment, executable } from './support/run.ts'

test('worker.health_listen: /healthz, /readyz and /metrics of a worker, and nothing else; --name; SIGUSR1 says what is being done', async () => {
  const { app, dataDir, databaseUrl } = await startApp()
  const child = spawn(process.execPath, [executable, 'worker', '--name', 'left'], {
    env: bareEnvironment({
      DATABASE_URL: databaseUrl,
      DMS_DATA_DIR: dataDir,
      DMS_WORKER_HEALTH_LISTEN: '127.0.0.1:0',
      DMS_LOG_FORMAT: 'json',
    }),
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
  await hears('"health":')
  const url = /"health":"([^"]+)"/.exec(said.join())?.[1] ?? ''
  expect(await app.db.selectFrom('workers').select('name').execute()).toEqual([{ name: `${hostname()}/${child.pid}/left` }])
  expect(await (await fetch(`${url}/healthz`)).text()).toBe('ok\n')
  const ready = await fetch(`${url}/readyz`)
  expect([ready.status, await ready.json()]).toMatchObject([200, { checks: { database: 'ok', worker: 'ok' } }])
  expect(await (await fetch(`${url}/metrics`)).text()).toContain('dms_jobs{')
  for (const path of ['/api/documents', '/api/auth/login', '/']) expect((await fetch(url + path)).status).toBe(404)
  child.kill('SIGUSR1')
  await hears('no job runs')
  child.kill('SIGTERM')
  expect(await exit).toEqual([0, null])
})
