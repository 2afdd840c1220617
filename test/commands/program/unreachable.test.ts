import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { bareEnvironment, executable } from '../../support/processes/run.ts'
import { runHere } from '../../support/processes/run-here.ts'
import { startServer } from '../../support/servers/server.ts'

/** Runs a server that accepts connections and never answers. */
async function withSilentServer(work: (url: string) => Promise<void>): Promise<void> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    await work(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  } finally {
    server.close()
    server.closeAllConnections()
  }
}

test('69 soon after --timeout if the server does not answer', async () => {
  await withSilentServer(async (url) => {
    const started = performance.now()
    expect(await runHere(['users', 'list', '--url', url, '--timeout', '1s'])).toMatchObject({
      code: 69,
      stdout: '',
      stderr: expect.stringContaining('--timeout of 1 s'),
    })
    expect(performance.now() - started).toBeLessThan(10_000)
  })
})

test('4 for a refused token from a variable, with the name of the variable and a fix', async () => {
  const { url, dataDir } = await startServer()
  const file = join(dataDir, 'token')
  await writeFile(file, 'of nobody\n')
  for (const [name, value, place] of [
    ['DMS_TOKEN', 'of nobody', 'DMS_TOKEN:'],
    ['DMS_TOKEN_FILE', file, `DMS_TOKEN_FILE=${file}:`],
  ] as const)
    for (const words of [['documents', 'list'], ['whoami'], ['events', 'tail']])
      expect([name, words, await runHere(words, { env: { DMS_URL: url, [name]: value } })]).toMatchObject([
        name,
        words,
        { code: 4, stdout: '', stderr: expect.stringMatching(`^error: ${url} refuses the token of ${place} .*\n +fix: dms login ${url},`) },
      ])
})

test('69 with the name of the server if the connection breaks in the middle of an answer', async () => {
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' })
    response.write('{"data":[', () => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const { code, stderr } = await runHere(['documents', 'list', '--url', url, '--timeout', '20s'], { env: { DMS_TOKEN: 'any' } })
  expect([code, stderr]).toEqual([69, expect.stringContaining(url)])
  expect(stderr).not.toContain('database')
})

test('69 after --timeout while an unreachable server is retried', async () => {
  expect(await runHere(['users', 'list', '--url', 'http://127.0.0.1:1', '--timeout', '1s'])).toMatchObject({
    code: 69,
    stdout: '',
    stderr: 'error: --timeout of 1 s has passed\n',
  })
})

test('69 after --timeout, and no rows follow when the server answers later', async () => {
  const page = (ids: string[], next_cursor: string | null) =>
    JSON.stringify({ data: ids.map((id) => ({ id })), pagination: { total: 2, has_next: next_cursor !== null, next_cursor } })
  const server = createServer((request, response) => {
    response.setHeader('content-type', 'application/json')
    if (request.url?.includes('cursor=')) setTimeout(() => response.end(page(['late'], null)), 2000)
    else response.end(page(['early'], 'next'))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  expect(await runHere(['users', 'list', '--all', '-o', 'id', '--url', url, '--timeout', '1s'], { env: { DMS_TOKEN: 'x' } })).toMatchObject(
    {
      code: 69,
      stdout: 'early\n',
      stderr: 'error: --timeout of 1 s has passed\n',
    },
  )
})

test('8 with an error after --timeout stopped work on many items', async () => {
  const server = createServer((request, response) => {
    if (request.method === 'DELETE') setTimeout(() => response.writeHead(204).end(), 1500)
    else response.setHeader('content-type', 'application/json').end(JSON.stringify({ data: [], trash_days: 30 }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const ids = [crypto.randomUUID(), crypto.randomUUID()]
  expect(await runHere(['documents', 'delete', ...ids, '-q', '--url', url, '--timeout', '1s'], { env: { DMS_TOKEN: 'x' } })).toMatchObject({
    code: 8,
    stderr: 'error: --timeout of 1 s has passed: the work is not complete\n',
  })
})

test('69 soon after --timeout if nobody reads standard output', async () => {
  const { databaseUrl, dataDir } = await startServer()
  const env = bareEnvironment({ DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir })
  const child = spawn(process.execPath, [executable, 'api', 'GET', '/api/openapi.json', '--timeout', '3s'], {
    env,
    stdio: ['ignore', 'pipe', 'ignore'],
    timeout: 30_000,
  })
  child.stdout.pause()
  expect(await once(child, 'exit')).toEqual([69, null])
})

test('69 if nothing listens', async () => {
  let gone = ''
  await withSilentServer(async (url) => {
    gone = url
  })
  // A link is fetched from its own server, without a local database.
  const link = `${gone}/api/public/shared/abcdefghijklmnopqrstuvwx`
  expect(await runHere(['shared-links', 'info', link])).toMatchObject({
    code: 69,
    stderr: expect.stringContaining(`${gone} cannot be reached`),
  })
  expect(await runHere(['users', 'list'], { env: { DMS_URL: gone } })).toMatchObject({
    code: 69,
    stdout: '',
    stderr: expect.stringMatching(`^error: ${gone} cannot be reached: .*ECONNREFUSED.*\n +fix: dms --url ${gone} doctor\n$`),
  })
})

test('69 with the name of a database that is missing, has no socket, or does not answer', async () => {
  const silent = createTcpServer().listen(0, '127.0.0.1')
  onTestFinished(() => void silent.close())
  await once(silent, 'listening')
  const places = ['127.0.0.1:1/none', 'localhost/none?host=/nonexistent', `127.0.0.1:${(silent.address() as AddressInfo).port}/none`]
  const commands = [
    ['users', 'list'],
    ['migrate', 'check'],
    ['backup', 'create', '--to', '-'],
    ['worker', '--once'],
  ]
  const tried = places.flatMap((place) => commands.map((words) => ({ place, words })))
  const ended = await Promise.all(
    tried.map(async ({ place, words }) => {
      const env = { DATABASE_URL: `postgres://nobody@${place}`, DMS_DATABASE_CONNECT_TIMEOUT: '1s' }
      return { place, words, ...(await runHere(words, { env })) }
    }),
  )
  expect(ended).toMatchObject(
    tried.map((line) => ({
      ...line,
      code: 69,
      stdout: '',
      stderr: expect.stringMatching(/^error: the database cannot be reached: .*\n {9}fix: dms doctor --only config,database\n$/),
    })),
  )
})
