import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, open, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { readUserRows } from '../../src/cli/arguments/user-file.ts'
import { parseCsv } from '../../src/cli/output/csv.ts'
import { withLock } from '../../src/db/lock.ts'
import { openWebSockets } from '../../src/server/websocket/websocket.ts'
import { startApp } from '../support/app.ts'
import { readBatch } from '../support/cli-transports.ts'
import { executable } from '../support/processes/run.ts'
import { runHere } from '../support/processes/run-here.ts'
import { startServer, tokenFor } from '../support/servers/server.ts'

const password = 'correct horse battery'

/** Starts a dms and returns a function that runs `dms users …`. */
async function start() {
  const started = await startApp()
  const { dataDir, databaseUrl, asStranger } = started
  const users = (args: readonly string[], input = '') =>
    runHere(['users', ...args], { env: { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir }, input })
  const file = async (name: string, content: string) => {
    await writeFile(join(dataDir, name), content)
    return join(dataDir, name)
  }
  const signIn = async (username: string, secret: string) =>
    (await asStranger.send('POST', '/api/auth/login', { username, password: secret })).status
  return { ...started, users, file, signIn, path: (name: string) => join(dataDir, name) }
}

test('list: newest first, as tsv, json and ids; filters; 2 for a bad limit or role', async () => {
  const { users, ada, bob } = await start()
  const { code, stdout } = await users(['list'])
  expect(code).toBe(0)
  expect(stdout.split('\n').map((line) => line.split('\t').slice(0, 4).join(' '))).toEqual([
    'root root@example.org admin active',
    'bob bob@example.org user active',
    'ada ada@example.org user active',
    '',
  ])
  expect(JSON.parse((await users(['list', '--role', 'user', '--json'])).stdout)).toMatchObject([{ username: 'bob' }, { username: 'ada' }])
  expect((await users(['list', '--search', 'B@EX', '-o', 'id'])).stdout).toBe(`${bob.id}\n`)
  expect((await users(['list', '--limit', '1', '--search', 'a', '--role', 'user', '-o', 'id'])).stdout).not.toContain(ada.id)
  expect(await users(['list', '--disabled'])).toMatchObject({ code: 0, stdout: '' })
  expect((await users(['list', '--limit', '0'])).code).toBe(2)
  expect((await users(['list', '--role', 'editor'])).code).toBe(2)
})

test('add: password from standard input; 7 for an existing user, 0 with --if-absent; 2 for a weak password', async () => {
  const { users, signIn } = await start()
  const add = (...more: string[]) => ['add', '--username', 'Ana', '--email', 'ana@example.org', '--password-stdin', ...more]
  const made = await users(add('--role', 'admin', '--json'), `${password}\n`)
  expect(JSON.parse(made.stdout)).toMatchObject({ username: 'Ana', role: 'admin' })
  expect(await signIn('ana', password)).toBe(200)
  expect(await users(add(), password)).toMatchObject({ code: 7, stdout: '' })
  const present = await users(add('--if-absent', '--json'), 'another password')
  expect([present.code, JSON.parse(present.stdout).id]).toEqual([0, JSON.parse(made.stdout).id])
  expect(await signIn('ana', password)).toBe(200)
  const weak = await users(['add', '--username', 'w', '--email', 'w@example.org', '--password-stdin'], 'short')
  expect([weak.code, weak.stderr]).toEqual([2, expect.stringContaining('password: at least 8 characters')])
})

test('add --generate-password prints only the password', async () => {
  const { users, signIn } = await start()
  const { code, stdout, stderr } = await users(['add', '--username', 'ana', '--email', 'ana@example.org', '--generate-password'])
  expect(code).toBe(0)
  expect(stdout).toMatch(/^\S{24}\n$/)
  expect(stderr).not.toContain(stdout.trim())
  expect(await signIn('ana', stdout.trim())).toBe(200)
  const again = JSON.parse((await users(['reset-password', 'ana', '--generate-password', '--json'])).stdout)
  expect(again).toMatchObject({ username: 'ana', password: expect.stringMatching(/^\S{24}$/) })
  expect(await signIn('ana', again.password)).toBe(200)
  const existing = await users(['add', '--username', 'ana', '--email', 'ana@example.org', '--generate-password', '--if-absent', '--json'])
  expect(JSON.parse(existing.stdout)).toEqual(expect.not.objectContaining({ password: expect.anything() }))
})

