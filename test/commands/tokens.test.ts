import { expect, test } from 'vitest'
import { startApp } from '../support/app.ts'
import { runHere } from '../support/processes/run-here.ts'

async function start() {
  const started = await startApp()
  const env = { DATABASE_URL: started.databaseUrl, DMS_DATA_DIR: started.dataDir }
  return { ...started, tokens: (args: readonly string[], input = '') => runHere(['tokens', ...args], { env, input }) }
}

test('tokens create prints only a working token; list and revoke by id; 6 for a revoked one', async () => {
  const { tokens, asStranger } = await start()
  const made = await tokens(['create', 'scanner', '--scope', 'read,upload', '--user', 'ada', '--expires', '30d'])
  expect([made.code, made.stdout]).toEqual([0, expect.stringMatching(/^dms_[\w-]{43}\n$/)])
  const status = async () =>
    (await asStranger.send('GET', '/api/documents', undefined, { authorization: `Bearer ${made.stdout.trim()}` })).status
  expect(await status()).toBe(200)
  const listed = await tokens(['list', '--json'])
  expect(JSON.parse(listed.stdout)).toMatchObject([{ name: 'scanner', username: 'ada', scopes: ['read', 'upload'] }])
  expect(listed.stdout).not.toContain(made.stdout.trim())
  const id = (await tokens(['list', '--user', 'ada', '-o', 'id'])).stdout
  expect((await tokens(['revoke', '-'], id)).code).toBe(0)
  expect(await status()).toBe(401)
  expect((await tokens(['revoke', id.trim()])).code).toBe(6)
})

test('tokens create: 2 without --user on the server and for unknown scopes, 5 for scope admin of a normal user, 7 for a taken name', async () => {
  const { tokens } = await start()
  const create = async (...args: string[]) => (await tokens(['create', 'one', ...args])).code
  expect(await create('--scope', 'read')).toBe(2)
  expect(await create('--scope', 'all', '--user', 'ada')).toBe(2)
  expect(await create('--scope', 'admin', '--user', 'ada')).toBe(5)
  expect(await create('--scope', 'read', '--user', 'ada', '--json')).toBe(0)
  expect(await create('--scope', 'read', '--user', 'ada')).toBe(7)
  expect((await tokens(['list', '--user', 'nobody'])).code).toBe(6)
})
