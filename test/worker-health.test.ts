import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { expect, onTestFinished, test } from 'vitest'
import { startApp } from './support/app.ts'
import { bareEnvironment, executable } from './support/run.ts'

test('worker.health_listen: /healthz, /readyz and /metrics of a worker, and nothing else', async () => {
  const { dataDir, databaseUrl } = await startApp()
  const child = spawn(process.execPath, [executable, 'worker'], {
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
  let url = ''
  for await (const line of createInterface(child.stderr)) {
    url = /"health":"([^"]+)"/.exec(line)?.[1] ?? ''
    if (url) break
  }
  expect(await (await fetch(`${url}/healthz`)).text()).toBe('ok\n')
  const ready = await fetch(`${url}/readyz`)
  expect([ready.status, await ready.json()]).toMatchObject([200, { checks: { database: 'ok', worker: 'ok' } }])
  expect(await (await fetch(`${url}/metrics`)).text()).toContain('dms_jobs{')
  for (const path of ['/api/documents', '/api/auth/login', '/']) expect((await fetch(url + path)).status).toBe(404)
  child.kill('SIGTERM')
  expect(await exit).toEqual([0, null])
})
