import { expect, test } from 'vitest'
import { publicUrl, startProvider } from '../../support/servers/oidc.ts'
import { startServer } from '../../support/servers/server.ts'
import { createShellUser } from '../../support/shell-user.ts'

const alice = { sub: 'alice-1', preferred_username: 'alice', email: 'alice@example.com', email_verified: true }

/** A scripted browser: follows redirects, keeps cookies, and maps the public address to the server. */
const browser = `#!${process.execPath}
const jars = new Map()
let url = new URL(process.argv[2])
for (let hops = 0; hops < 20; hops++) {
  if (url.origin === '${publicUrl}') url = new URL(url.pathname + url.search, process.env.SERVER)
  const jar = jars.get(url.host) ?? new Map()
  jars.set(url.host, jar)
  const cookie = [...jar].map(([name, value]) => name + '=' + value).join('; ')
  const response = await fetch(url, { redirect: 'manual', headers: { cookie } })
  for (const line of response.headers.getSetCookie()) jar.set(...line.split(';')[0].split(/=(.*)/s))
  const location = response.headers.get('location')
  if (!location) break
  url = new URL(location, url)
}
`

async function start(settings: Record<string, string> = {}) {
  const provider = await startProvider([alice])
  const server = await startServer({ ...provider.settings, ...settings })
  const user = await createShellUser({ SERVER: server.url })
  const path = await user.file('browser.mjs', browser, 0o700)
  return {
    ...server,
    ...user,
    login: () => user.dmsProcess(['login', server.url, '--name', 'prod', '--web'], { env: { BROWSER: path } }),
  }
}

test('login --web: 0, commands work afterwards, and no URL has a token', async () => {
  const { dms, login, credentials } = await start()
  const { code, stdout, stderr } = await login()
  expect([code, stdout]).toEqual([0, expect.stringContaining('alice')])
  expect(stderr).toContain('/api/auth/oidc/login?shell_port=')
  const { token = 'none' } = (await credentials()).prod ?? {}
  expect(stderr + stdout).not.toContain(token)
  expect(JSON.parse((await dms(['whoami', '--json'])).stdout)).toMatchObject({ context: 'prod', username: 'alice' })
  expect((await dms(['documents', 'list'])).code).toBe(0)
})

test('login --web: 4 after a failed sign-in, 6 for a server without single sign-on', async () => {
  const { login } = await start({ 'oidc.auto_create_users': 'false' })
  expect(await login()).toMatchObject({ code: 4, stdout: '', stderr: expect.stringContaining('FORBIDDEN') })
  const local = await startServer()
  const user = await createShellUser()
  expect(await user.dms(['login', local.url, '--web'])).toMatchObject({ code: 6, stdout: '' })
})
