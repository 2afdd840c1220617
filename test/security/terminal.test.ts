/** Values with control sequences or line breaks: how logs and commands print them. */
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run, type Streams } from '../../commands/program.ts'
import { openLog } from '../../src/log/log.ts'
import { buildServer } from '../../src/server/http/assemble.ts'
import { startApp, upload } from '../support/app.ts'
import { folder } from '../support/places.ts'
import { bareEnvironment } from '../support/processes/run.ts'
import { startServer, tokenFor } from '../support/servers/server.ts'

/** A forged log line, the window title, the clipboard, a disguised link, colours, an eight-bit introducer, and reversed text. */
const attacks = {
  'a line': 'x\r\n{"level":"info","msg":"forged"}',
  'a title': '\u001b]0;owned\u0007',
  'the clipboard': '\u001b]52;c;b3duZWQ=\u001b\\',
  'a link': '\u001b]8;;http://evil.test\u001b\\fine\u001b]8;;\u001b\\',
  'a cleared screen': '\u001b[2J\u001b[31m',
  'eight bits': '\u009b31m\u009d0;owned\u009c',
  'turned text': 'invoice_\u202efdp.exe\u2066\u2069',
  'other ends of lines': 'a\u2028b\u2029c\u0085d\u000be\u007f',
}
const evil = Object.values(attacks).join(' ')

// biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose
const obeyed = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/

