import { execFileSync } from 'node:child_process'
import { chown, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findProgram } from '../../../src/config/find-program.ts'
import { startServer } from '../../support/servers/server.ts'
import { createShellUser } from '../../support/shell-user.ts'

const password = 'quite a long password'

async function start(settings: Record<string, string | number> = {}) {
  const server = await startServer(settings)
  await server.asAdmin.users.create({ username: 'eve', email: 'eve@example.org', password })
  const user = await createShellUser()
  const passwordFile = await user.file('pw', `${password}\n`)
  return {
    ...server,
    ...user,
    passwordFile,
    login: (...more: string[]) => user.dms(['login', server.url, '--name', 'prod', '--username', 'eve', ...more]),
  }
}

/** A credential that has expired and that the server refuses. */
const over = { token: 'over', expires_at: '2026-01-01T00:00:00Z' }

test('an expired session is renewed from the password file or the password command', async () => {
  const { dms, login, passwordFile, credentials, editCredential } = await start()
  for (const source of [
    ['--password-file', passwordFile],
    ['--password-command', `cat '${passwordFile}'`],
  ]) {
    expect(await login(...source, '--save-password-source')).toMatchObject({ code: 0, stderr: '' })
    await editCredential('prod', over)
    expect(await dms(['documents', 'list'])).toMatchObject({ code: 0, stdout: '', stderr: '' })
    expect((await credentials()).prod?.token).not.toBe('over')
  }
})

test('a token is renewed if it expires within five minutes or is refused', async () => {
  const { dms, login, app, passwordFile, credentials, editCredential } = await start()
  await login('--password-file', passwordFile, '--save-password-source')
  const { token } = (await credentials()).prod!
  await editCredential('prod', { expires_at: new Date(Date.now() + 240_000).toISOString() })
  expect((await dms(['documents', 'list'])).code).toBe(0)
  const second = (await credentials()).prod!.token
  expect(second).not.toBe(token)
  await app.db.updateTable('users').set({ token_version: 7 }).where('username', '=', 'eve').execute()
  expect((await dms(['documents', 'list'])).code).toBe(0)
  const third = (await credentials()).prod!.token
  expect(third).not.toBe(second)
  // A file on standard input can be sent only once.
  await app.db.updateTable('users').set({ token_version: 8 }).where('username', '=', 'eve').execute()
  const fromPipe = await dms(['documents', 'upload', '-', '--stdin-name', 'a.txt', '-o', 'csv'], { input: 'a' })
  expect(fromPipe).toMatchObject({ code: 0, stdout: expect.stringContaining('created,-,'), stderr: '' })
  expect((await credentials()).prod!.token).not.toBe(third)
})

test.skipIf(process.getuid?.() !== 0)('root with the home of another user, as with sudo -E: the files belong to that user', async () => {
  const { dms, login, home, passwordFile } = await start()
  const [uid, gid] = [1234, 2345]
  await chown(home, uid, gid)
  expect((await login('--password-file', passwordFile)).code).toBe(0)
  expect((await dms(['documents', 'upload', '-r', passwordFile])).code).toBe(0)
  const made = (await readdir(home, { recursive: true })).filter((path) => path.startsWith('.'))
  expect(made).toEqual(
    expect.arrayContaining(['.config/dms/contexts.toml', '.local/state/dms/credentials.json', '.local/state/dms/uploads']),
  )
  const owners = await Promise.all(made.map((path) => stat(join(home, path))))
  expect(owners.map((owner) => [owner.uid, owner.gid])).toEqual(made.map(() => [uid, gid]))
})

test('without a password source a recently expired token is refreshed; else 4 with a fix', async () => {
  const { dms, dmsOnTerminal: _, login, passwordFile, credentials, editCredential } = await start()
  await login('--password-file', passwordFile)
  const { token } = (await credentials()).prod!
  await editCredential('prod', { expires_at: over.expires_at })
  expect((await dms(['documents', 'list'])).code).toBe(0)
  expect((await credentials()).prod!.token).not.toBe(token)
  await editCredential('prod', over)
  expect(await dms(['documents', 'list'])).toMatchObject({
    code: 4,
    stdout: '',
    stderr: expect.stringMatching(/has expired\n +fix: dms login http/),
  })
})

test('4 for a wrong password, 69 if nothing listens; nothing is saved', async () => {
  const { dms, login, file, passwordFile, editCredential } = await start()
  const wrong = await file('wrong', 'not it')
  expect(await login('--password-file', wrong)).toMatchObject({ code: 4, stderr: expect.stringContaining('wrong user name or password') })
  expect((await dms(['context', 'list', '-o', 'id'])).stdout).toBe('local\n')
  await login('--password-file', passwordFile, '--save-password-source')
  await file('pw', 'changed meanwhile')
  await editCredential('prod', over)
  expect(await dms(['documents', 'list'])).toMatchObject({
    code: 4,
    stderr: expect.stringContaining(`refuses eve with the password in ${passwordFile}`),
  })
  expect((await dms(['login', 'http://127.0.0.1:1', '--username', 'eve', '--password-file', wrong])).code).toBe(69)
})

test('2 at once without a terminal to ask on, and for http:// to another machine', async () => {
  const { dms, passwordFile } = await start()
  for (const [args, fix] of [
    [['login', 'http://127.0.0.1:1'], '--username'],
    [['login', 'http://127.0.0.1:1', '--username', 'eve'], '--password-stdin or --password-file'],
    [['login'], 'dms login https://'],
    [['login', 'http://dms.example.org', '--username', 'eve', '--password-file', passwordFile], '--insecure-http'],
    [['login', 'http://127.0.0.1:1', '--save-password-source'], '--password-file or --password-command'],
  ] as const) {
    expect(await dms([...args], { timeout: 30_000 })).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining(fix) })
  }
})

