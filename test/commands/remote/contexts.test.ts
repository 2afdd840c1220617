import { spawn } from 'node:child_process'
import { chmod, mkdir, readFile, rename, stat, symlink, writeFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { pidNamespace } from '../../../src/processes.ts'
import { bareEnvironment, executable, hasProgram } from '../../support/processes/run.ts'
import { type Served, startServed } from '../../support/servers/served.ts'
import { startServer } from '../../support/servers/server.ts'
import { createShellUser } from '../../support/shell-user.ts'

const password = 'quite a long password'

async function start() {
  const server = await startServer()
  await server.asAdmin.users.create({ username: 'eve', email: 'eve@example.org', password, role: 'admin' })
  const user = await createShellUser()
  const passwordFile = await user.file('pw', `${password}\n`)
  const login = (name: string, ...more: string[]) =>
    user.dms(['login', server.url, '--name', name, '--username', 'eve', '--password-file', passwordFile, ...more])
  return { ...server, ...user, passwordFile, login }
}

test('contexts: create, use, show, rename, remove', async () => {
  const { dms, login, url } = await start()
  expect(await login('prod')).toMatchObject({ code: 0, stderr: '', stdout: expect.stringContaining(`url\t${url}\nusername\teve\n`) })
  expect((await dms(['context', 'create', 'other', '--url', 'https://dms.example.org:8443/'])).code).toBe(0)
  expect((await dms(['context', 'list', '-o', 'id'])).stdout).toBe('local\nother\nprod\n')
  expect(JSON.parse((await dms(['context', 'show', 'other', '--json'])).stdout)).toMatchObject({
    name: 'other',
    current: false,
    url: 'https://dms.example.org:8443',
    token_expires_at: null,
  })
  expect(JSON.parse((await dms(['context', 'show', '--json'])).stdout)).toMatchObject({
    name: 'prod',
    current: true,
    username: 'eve',
    password_file: null,
    token_expires_at: expect.any(String),
  })
  expect((await dms(['context', 'rename', 'prod', 'work'])).code).toBe(0)
  expect((await dms(['users', 'list', '-o', 'id'])).stdout.split('\n').length).toBeGreaterThan(4)
  expect((await dms(['context', 'rename', 'work', 'other'])).code).toBe(7)
  expect((await dms(['context', 'create', 'work', '--url', url])).code).toBe(7)
  expect((await dms(['context', 'create', 'local', '--url', url])).code).toBe(2)
  expect((await dms(['context', 'create', 'x'])).code).toBe(2)
  expect((await dms(['context', 'use', 'nobody'])).code).toBe(6)
  expect((await dms(['context', 'show', 'nobody'])).code).toBe(6)
  expect((await dms(['context', 'remove', 'work'])).stderr).toContain('the current context is now local')
  expect((await dms(['context', 'show', '-o', 'id'])).stdout).toBe('local\n')
})

test.each([
  ['context', 'remove', 'local'],
  ['context', 'rename', 'local', 'here'],
  ['logout', 'local'],
])('2 for %s %s %s: this machine is no saved server', async (...args) => {
  expect(await (await createShellUser()).dms(args)).toMatchObject({
    code: 2,
    stderr: 'error: "local" is this machine, not a saved server\n         fix: name a saved server: dms context list\n',
  })
})

test('target precedence: --local, --context and --url, DMS_CONTEXT and DMS_URL, current context', async () => {
  const { dms, contextsPath } = await createShellUser()
  await mkdir(dirname(contextsPath), { recursive: true })
  await writeFile(contextsPath, 'current = "two"\n[contexts]\none.url = "https://one.example"\ntwo.url = "https://two.example"\n')
  const target = async (args: string[], env: Record<string, string> = {}) =>
    (await dms([...args, 'context', 'show', '-o', 'id'], { env })).stdout
  expect(await target([])).toBe('two\n')
  expect(await target([], { DMS_CONTEXT: 'one' })).toBe('one\n')
  expect(await target([], { DMS_CONTEXT: 'local' })).toBe('local\n')
  expect(await target(['--context', 'one'], { DMS_URL: 'https://two.example' })).toBe('one\n')
  expect(await target(['--url', 'https://two.example/'], { DMS_CONTEXT: 'one' })).toBe('two\n')
  expect(await target(['--local'], { DMS_CONTEXT: 'one' })).toBe('local\n')
  expect(await target(['--context', 'local'])).toBe('local\n')
})

test.each([
  [['--context', 'one', '--url', 'http://127.0.0.1:1', 'whoami'], {}],
  [['--local', '--context', 'one', 'whoami'], {}],
  [['whoami'], { DMS_URL: 'http://127.0.0.1:1', DMS_CONTEXT: 'one' }],
  [['--url', 'http://192.0.2.1', 'whoami'], {}],
  [['--url', 'https://ana:secret@dms.example.org', 'whoami'], {}],
  [['--url', 'https://dms.example.org/below', 'whoami'], {}],
  [['--context', 'one', '--data-dir', '/tmp/x', 'users', 'list'], {}],
  [['--local', 'login'], {}],
])('2 for %j with %j', async (args, env) => {
  const { dms, contextsPath } = await createShellUser()
  await mkdir(dirname(contextsPath), { recursive: true })
  await writeFile(contextsPath, '[contexts.one]\nurl = "http://127.0.0.1:1"\n')
  const { code, stderr } = await dms(args, { env })
  expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringMatching(/^error: /) })
  expect(stderr).not.toContain('secret')
})

