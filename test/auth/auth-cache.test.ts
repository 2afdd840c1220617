import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { buildServer } from '../../src/server/http/assemble.ts'
import { openAuthCache } from '../../src/server/http/auth-cache.ts'
import { listen } from '../../src/server/listen.ts'
import { startApp } from '../support/app.ts'
import { tokenFor } from '../support/servers/server.ts'

/**
 * Starts two servers that cache the user of each token. They never expire their caches while `monotonicMs` stands still, and after a second without
 * it.
 */
async function twoServers(monotonicMs?: () => number) {
  const started = await startApp()
  const { app } = started
  const servers = await Promise.all(
    [1, 2].map(async () => {
      const authCache = openAuthCache({ ...app, monotonicMs: monotonicMs ?? app.monotonicMs })
      const { url, close } = await listen(buildServer(app, { authCache }), { ...app.config, server: { ...app.config.server, port: 0 } })
      return { url, close: async () => Promise.all([close(1000), authCache.close()]) }
    }),
  )
  const tokenOf = async ({ id, token_version }: { id: string; token_version: number }) => {
    const iat = Math.floor(app.now().getTime() / 1000)
    return app.tokens.sign({ sub: id, jti: randomUUID(), iat, exp: iat + 3600, ver: token_version })
  }
  const ask = async (server: number, token: string, method = 'GET', path = '/api/users/profile') =>
    (await fetch(`${servers[server]?.url}${path}`, { method, headers: { authorization: `Bearer ${token}` } })).status
  return { ...started, tokenOf, ask, close: () => Promise.all(servers.map((server) => server.close())) }
}

test('a logout takes effect with the next request on this server, and with its notification on another', async () => {
  const { ada, tokenOf, ask, close } = await twoServers(() => 0)
  const token = await tokenOf(ada)
  expect([await ask(0, token), await ask(1, token)]).toEqual([200, 200])
  expect(await ask(0, token, 'POST', '/api/auth/logout')).toBe(200)
  expect(await ask(0, token)).toBe(401)
  await expect.poll(() => ask(1, token)).toBe(401)
  await close()
})

test('401 for an API token with the next request on this server after its revocation, whose notification is late', async () => {
  const { app, ada, asAda, tokenOf, close } = await twoServers(() => 0)
  const connect = () => new Promise<never>(() => {})
  const authCache = openAuthCache({ ...app, database: { ...app.database, connect }, monotonicMs: () => 0 })
  const server = buildServer(app, { authCache })
  const ask = async (token: string, method = 'GET', path = '/api/documents') =>
    (await server.request(path, { method, headers: { authorization: `Bearer ${token}` } })).status
  const session = await tokenOf(ada)
  const { id, token } = await asAda.tokens.create({ name: 'script', scopes: ['read'] })
  expect([await ask(token), await ask(session, 'DELETE', `/api/tokens/${id}`), await ask(token)]).toEqual([200, 204, 401])
  await close()
})

test('a demotion, a disabled account and a new password take effect with their notifications, for this user only', async () => {
  const { app, admin, ada, bob, tokenOf, ask, close } = await twoServers(() => 0)
  const [boss, hers, his] = [await tokenOf(admin), await tokenOf(ada), await tokenOf(bob)]
  expect([await ask(0, boss, 'GET', '/api/users'), await ask(1, hers), await ask(1, his)]).toEqual([200, 200, 200])
  await app.db.updateTable('users').set({ role: 'user' }).where('id', '=', admin.id).execute()
  await app.db.updateTable('users').set({ disabled: true }).where('id', '=', ada.id).execute()
  await app.db.updateTable('users').set({ token_version: 2 }).where('id', '=', bob.id).execute()
  await expect.poll(() => ask(0, boss, 'GET', '/api/users')).toBe(403)
  await expect.poll(() => ask(1, hers)).toBe(401)
  await expect.poll(() => ask(1, his)).toBe(401)
  await close()
})

test('a logout whose notification is lost takes effect after one second', async () => {
  const { app, ada } = await startApp()
  let now = 0
  const connect = () => new Promise<never>(() => {})
  const cache = openAuthCache({ ...app, database: { ...app.database, connect }, monotonicMs: () => now })
  const token = await tokenFor(app, ada)
  await cache.authenticate(token)
  await app.db.updateTable('users').set({ token_version: 2 }).where('id', '=', ada.id).execute()
  now = 999
  await expect(cache.authenticate(token)).resolves.toMatchObject({ actor: { id: ada.id } })
  now = 1000
  await expect(cache.authenticate(token)).rejects.toMatchObject({ code: 'UNAUTHORIZED' })
})

test('a cached token is refused after it expires', async () => {
  const { app, ada, ask, close, later } = await twoServers()
  const iat = Math.floor(app.now().getTime() / 1000)
  const token = await app.tokens.sign({ sub: ada.id, jti: randomUUID(), iat, exp: iat + 2, ver: 1 })
  expect(await ask(0, token)).toBe(200)
  await later(2000)
  expect(await ask(0, token)).toBe(401)
  await close()
})