test('no secret is in arguments or in the environment of a child process', async () => {
  const { dmsProcess, login, credentials, editCredential, passwordFile, home, token } = await start()
  const seen = join(home, 'seen')
  const command = `cat /proc/$PPID/cmdline /proc/self/environ > '${seen}'; cat '${passwordFile}'`
  await login('--password-command', command, '--save-password-source')
  await editCredential('prod', over)
  expect((await dmsProcess(['documents', 'list'], { env: { DMS_TOKEN: token } })).code).toBe(0)
  const text = await readFile(seen, 'utf8')
  expect(text).toContain('documents')
  for (const secret of [password, token, (await credentials()).prod!.token]) expect(text).not.toContain(secret)
})

test('--with-token reads a token from standard input, --no-store saves nothing, --no-use keeps the current context', async () => {
  const { dms, url, app, passwordFile, token } = await start()
  expect(await dms(['login', url, '--name', 'ada', '--with-token', '--no-use'], { input: `${token}\n` })).toMatchObject({ code: 0 })
  expect((await dms(['whoami', '-o', 'id'])).stdout).toBe('operator\n')
  expect((await dms(['--context', 'ada', 'whoami', '-o', 'id'])).stdout).toBe('ada\n')
  expect((await dms(['login', url, '--with-token'], { input: 'nonsense' })).code).toBe(2)
  const { code, stdout } = await dms(['login', url, '--username', 'eve', '--password-file', passwordFile, '--no-store'])
  expect(code).toBe(0)
  expect((await app.tokens.read(stdout.trim()))?.exp).toBeGreaterThan(Date.now() / 1000)
  const asJson = await dms(['login', url, '--username', 'eve', '--password-file', passwordFile, '--no-store', '-o', 'jsonl'])
  expect(JSON.parse(asJson.stdout)).toEqual({ token: expect.any(String), expires_at: expect.any(String) })
  expect((await dms(['context', 'list', '-o', 'id'])).stdout).toBe('local\nada\n')
  const who = JSON.parse((await dms(['whoami', '--json'], { env: { DMS_URL: url, DMS_TOKEN: stdout.trim() } })).stdout)
  expect(who).toMatchObject({ username: 'eve', token_expires_at: expect.stringMatching(/^\d{4}-.*Z$/) })
})

test('logout ends the session on the server and forgets the password source; local is current then, 4 for the context', async () => {
  const { dms, login, url, passwordFile, credentials } = await start()
  await login('--password-file', passwordFile, '--save-password-source')
  const { token } = (await credentials()).prod!
  const out = await dms(['logout', '--json'])
  expect([out.code, JSON.parse(out.stdout), out.stderr]).toEqual([
    0,
    expect.objectContaining({ name: 'prod', current: false, token_expires_at: null, password_file: null }),
    'the current context is now local (this machine)\n',
  ])
  expect((await dms(['whoami'], { env: { DMS_URL: url, DMS_TOKEN: token } })).code).toBe(4)
  expect((await dms(['whoami', '-o', 'id'])).stdout).toBe('operator\n')
  expect(await dms(['--context', 'prod', 'whoami'])).toMatchObject({ code: 4, stderr: expect.stringContaining('not signed in to prod') })
  expect((await login('--password-file', passwordFile)).code).toBe(0)
  expect((await dms(['whoami', '-o', 'id'])).stdout).toBe('eve\n')
  await login('--password-file', passwordFile, '--name', 'other', '--no-use')
  expect(await dms(['logout', 'other'])).toMatchObject({ code: 0, stderr: '' })
  expect((await dms(['whoami', '-o', 'id'])).stdout).toBe('eve\n')
  expect(await dms(['logout', '--all'])).toMatchObject({ code: 0 })
  expect((await dms(['logout', 'nobody'])).code).toBe(6)
})

const openssl = findProgram('openssl')
if (!openssl) process.stderr.write('skipped: without the program `openssl` there is no certificate to serve with\n')

test.skipIf(!openssl)(
  'a certificate of one’s own authority is trusted with --ca-file, which is remembered, and never without',
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'dms-tls-'))
    onTestFinished(() => rm(folder, { recursive: true, force: true }))
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
    const request =
      '-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=IP:127.0.0.1'
    execFileSync(openssl!, ['req', ...request.split(' '), '-keyout', key, '-out', cert], { stdio: 'ignore' })
    const { dms, login, passwordFile, url } = await start({ 'server.tls_cert': cert, 'server.tls_key': key })
    expect(url).toMatch(/^https:/)
    expect(await login('--password-file', passwordFile)).toMatchObject({ code: 69, stderr: expect.stringContaining('self-signed') })
    expect(await login('--password-file', passwordFile, '--ca-file', cert)).toMatchObject({ code: 0 })
    expect(await dms(['whoami', '-o', 'id'])).toMatchObject({ code: 0, stdout: 'eve\n' })
    expect((await dms(['whoami', '--ca-file', key])).code).toBe(78)
    // The certificate expires in two days.
    const asked = await dms(['doctor', '--only', 'reachable,tls,version,token', '--fields', 'status'])
    expect(asked).toMatchObject({ code: 0, stdout: 'ok\nwarn\nok\nok\n' })
    expect((await dms(['--print-curl', 'whoami'])).stdout).toContain(`--cacert ${cert}`)
  },
)
