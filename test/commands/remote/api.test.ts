import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findProgram } from '../../../src/config/find-program.ts'
import { upload } from '../../support/app.ts'
import { cliTransports, startCli } from '../../support/cli-transports.ts'
import { bareEnvironment, executable } from '../../support/processes/run.ts'
import { runHere } from '../../support/processes/run-here.ts'
import { startServer, tokenFor } from '../../support/servers/server.ts'

test('api: equal output and exit code locally and over HTTP; a request id only over HTTP', async () => {
  const here = await startCli('local')
  const label = (await here.asAda.labels.create({ name: 'Tax', color: '#123456' })).id
  const remote = { DMS_URL: here.url, DMS_TOKEN: here.token, DMS_AS: '', DATABASE_URL: '', DMS_DATA_DIR: '/nonexistent' }
  const file = join(here.folder, 'label.json')
  await writeFile(file, '{"name":"From a file","color":"#123456"}')
  const lines = [
    ['labels', 'list', '--json', '--fields', 'name,color'],
    ['documents', 'get', '0192f0c1-0000-7000-8000-000000000000'],
    ['users', 'list'],
    ['api', 'GET', '/api/settings'],
    ['api', 'get', 'api/documents', '-f', 'status=failed', '-F', 'per_page=1', '--paginate'],
    ['api', 'POST', '/api/labels', '-f', 'name=Tax'],
    ['api', 'PUT', `/api/labels/${label}`, '-f', 'description=paid ✓', '-H', 'X-Request-Id: one', '--json'],
  ]
  const withoutIds = (text: string) => text.replaceAll(/("updated_at":")[^"]+/g, '$1').replaceAll(/ +request id: \S+\n/g, '')
  for (const line of lines) {
    const [one, two] = await Promise.all([here.dms(line), here.dms(line, { env: remote })])
    expect({ ...two, stdout: withoutIds(two.stdout), stderr: withoutIds(two.stderr) }, line.join(' ')).toEqual({
      ...one,
      stdout: withoutIds(one.stdout),
      stderr: one.stderr,
    })
    expect(two.stderr.includes('request id: '), line.join(' ')).toBe(two.code !== 0)
  }
  for (const env of [{}, remote]) {
    const made = JSON.parse((await here.dms(['api', 'POST', '/api/labels', '--input', file], { env })).stdout) as {
      id: string
      name: string
    }
    expect(made.name).toBe('From a file')
    await here.asAda.labels.delete(made.id)
    const piped = await here.dms(['api', 'POST', '/api/labels', '--input', '-', '-i'], { env, input: '{"name":"Piped","color":"#123456"}' })
    expect(piped.stdout).toMatch(/^HTTP 201.*\ncontent-type: application\/json.*\n\n\{/s)
    const { id } = JSON.parse(piped.stdout.split('\n\n')[1] ?? '') as { id: string }
    expect(await here.dms(['api', 'DELETE', `/api/labels/${id}`], { env })).toMatchObject({ code: 0, stdout: '', stderr: '' })
  }
})

test.each(cliTransports)('%s: 2 for an invalid request, without sending it', async (transport) => {
  const { dms, token } = await startCli(transport)
  for (const args of [
    ['GET', '//elsewhere.example/api'],
    ['GET', 'https://elsewhere.example/api'],
    ['G E T', '/api/settings'],
    ['FOO', '/api/settings'],
    ['GET', '/api/settings', '-f', 'nothing'],
    ['POST', '/api/labels', '-F', 'name=text'],
    ['POST', '/api/labels', '--input', '/nonexistent/file'],
    ['POST', '/api/labels', '--input', '-', '-f', 'a=b'],
    ['GET', '/api/settings', '-H', `Authorization: Bearer ${token}`],
    ['GET', '/api/settings', '--paginate'],
    ['GET', '/api/settings', '--fields', 'theme'],
  ])
    expect(await dms(['api', ...args]), args.join(' ')).toMatchObject({ code: 2, stdout: '' })
})

const curl = findProgram('curl')
if (!curl) process.stderr.write('skipped: without the program `curl` its line cannot be tried\n')

/** Runs shell lines with the token and returns both output streams as one text. */
const shellWith = (token: string) => (lines: string) =>
  new Promise<string>((resolve) => {
    const child = spawn('sh', ['-c', lines], { env: bareEnvironment({ DMS_TOKEN: token }) })
    let text = ''
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (part: string) => {
        text += part
      })
    child.on('close', () => resolve(text))
  })