test('get by name, e-mail address or id; disable, enable, set-role, reset-password; delete after typing the name', async () => {
  const { users, signIn, ada, bob, asAdmin } = await start()
  for (const name of ['ADA', 'ada@example.org', ada.id]) expect((await users(['get', name, '-o', 'id'])).stdout, name).toBe(`${ada.id}\n`)
  expect((await users(['get', 'nobody'])).code).toBe(6)
  expect((await users(['reset-password', 'ada', '--password-stdin'], password)).code).toBe(0)
  expect(await signIn('ada', password)).toBe(200)
  expect((await users(['disable', 'ada'])).code).toBe(0)
  expect(await signIn('ada', password)).toBe(401)
  expect(JSON.parse((await users(['set-role', 'bob', 'admin', '--json'])).stdout)).toMatchObject({ id: bob.id, role: 'admin' })
  expect((await users(['set-role', 'root', 'user'])).code).toBe(0)
  expect((await users(['disable', 'bob'])).code).toBe(7)
  expect((await users(['delete', 'ada', '--confirm', 'bob'])).code).toBe(2)
  expect((await users(['delete', 'ada', '--documents', 'keep', '--confirm', 'ada'])).code).toBe(2)
  expect((await users(['delete', 'ada', '--documents', 'transfer:nope', '--confirm', 'ada'])).code).toBe(6)
  expect((await users(['delete', 'ada', '--documents', 'transfer:bob', '--confirm', 'ada'])).code).toBe(0)
  await expect(asAdmin.users.get(ada.id)).rejects.toMatchObject({ status: expect.any(Number) })
})

test('token: 78, and no token, with another JWT secret than the running servers', async () => {
  const { app, databaseUrl, users, path } = await start()
  await openWebSockets(app, createServer()).then(({ close }) => onTestFinished(close))
  expect(await users(['token', 'ada'])).toMatchObject({ code: 0, stdout: expect.stringMatching(/^ey[\w-]+\.[\w-]+\.[\w-]+\n$/) })
  const env = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: path(''), JWT_SECRET: 'Z7pLk2vQ9tRw4sXy8bNc3dFg6hJm1aEu' }
  expect(await runHere(['users', 'token', 'ada'], { env })).toMatchObject({
    code: 78,
    stdout: '',
    stderr: expect.stringContaining('auth.jwt_secret differs'),
  })
})

test('export and import: a round trip with hashes and the disabled state; no hashes without --with-hashes', async () => {
  const { users, file, signIn, app } = await start()
  await users(['reset-password', 'ada', '--password-stdin'], password)
  await users(['disable', 'bob'])
  const plain = await users(['export'])
  expect(plain.stdout).toMatch(/^username,email,role,display_name,disabled\n.*bob,bob@example\.org,user,,true/s)
  expect(plain.stdout).not.toContain('argon2')
  const { stdout } = await users(['export', '--with-hashes'])
  await app.db.deleteFrom('users').where('username', 'in', ['ada', 'bob']).execute()
  const report = JSON.parse((await users(['import', await file('all.csv', stdout), '--json'])).stdout)
  expect(report).toMatchObject({ created: 2, skipped: 1, failed: 0 })
  expect(await signIn('ada', password)).toBe(200)
  const bob = await app.db.selectFrom('users').select('disabled').where('username', '=', 'bob').executeTakeFirstOrThrow()
  expect(bob.disabled).toBe(true)
})

test('import: 7 and no change for a bad row with --atomic; stops at --max-errors; 75 during another import', async () => {
  const { users, file, app } = await start()
  const rows = Array.from({ length: 50 }, (_, index) => `u${index},${index < 30 ? `nowhere${index}` : `u${index}@example.org`}\n`).join('')
  const path = await file('rows.csv', `username,email\n${rows}`)
  const atomic = await users(['import', path, '--atomic', '--json'])
  expect(atomic).toMatchObject({ code: 7, stderr: expect.stringContaining('nothing was imported: 30 of 50 rows are bad') })
  expect(JSON.parse(atomic.stdout)).toMatchObject({ created: 0, skipped: 20, failed: 30, exit_code: 7 })
  const twice = await users(['import', await file('twice.csv', 'username,email\nv,v@example.org\nV,w@example.org\n'), '--atomic'])
  expect([twice.code, twice.stderr.split('\n')[0]]).toEqual([7, 'V: line 3: username: duplicate username: see line 2'])
  const stopped = await users(['import', path, '--max-errors', '5', '--json'])
  expect([stopped.code, JSON.parse(stopped.stdout)]).toMatchObject([1, { total: 20, failed: 20 }])
  await withLock(app.database, 'users.import', 0, async () => {
    expect((await users(['import', path])).code).toBe(75)
  })
  expect((await users(['list', '-o', 'id'])).stdout.trim().split('\n')).toHaveLength(3)
})