test.each(['json', 'pretty'] as const)('log lines as %s: any value is text of its own line', async (format) => {
  const file = join(await folder(), 'log')
  for (const attack of Object.values(attacks)) {
    const log = openLog({ level: 'info', format, file })
    log.info({ name: attack, ip: attack, [attack]: attack, deep: [{ inside: attack }], err: new Error(attack) }, attack)
  }
  const text = await readFile(file, 'utf8')
  expect(obeyed.exec(text)).toBeNull()
  const lines = text.trimEnd().split('\n')
  if (format === 'pretty') return expect(lines.filter((line) => /^\S*\{"level"/.test(line))).toEqual([])
  const read = lines.map((line) => JSON.parse(line))
  expect(read.map(({ msg, name, deep, err }) => [msg, name, deep[0].inside, err.message])).toEqual(
    Object.values(attacks).map((attack) => [attack, attack, attack, attack]),
  )
})

test('a server log: one line of JSON for each request, whatever names, headers, words and paths contain', async () => {
  const { app, ada, asAda, dataDir } = await startApp({ 'log.access': true })
  const file = join(dataDir, 'log')
  const server = buildServer({ ...app, log: openLog({ level: 'debug', format: 'json', file }) })
  const token = await tokenFor(app, ada)
  const { id } = await upload(asAda, 'a.txt', 'a')
  // The characters that fetch accepts in a header.
  const header = '\u009b31m\u0085 "} {"level":"info","msg":"forged"'
  const ask = (method: string, path: string, body?: object) =>
    server.request(path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        'user-agent': header,
        'x-request-id': header,
        'x-forwarded-for': header,
        ...(body === undefined ? {} : { 'idempotency-key': header }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  const requests = Object.values(attacks).flatMap((attack) => [
    () => ask('POST', '/api/auth/login', { username: attack, password: attack }),
    () => ask('POST', '/api/auth/register', { username: attack, email: attack, password: attack }),
    () => ask('PUT', `/api/documents/${id}`, { title: attack, metadata: { [attack]: attack } }),
    () => ask('POST', '/api/labels', { name: attack, color: '#112233' }),
    () => ask('POST', `/api/comments/documents/${id}/comments`, { content: attack }),
    () => ask('POST', '/api/sources', { name: attack, type: 'folder', url: `/srv/${attack}`, sync_interval: 0 }),
    () => ask('POST', '/api/sources/test', { type: 'webdav', url: `http://127.0.0.1:9/${encodeURIComponent(attack)}` }),
    () => ask('POST', '/api/tokens', { name: attack, scopes: ['read'] }),
    () => ask('GET', `/api/search?q=${encodeURIComponent(attack)}`),
    () => ask('GET', `/api/documents/${encodeURIComponent(attack)}`),
    () => ask('GET', `/${encodeURIComponent(attack)}`),
    () => ask('GET', `/api/public/shared/${encodeURIComponent(attack)}`),
  ])
  for (const one of requests) await (await one()).arrayBuffer()
  const text = await readFile(file, 'utf8')
  expect(obeyed.exec(text)).toBeNull()
  const lines = text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { msg: string; request_id?: string })
  expect(lines.filter(({ msg }) => msg === 'request')).toHaveLength(requests.length)
  expect(lines.filter(({ msg, request_id }) => msg === 'forged' || (request_id !== undefined && !/^[\w.-]+$/.test(request_id)))).toEqual([])
})

test('commands: tables, sentences, notes, errors, TSV and CSV have no control sequences for a terminal', async () => {
  const { url, token, asAda } = await startServer()
  const document = await upload(asAda, 'plain.txt', `harbour ${evil}`)
  await asAda.documents.update(document.id, { title: evil, metadata: { [evil]: evil } })
  await asAda.comments.create(document.id, { content: evil })
  const taken = await Promise.all([
    asAda.send('POST', '/api/labels', { name: evil.slice(0, 100), color: '#112233', description: evil }),
    asAda.send('POST', '/api/tokens', { name: evil.slice(0, 100), scopes: ['read'] }),
    asAda.send('POST', '/api/sources', { name: evil.slice(0, 100), type: 'webdav', url: 'http://127.0.0.1:9/', sync_interval: 0 }),
    asAda.send('POST', '/api/shared-links', { document_id: document.id }),
  ])
  for (const { status } of taken) expect([201, 400]).toContain(status)

  async function dms(args: readonly string[], isTTY: boolean): Promise<string> {
    let said = ''
    const write = (text: string) => {
      said += text
      return true
    }
    const stream = () => ({ write, isTTY, columns: 120 })
    const env = bareEnvironment({ DMS_URL: url, DMS_TOKEN: token, NO_COLOR: '1' })
    await run(args, { env, stdin: {}, stdout: stream(), stderr: stream() } as unknown as Streams)
    return said
  }
  const { id } = document
  const commands = [
    ['documents', 'list', '-o', 'wide'],
    ['documents', 'get', id],
    ['documents', 'update', id, '--title', `${evil}!`],
    ['documents', 'get', evil],
    ['documents', 'list', '--label', evil],
    ['labels', 'list'],
    ['labels', 'create', evil.slice(1, 90)],
    ['labels', 'delete', evil, '--yes'],
    ['comments', 'list', id],
    ['comments', 'add', id, evil],
    ['sources', 'list'],
    ['sources', 'test', evil],
    ['tokens', 'list'],
    ['tokens', 'create', evil.slice(1, 90), '--scope', 'read'],
    ['shared-links', 'list'],
    ['shared-links', 'create', id],
    ['search', 'query', evil],
    ['notifications', 'list'],
    ['ocr', 'queue', 'list'],
    ['users', 'get', evil],
    [evil],
    ['documents', `--${evil}`],
    ['documents', 'list', '--fields', evil],
    ['documents', 'list', '-o', evil],
  ]
  let count = 0
  for (const args of commands)
    for (const [isTTY, more] of [
      [true, []],
      [false, ['-o', 'tsv']],
      [false, ['-o', 'csv']],
    ] as const) {
      // In CSV an end of a line may stand in quotes.
      const said = (await dms([...args, ...more], isTTY)).replaceAll(
        more[1] === 'csv' ? /[\t\r]/g : more[1] === 'tsv' ? /\t/g : /(?!)/g,
        '',
      )
      count += said.includes('owned') ? 1 : 0
      expect.soft([args, more, obeyed.exec(said)?.[0]]).toEqual([args, more, undefined])
      expect
        .soft([args, more, /^\{"level/m.test(said.replaceAll(more[1] === 'csv' ? /"[^"]*(?:""[^"]*)*"/g : /(?!)/g, ''))])
        .toEqual([args, more, false])
    }
  expect(count).toBeGreaterThan(20)
})
