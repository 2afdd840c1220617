import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { run } from '../../support/processes/run.ts'
import { freePort } from '../../support/servers/free-port.ts'
import { startServer } from '../../support/servers/server.ts'

test('healthcheck exits 0 for a running server, by URL and by configuration; -q prints nothing', async () => {
  const { url } = await startServer()
  const port = new URL(url).port
  expect(await run(['healthcheck', '--url', url, '-q'])).toMatchObject({ code: 0, stdout: '', stderr: '' })
  expect(await run(['healthcheck', '--json'], { env: { DMS_SERVER_HOST: '0.0.0.0', DMS_SERVER_PORT: port } })).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('"status": "ok"'),
  })
  // Without a worker the status is degraded.
  const ready = await run(['healthcheck', '--ready', '--json', '--url', url])
  expect({ code: ready.code, ...JSON.parse(ready.stdout) }).toMatchObject({
    code: 0,
    status: 'degraded',
    checks: { database: 'ok', worker: 'fail' },
  })
})

test('healthcheck exits 1 for every failure', async () => {
  const mute = createServer((_, response) => void response.writeHead(503).end('{"status":"draining","checks":{}}'))
  await new Promise<void>((resolve) => mute.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(mute.address() as AddressInfo).port}`
  const all = await Promise.all([
    run(['healthcheck', '--url', url]),
    run(['healthcheck', '--ready', '--url', url]),
    run(['healthcheck', '--url', 'http://127.0.0.1:1']),
    run(['healthcheck', '--url', 'nonsense']),
    run(['healthcheck', '--context', 'nobody']),
    run(['healthcheck'], { env: { DMS_SERVER_PORT: 'many' } }),
    run(['-q', 'healthcheck', '--nonsense']),
  ])
  mute.close()
  expect(all.map(({ code }) => code)).toEqual([1, 1, 1, 1, 1, 1, 1])
  const elsewhere = await run(['healthcheck'], { env: { DMS_SERVER_PORT: String(await freePort()) } })
  expect(elsewhere).toMatchObject({ code: 1, stderr: expect.stringMatching(/ECONNREFUSED.*\n +fix: dms healthcheck --url .* --port/) })
  expect(all[2]?.stderr).not.toContain('--port')
  const asJson = await run(['healthcheck', '--json', '--url', 'http://127.0.0.1:1'])
  expect({ code: asJson.code, ...JSON.parse(asJson.stderr) }).toMatchObject({ code: 1, exit_code: 1, error: { code: 'FAILED' } })
})