const staff = `\ufefflogin;mail;password;display_name\r
ana;ana@example.org;${password};"Ana ""A""; Maria"\r
\r
bad one;nowhere;short;"two
lines"\r
ada;ada@example.org;${password};Ada\r
ANA;other@example.org;;\r
`

test('import: 1 VALIDATION_ERROR for a masked password; --rejects makes an existing file private and keeps the password', async () => {
  const { users, file, path, signIn } = await start()
  const masked = await users(['import', await file('masked.csv', 'username,email,password\neve,eve@example.org,*********\n'), '-q'])
  expect(masked).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('password: a mask of asterisks, not a password') })
  await file('bad.csv', 'an older file')
  const marked = `\u200f${password}`
  const rows = await file('eve.csv', `username,email,password\neve,nowhere,${marked}\n`)
  expect((await users(['import', rows, '--rejects', path('bad.csv')])).code).toBe(1)
  expect((await stat(path('bad.csv'))).mode & 0o777).toBe(0o600)
  const rejects = await readFile(path('bad.csv'), 'utf8')
  expect((await users(['import', await file('good.csv', rejects.replace('nowhere', 'eve@example.org'))])).code).toBe(0)
  expect(await signIn('eve', marked)).toBe(200)
})

test('import: 2 before anything is imported if --rejects cannot be written, or is the imported file; without bad rows it leaves no file', async () => {
  const { users, file, path, app } = await start()
  const rows = await file('eve.csv', `username,email\neve,eve@example.org\n`)
  const count = async () => (await app.db.selectFrom('users').select('id').execute()).length
  const before = await count()
  const refused = await users(['import', rows, '--rejects', path('nowhere/bad.csv')])
  expect(refused).toMatchObject({ code: 2, stderr: expect.stringContaining('--rejects') })
  const same = await users(['import', rows, '--rejects', rows])
  expect(same).toMatchObject({ code: 2, stderr: expect.stringContaining(`--rejects ${rows} is the file that is imported`) })
  expect(await count()).toBe(before)
  const generated = ['--passwords', 'generate', '--passwords-out', path('new.pw')]
  expect((await users(['import', rows, '--rejects', path('nowhere/bad.csv'), ...generated])).code).toBe(2)
  await expect(stat(path('new.pw'))).rejects.toMatchObject({ code: 'ENOENT' })
  expect((await users(['import', rows, '--rejects', path('bad.csv')])).code).toBe(0)
  await expect(stat(path('bad.csv'))).rejects.toMatchObject({ code: 'ENOENT' })
})