test.skipIf(!curl)('--print-curl sends nothing, prints no token, and its output has the same effect', async () => {
  const { dms, url, token, asAda, folder } = await startCli('HTTP')
  const sh = shellWith(token)
  const create = await dms(['--print-curl', 'labels', 'create', "it's $HOME"])
  expect(create).toMatchObject({
    code: 0,
    stderr: '',
    stdout: expect.stringMatching(/^curl -fsS -X POST -H "Authorization: Bearer \$DMS_TOKEN" .*\n$/),
  })
  expect(create.stdout).not.toContain(token)
  expect(await asAda.call<{ total?: number; labels?: unknown[] }>('GET', '/api/labels')).not.toMatchObject({ data: [{}] })
  expect(JSON.parse(await sh(create.stdout))).toMatchObject({ name: "it's $HOME" })
  const odd = join(folder, 'a; b,c.txt')
  await writeFile(odd, 'some words')
  const upload = await dms(['--print-curl', 'documents', 'upload', odd, '--title', 'x=@y'])
  expect(JSON.parse(await sh(upload.stdout))).toMatchObject({ document: { title: 'x=@y', filename: 'a; b,c.txt' } })
  const list = await dms(['--print-curl', 'documents', 'list'])
  expect(await sh(list.stdout)).toContain('x=@y')
  const ids = [randomUUID(), randomUUID()]
  const two = await dms(['--print-curl', 'documents', 'delete', ...ids, '-y'])
  expect([two.code, two.stdout.split('\n').map((line) => line.slice(-36))]).toEqual([0, [...ids, '']])
  const secret = await dms(['--print-curl', 'api', 'POST', '/api/auth/register', '-f', 'username=x', '-f', 'password=hidden'])
  expect(secret.stdout).toContain(`"password":"'"\${password:?}"'"`)
  expect(secret.stdout).not.toMatch(/hidden|Authorization/)
  expect(
    JSON.parse(
      await sh(`password='a long enough one'; ${secret.stdout.replace('"username":"x"', '"username":"xen","email":"x@example.org"')}`),
    ),
  ).toMatchObject({ username: 'xen' })
  const login = await dms(['--print-curl', 'login', url, '--username', 'eve'], { env: { DMS_URL: '' } })
  expect(login.stdout).toMatch(/^curl -fsS -X POST (?!.*Bearer).*"username":"eve".*\/api\/auth\/login\n$/)
  expect((await dms(['--print-curl', 'migrate'], { env: { DMS_URL: '' } })).code).toBe(2)
  expect((await dms(['--print-curl', '--local', 'labels', 'list'], { env: { DMS_URL: url } })).code).toBe(2)
})

const jq = findProgram('jq')
if (!jq) process.stderr.write('skipped: without the program `jq` a printed look-up cannot be tried\n')