test('server-only commands ignore the current context and exit 2 for an explicit remote target', async () => {
  const { dms, login, databaseUrl, dataDir } = await start()
  await login('prod')
  const env = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir }
  expect(await dms(['migrate', 'check'], { env })).toMatchObject({ code: 0 })
  for (const [args, more] of [
    [['--context', 'prod', 'migrate', 'check'], {}],
    [['migrate', 'check'], { DMS_CONTEXT: 'prod' }],
  ] as const)
    expect(await dms([...args], { env: { ...env, ...more } })).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('error: "dms migrate check" runs on the server only, not against prod'),
    })
})

test('6 for an unknown context, 78 for an invalid contexts.toml; local commands still work', async () => {
  const { dms, contextsPath } = await createShellUser()
  expect(await dms(['--context', 'prod', 'whoami'])).toMatchObject({ code: 6, stderr: expect.stringContaining('no context "prod"') })
  await mkdir(dirname(contextsPath), { recursive: true })
  for (const [text, problem] of [
    ['current = "x"', '[contexts.x] does not exist'],
    ['[contexts.x]\nurl = "https://dms.example.org"\ntoken = "t"', 'unknown key contexts.x.token'],
    ['[contexts.x]\nurl = 1', 'contexts.x.url must be a string'],
    ['nonsense', 'contexts.toml'],
  ] as const) {
    await writeFile(contextsPath, text)
    expect(await dms(['whoami'])).toMatchObject({ code: 78, stdout: '', stderr: expect.stringContaining(problem) })
  }
  expect((await dms(['config', 'show', 'server.port'])).code).toBe(0)
  expect((await dms(['--local', 'whoami'])).code).toBe(0)
})

test('tokens are in a file with mode 0600, with a warning otherwise, and never in contexts.toml or behind a symbolic link', async () => {
  const { dms, login, contextsPath, credentialsPath, credentials, home } = await start()
  await login('prod')
  expect([(await stat(credentialsPath)).mode & 0o777, (await stat(contextsPath)).mode & 0o777]).toEqual([0o600, 0o600])
  expect((await stat(dirname(credentialsPath))).mode & 0o777).toBe(0o700)
  expect(await readFile(contextsPath, 'utf8')).not.toContain((await credentials()).prod?.token)
  await chmod(credentialsPath, 0o644)
  expect(await dms(['whoami'])).toMatchObject({ code: 0, stderr: expect.stringContaining('fix: chmod 600') })
  await rename(credentialsPath, join(home, 'elsewhere'))
  await symlink(join(home, 'elsewhere'), credentialsPath)
  expect(await dms(['whoami'])).toMatchObject({ code: 78, stderr: expect.stringContaining('is a symbolic link') })
})

test('concurrent commands with an expired session sign in one after the other and keep the files intact', async () => {
  const { dms, login, credentials, credentialsPath, editCredential } = await start()
  await login('prod', '--save-password-source')
  await login('other', '--no-use')
  const before = await credentials()
  await editCredential('prod', { token: 'gone', expires_at: '2026-01-01T00:00:00Z' })
  // Lock of a killed process: no process has this pid.
  await writeFile(`${credentialsPath}.lock`, `${hostname()} 99999999 ${pidNamespace}-x`)
  const all = await Promise.all([1, 2, 3, 4].map(() => dms(['users', 'list', '-o', 'id'])))
  expect(all.map(({ code, stderr }) => [code, stderr])).toEqual(all.map(() => [0, '']))
  const after = await credentials()
  expect(after.other).toEqual(before.other)
  expect(after.prod?.token).not.toBe('gone')
})

const hasTerminal = hasProgram('script')
if (!hasTerminal) process.stderr.write('skipped: without the program `script` there is no terminal to test on\n')

test.skipIf(!hasTerminal)('on a terminal a remote change prints server and user first; a read does not', async () => {
  const { dmsOnTerminal, login, url } = await start()
  await login('prod')
  expect((await dmsOnTerminal(['labels', 'list'])).stdout).not.toContain('→')
  const { stdout } = await dmsOnTerminal(['labels', 'create', 'urgent'])
  expect(stdout).toMatch(/^→ prod {2}http:\S+ {2}as eve \(admin\)\n/)
  expect(stdout).toContain(url)
})

let served: Served
beforeAll(async () => {
  served = await startServed()
})
afterAll(async () => {
  await served.stop()
  await served.remove()
})

test('the commands of docs/cli.md on remote servers run in order and exit with 0', async () => {
  const page = await readFile(new URL('../../../docs/cli.md', import.meta.url), 'utf8')
  const section = /^## Contexts and sessions\n(.*)/ms.exec(page)?.[1] ?? ''
  const script = [...section.matchAll(/^```sh\n(.*?)^```/gms)].map(([, block]) => block).join('')
  const lines = script.split('\n').filter((line) => line.startsWith('dms ') || line.includes(' dms '))
  expect(lines.length).toBeGreaterThan(8)
  const { file, env, home } = await createShellUser()
  await file('dms', `#!/bin/sh\nexec '${process.execPath}' '${executable}' "$@"\n`, 0o700)
  await file('svc.pw', served.password)
  await file('token', served.token)
  await file('contract.pdf', 'the words of a contract')
  const told = script
    .replaceAll('https://dms.example.org', served.url)
    .replaceAll('/etc/dms/svc.pw', join(home, 'svc.pw'))
    .replaceAll('/run/secrets/dms', join(home, 'token'))
    .replaceAll('svc-import', 'admin')
  // The test runs on the server's machine with its data folder.
  const here = { DMS_DATA_DIR: served.dataDir, PATH: `${home}:${bareEnvironment().PATH}` }
  const child = spawn('sh', ['-ec', told], { cwd: home, env: { ...env, ...here } })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text: string) => (output += text))
  const code = await new Promise((resolve) => child.on('close', resolve))
  expect({ code, output }).toEqual({ code: 0, output: expect.not.stringContaining('error') })
})