test('import: 69 if the server is lost midway, with the summary and the rejects so far', async () => {
  const { app, admin, url } = await startServer()
  const folder = await mkdtemp(join(tmpdir(), 'dms-users-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  let importCount = 0
  const proxy = createServer(async (request, response) => {
    const { url: path = '', method = 'GET', headers } = request
    const content = await text(request)
    if (path.startsWith('/api/users/import') && ++importCount > 1) return void request.socket.destroy()
    const { authorization = '', 'content-type': type = 'application/json' } = headers
    const body = method === 'GET' ? {} : { body: content }
    const answer = await fetch(new URL(path, url), { method, headers: { authorization, 'content-type': type }, ...body })
    response.writeHead(answer.status, { 'content-type': 'application/json' }).end(await answer.text())
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => void proxy.close())
  const rows = Array.from({ length: 30 }, (_, index) => `u${index},${index === 3 ? 'nowhere' : `u${index}@example.org`}\n`)
  await writeFile(join(folder, 'rows.csv'), `username,email\n${rows.join('')}`)
  const rejects = join(folder, 'bad.csv')
  const env = { DMS_URL: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, DMS_TOKEN: await tokenFor(app, admin) }
  // With --max-errors, 20 rows are sent at a time.
  const args = ['users', 'import', join(folder, 'rows.csv'), '--max-errors', '10', '--rejects', rejects, '-o', 'jsonl']
  const { code, stdout } = await runHere(args, { env })
  expect(importCount).toBe(2)
  expect([code, readBatch(stdout).summary]).toMatchObject([
    69,
    { created: 19, failed: 1, exit_code: 69, error: { code: expect.any(String) } },
  ])
  expect(await readFile(rejects, 'utf8')).toMatch(/^username,.*\nu3,nowhere,.*\n$/)
  importCount = 1
  expect(await runHere(args, { env })).toMatchObject({ code: 69, stdout: '' })
  expect(await readFile(rejects, 'utf8')).toContain('u3,nowhere')
})

test('import: passwords keep their spaces; 2 for standard input that is not UTF-8', async () => {
  const { users, file, path, signIn } = await start()
  const spaced = ` ${password} `
  expect((await users(['import', await file('eve.csv', `username,email,password\neve,eve@example.org,"${spaced}"\n`)])).code).toBe(0)
  expect([await signIn('eve', spaced), await signIn('eve', password)]).toEqual([200, 401])
  await writeFile(path('latin1.csv'), 'username,email,display_name\nmueller,m@example.org,Müller\n', 'latin1')
  const input = await open(path('latin1.csv'))
  const child = spawn(process.execPath, [executable, 'users', 'import', '-', '--format', 'csv'], { stdio: [input.fd, 'ignore', 'pipe'] })
  const [stderr, [code]] = await Promise.all([text(child.stderr!), once(child, 'exit')])
  await input.close()
  expect([code, stderr]).toEqual([2, expect.stringContaining('standard input is not UTF-8')])
})

test('import: --map for other column names; 3 with bad rows reported and written to --rejects, which can be imported', async () => {
  const { users, file, path, signIn } = await start()
  const args = ['import', await file('staff.csv', staff), '--map', 'username=login,email=mail', '--rejects', path('bad.csv')]
  const { code, stdout, stderr } = await users([...args, '-o', 'jsonl'])
  expect(code).toBe(3)
  const lines = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  const items = lines.slice(0, -1).map(({ line, key, action }) => [line, key, action])
  expect(items.sort()).toEqual([
    [2, 'ana', 'created'],
    [4, 'bad one', 'failed'],
    [6, 'ada', 'skipped'],
    [7, 'ANA', 'failed'],
  ])
  expect(lines.at(-1)).toMatchObject({ type: 'summary', total: 4, created: 1, skipped: 1, failed: 2, exit_code: 3 })
  expect(stderr).toContain('wrote 2 rows to')
  const rejects = await readFile(path('bad.csv'), 'utf8')
  expect((await stat(path('bad.csv'))).mode & 0o777).toBe(0o600)
  expect(stdout + stderr).not.toMatch(/correct horse|short/)
  const [head, ...rows] = parseCsv(rejects).map(({ fields }) => fields)
  expect(head?.slice(-4)).toEqual(['_line', '_field', '_code', '_error'])
  expect(rows.map((row) => [row[0], row[2], ...row.slice(7, 10)])).toEqual([
    ['ANA', '', '7', 'username', 'DUPLICATE_RESOURCE'],
    ['bad one', 'short', '4', 'username email password display_name', 'VALIDATION_ERROR'],
  ])
  expect(await signIn('ana', password)).toBe(200)

  const again = await users([
    'import',
    await file('good.csv', rejects.replace('bad one,nowhere,short', `good,good@example.org,${password}`).replace('two\nlines', 'one')),
    '--json',
  ])
  expect(JSON.parse(again.stdout)).toMatchObject({ created: 1, skipped: 1, failed: 0, exit_code: 0 })
})

test('import: --dry-run changes nothing; --on-conflict update reports unchanged rows; fail exits 7', async () => {
  const { users, file, app } = await start()
  const rows = [
    { username: 'ada', email: 'ada@example.org', display_name: 'Ada' },
    { username: 'bob', email: 'bob@example.org' },
  ]
  const path = await file('staff.jsonl', rows.map((row) => `${JSON.stringify(row)}\n`).join('\n'))
  const report = async (...more: string[]) => {
    const { code, stdout, stderr } = await users(['import', path, '--json', '--progress', 'json', ...more])
    const progress = stderr.match(/^\{"type":"progress".*$/gm)?.map((line) => JSON.parse(line)) ?? []
    expect([progress[0], progress.at(-1)]).toMatchObject([
      { done: 0, total: 2 },
      { done: 2, total: 2 },
    ])
    const { updated, unchanged, failed, dry_run, exit_code } = JSON.parse(stdout)
    expect(exit_code).toBe(code)
    return { code, updated, unchanged, failed, dry_run }
  }
  const nameOfAda = async () =>
    (await app.db.selectFrom('users').select('display_name').where('username', '=', 'ada').executeTakeFirst())?.display_name
  expect(await report('-n', '--on-conflict', 'update')).toEqual({ code: 0, updated: 1, unchanged: 1, failed: 0, dry_run: true })
  expect(await nameOfAda()).toBe('')
  expect(await report('--on-conflict', 'update')).toEqual({ code: 0, updated: 1, unchanged: 1, failed: 0, dry_run: false })
  expect(await nameOfAda()).toBe('Ada')
  expect(await report('--on-conflict', 'fail')).toMatchObject({ code: 7, failed: 2 })
})

test('import --passwords generate: for new users only, to a file with mode 0600 that is never overwritten', async () => {
  const { users, path, signIn } = await start()
  const rows = JSON.stringify({
    users: [
      { username: 'ana', email: 'ana@example.org' },
      { username: 'ada', email: 'ada@example.org' },
    ],
  })
  const args = ['import', '-', '--format', 'json', '--passwords', 'generate', '--on-conflict', 'update', '--passwords-out', path('new.csv')]
  expect((await users(args, rows)).code).toBe(0)
  const [, line, ...others] = parseCsv(await readFile(path('new.csv'), 'utf8'))
  expect([line?.fields[0], others]).toEqual(['ana', []])
  expect((await stat(path('new.csv'))).mode & 0o777).toBe(0o600)
  expect(await signIn('ana', line?.fields[1] ?? '')).toBe(200)
  expect((await users(args, rows)).code).toBe(7)
})

test('import: 2 for a file that cannot be read, an unknown column, no format', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'dms-rows-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const odd = join(folder, 'odd.csv')
  await writeFile(odd, 'username,email,shoe_size\na,a@example.org,44\n')
  expect(await runHere(['users', 'import', odd])).toMatchObject({
    code: 2,
    stdout: '',
    stderr: expect.stringContaining('unknown column shoe_size'),
  })
  for (const [name, content, says] of [
    ['open.csv', 'username,email\n"a,a@example.org\n', 'line 2: a quote is not closed'],
    ['long.csv', 'username,email\na,b,c\n', 'line 2: 3 fields, but 2 columns'],
    ['latin1.csv', Buffer.from('username\nJos\xe9\n', 'latin1'), 'not UTF-8'],
    ['plain.txt', '', 'cannot tell the format of'],
    ['x.json', '{"users":7}', 'no array'],
    ['y.jsonl', '{}\n{', 'line 2'],
  ] as const) {
    await writeFile(join(folder, name), content)
    await expect(readUserRows(join(folder, name), {})).rejects.toMatchObject({ exit: 'USAGE', message: expect.stringContaining(says) })
  }
  await expect(readUserRows(join(folder, 'missing.csv'), {})).rejects.toMatchObject({ exit: 'USAGE' })
  await expect(readUserRows(odd, { map: 'shoe=shoe_size' })).rejects.toMatchObject({ exit: 'USAGE' })
})

test('parseCsv: BOM, CRLF, quotes, semicolons, tabs; throws for text after a closing quote', () => {
  const read = (text: string) => parseCsv(text).map(({ line, fields }) => [line, ...fields])
  expect(read('a,b\n1,2')).toEqual([
    [1, 'a', 'b'],
    [2, '1', '2'],
  ])
  expect(read('\ufeffa;b\r\n"x;""y""\r\nz";2\r\n\r\n3;')).toEqual([
    [1, 'a', 'b'],
    [2, 'x;"y"\r\nz', '2'],
    [5, '3', ''],
  ])
  expect(read('a\tb\r1\t,\r\t\r')).toEqual([
    [1, 'a', 'b'],
    [2, '1', ','],
  ])
  expect(read('')).toEqual([])
  expect(() => read('a,b\n"x"y,2')).toThrow('line 2: text follows a closing quote')
})