test.skipIf(!curl || !jq)(
  '--print-curl looks names up in the shell that runs the lines, and shows every one of several requests',
  async () => {
    const root = await mkdtemp(join(tmpdir(), 'dms-curl-'))
    onTestFinished(() => rm(root, { recursive: true, force: true }))
    const { app, admin, bob, url, asAdmin } = await startServer({ 'sources.local_roots': root })
    const token = await tokenFor(app, admin)
    const sh = shellWith(token)
    const printed = async (...args: string[]) => {
      const { code, stdout, stderr } = await runHere(['--print-curl', ...args], { env: { DMS_URL: url, DMS_TOKEN: token } })
      expect([code, stderr], args.join(' ')).toEqual([0, ''])
      return stdout
    }
    const name = `it's "A" $tax`
    const label = await asAdmin.labels.create({ name, color: '#123456' })
    const other = await asAdmin.labels.create({ name: 'Other', color: '#123456' })
    const [scans, inbox] = [
      await asAdmin.sources.create({ name: 'Scans', type: 'local_folder', url: root }),
      await asAdmin.sources.create({ name: 'In', type: 'local_folder', url: root }),
    ]
    const documents = [await upload(asAdmin, 'a.txt', 'some words'), await upload(asAdmin, 'b.txt', 'other words')]
    const ids = documents.map(({ id }) => id)
    const job = (await asAdmin.ocrQueue.page()).data.find(({ document_id }) => document_id === ids[0])

    const changes = await printed('labels', 'update', name.toUpperCase(), '--colour', '#654321')
    expect(changes.split('\n')).toEqual([
      expect.stringMatching(/^label=\$\(curl -fsS .*\/api\/labels \| jq -r --arg name /),
      expect.stringMatching(/^curl -fsS -X PUT .*\/api\/labels\/"\$\{label:\?\}"$/),
      '',
    ])
    expect(JSON.parse(await sh(changes))).toMatchObject({ id: label.id, color: '#654321' })

    await sh(await printed('documents', 'update', ...ids, '--set', 'k=v', '--add-label', `${name},other`))
    for (const id of ids)
      expect(await asAdmin.documents.get(id)).toMatchObject({ labels: expect.arrayContaining([name, 'Other']), metadata: { k: 'v' } })
    await sh(await printed('documents', 'update', ids[0] ?? '', '--remove-label', 'other'))
    expect(await asAdmin.documents.get(ids[0] ?? '')).toMatchObject({ label_ids: [label.id] })
    expect(JSON.parse(await sh(await printed('documents', 'list', '--label', `other,${name}`)))).toMatchObject({ data: [{ id: ids[1] }] })

    const both = (await sh(await printed('documents', 'get', ...ids))).matchAll(/"filename":"(.)/g)
    expect([...both].map(([, letter]) => letter)).toEqual(['a', 'b'])
    expect((await printed('documents', 'wait', ...ids)).split('\n')).toHaveLength(3)
    expect(await sh(await printed('sources', 'sync', 'scans', 'IN'))).toMatch(/job_id.*job_id/s)
    for (const { id } of [scans, inbox]) expect((await asAdmin.sources.syncStatus(id)).state).toBe('queued')
    expect(JSON.parse(await sh(await printed('sources', 'get', 'scans')))).toMatchObject({ id: scans.id })
    expect(JSON.parse(await sh(await printed('users', 'get', bob.email)))).toMatchObject({ username: bob.username })
    expect(JSON.parse(await sh(await printed('users', 'disable', bob.username)))).toMatchObject({ id: bob.id, disabled: true })
    expect(await printed('ocr', 'queue', 'retry', job?.id ?? '')).toMatch(
      /^document=.*\/api\/ocr\/queue\/.*\n.*\/documents\/"\$\{document:\?\}"\/retry-ocr\n$/,
    )
    await sh(await printed('labels', 'delete', 'other'))
    expect((await asAdmin.labels.list()).map(({ id }) => id)).toEqual([label.id])
    // Without a match no request is sent.
    expect(await sh(await printed('labels', 'delete', other.name))).toMatch(/0 are called Other.*label/s)
  },
)

test('0 without messages if the reader of an answer closes the pipe', async () => {
  const { url, token } = await startCli('HTTP')
  const child = spawn(process.execPath, [executable, 'api', 'GET', '/api/openapi.json'], {
    env: bareEnvironment({ DMS_URL: url, DMS_TOKEN: token }),
  })
  child.stdout.destroy()
  let stderr = ''
  child.stderr.on('data', (text: Buffer) => {
    stderr += text.toString()
  })
  expect(await new Promise((resolve) => child.on('close', (code) => resolve({ code, stderr })))).toEqual({ code: 0, stderr: '' })
})

test('-vv logs each request without secrets', async () => {
  const { dms } = await startCli('HTTP')
  const { stderr } = await dms(['api', 'GET', '/api/public/shared/abcdefghijklmnop', '-f', 'token=geheim', '-vv'])
  expect(stderr).toMatch(/^GET http:\S+\/public\/shared\/…\?token=… {2}404 {2}\d+ ms\n/)
  expect(stderr).not.toMatch(/abcdefg|geheim/)
})

test('--print-curl sends nothing for reading commands', async () => {
  const nobody = { env: { DMS_URL: 'http://127.0.0.1:1', DMS_TOKEN: 'token' } }
  for (const word of ['version', 'healthcheck', 'whoami'])
    expect([word, await runHere(['--print-curl', word], nobody)]).toMatchObject([
      word,
      { code: 0, stdout: expect.stringMatching(/^curl .*:1\/\S+\n$/) },
    ])
  expect(await runHere(['--print-curl', 'doctor'], nobody)).toMatchObject({ code: 2, stdout: '' })
})
