import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { run as runHere, type Streams } from '../../../commands/program.ts'
import { formatErrorJson, formatErrorLines } from '../../../src/cli/output/error-lines.ts'
import { wrapPage } from '../../../src/cli/output/pager.ts'
import { topics } from '../../../src/cli/output/topics.ts'
import { exitOf, exits, Failure } from '../../../src/cli/runtime/exit.ts'
import { withLock } from '../../../src/db/lock.ts'
import { AppError, ConfigError, invalid } from '../../../src/errors.ts'
import { upload } from '../../support/app.ts'
import { parseWords } from '../../support/processes/command-line.ts'
import { bareEnvironment, executable, hasProgram, run, runOnTerminal } from '../../support/processes/run.ts'
import { startServer, tokenFor } from '../../support/servers/server.ts'

const withCode = (code: string, cause?: Error) => Object.assign(new Error('failed', { cause }), { code })
const named = (name: string) => Object.assign(new Error('failed'), { name })

test.each<[string, unknown, number]>([
  ['what nobody foresaw', new Error('oops'), 1],
  ['something that is no Error', 'oops', 1],
  ['a failed answer of the server', new AppError('INTERNAL_ERROR'), 1],
  ['wrong input', invalid('email', 'is not an address'), 2],
  ['wrong use', new Failure('USAGE', 'no'), 2],
  ['401', new AppError('UNAUTHORIZED'), 4],
  ['403', new AppError('FORBIDDEN'), 5],
  ['404', new AppError('NOT_FOUND'), 6],
  ['410 from a server far away', Object.assign(new Error('gone'), { status: 410, code: 'SHARED_LINK_EXPIRED' }), 6],
  ['409', new AppError('DUPLICATE_RESOURCE'), 7],
  ['what is not so yet', new Failure('PENDING', 'no'), 8],
  ['409 for a job that runs already', Object.assign(new Error('running'), { status: 409, code: 'SOURCE_SYNC_RUNNING' }), 75],
  ['429', new AppError('RATE_LIMITED'), 69],
  ['503', new AppError('SERVICE_UNAVAILABLE'), 69],
  ['a refused connection', withCode('ECONNREFUSED'), 69],
  ['a refused connection inside a failed fetch', new TypeError('fetch failed', { cause: withCode('ECONNREFUSED') }), 69],
  ['both addresses refused', new AggregateError([withCode('ECONNREFUSED'), withCode('ECONNREFUSED')]), 69],
  ['a database that starts up', withCode('57P03'), 69],
  ['a unix socket that is not there', Object.assign(withCode('ENOENT'), { syscall: 'connect' }), 69],
  ['a file that is not there', Object.assign(withCode('ENOENT'), { syscall: 'open' }), 1],
  ['a wrong database password', withCode('28P01'), 78],
  ['a lock that another run holds', named('Busy'), 75],
  ['a newer schema', named('NewerSchema'), 78],
  ['a wrong configuration', new ConfigError(['no']), 78],
  ['Ctrl-C at a question', named('ExitPromptError'), 130],
])('%s', (_, error, code) => expect(exits[exitOf(error)][0]).toBe(code))

test('an error is a line with the cause and the fix', () => {
  expect(formatErrorLines(new Failure('PENDING', '2 migrations are pending', { fix: 'dms migrate' }), false)).toEqual([
    'error: 2 migrations are pending',
    '         fix: dms migrate',
  ])
  expect(formatErrorLines(invalid('email', 'is not an address'), false)).toEqual([
    'error: The request is not valid.',
    '         email: is not an address',
  ])
  expect(formatErrorLines(new ConfigError(['a', 'b']), false)).toEqual(['error: a', 'error: b'])
  expect(formatErrorLines(new Error('odd\u001b[2J'), false)).toEqual(['error: odd\\x1b[2J'])
  expect(formatErrorLines(new Error("ENOENT: no such file or directory, open 'a.csv'"), false)).toEqual([
    'error: a.csv: no such file or directory',
  ])
  expect(formatErrorLines(new Error("X_FILE=/a: EACCES: permission denied, open '/a'"), false)).toEqual([
    'error: X_FILE=/a: permission denied',
  ])
  expect(formatErrorLines(new Error("--to: EEXIST: file already exists, open 'a'"), false)).toEqual(['error: --to: a: file already exists'])
  expect(formatErrorLines(named('ExitPromptError'), false)).toEqual(['error: the question was not answered'])
  expect(formatErrorLines(new Error('odd'), true).join('\n')).toMatch(/^error: odd\n +at /)
})

test('an error as JSON is the error body of the API with the exit code', () => {
  const now = new Date('2026-01-02T03:04:05Z')
  const gone = Object.assign(new Error('gone'), { status: 410, code: 'SHARED_LINK_EXPIRED', details: { id: 1 }, request_id: 'r1' })
  expect(JSON.parse(formatErrorJson(gone, now))).toEqual({
    error: { code: 'SHARED_LINK_EXPIRED', message: 'gone', details: { id: 1 }, timestamp: '2026-01-02T03:04:05.000Z', request_id: 'r1' },
    exit_code: 6,
  })
})

test.each([
  ['an unknown flag', ['version', '--nope'], "error: unknown option '--nope'\n"],
  ['an unknown command, with a suggestion', ['versoin'], "error: unknown command 'versoin' — Did you mean version?\n"],
  ['an unknown subcommand', ['config', 'chekc'], "error: unknown command 'chekc' — Did you mean check?\n"],
  ['too many arguments', ['version', 'now'], /^error: too many arguments/],
  ['a wrong format', ['version', '-o', 'xml'], /^error: option '-o, --output <format>' argument 'xml' is invalid/],
  ['two targets', ['version', '--local', '--url', 'http://x'], /^error: option '--local' cannot be used with option '--url <url>'/],
  [
    'a worker that is wanted and not',
    ['serve', '--with-worker', '--no-worker'],
    /^error: option '--with-worker' cannot be used with option '--no-worker'/,
  ],
  ['a timeout that is none', ['version', '--timeout', 'soon'], /^error: --timeout: "soon" is not a duration/],
  ['an unknown topic', ['help', 'nonsense'], 'error: unknown command or topic "nonsense"\n         fix: dms help\n'],
])('2 for %s', async (_, args, stderr) => {
  expect(await run(args)).toEqual({
    code: 2,
    signal: null,
    stdout: '',
    stderr: typeof stderr === 'string' ? stderr : expect.stringMatching(stderr),
  })
})

test('2 for values that the API refuses, named by the typed flags; the request id only if a log has it', async () => {
  const { app, url, ada, databaseUrl, dataDir } = await startServer()
  const here = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir }
  const there = { DMS_URL: url, DMS_TOKEN: await tokenFor(app, ada) }
  const refused = async (args: readonly string[], env: Record<string, string> = here) => {
    const { code, stdout, stderr } = await run(args, { env })
    expect([code, stdout]).toEqual([2, ''])
    return stderr.trimEnd().split('\n')
  }
  const aDate = '--from nope: an RFC 3339 date or date and time'
  const aStatus = /^error: --status bogus: .*"failed"/
  expect(await refused(['search', 'query', 'x', '--from', 'nope'])).toEqual([`error: ${aDate}`])
  expect(await refused(['documents', 'list', '--status', 'bogus', '--from', 'nope'])).toEqual([
    expect.stringMatching(aStatus),
    `error: ${aDate}`,
  ])
  expect(await refused(['search', 'query', 'x', '--status', 'failed', '--status', 'bogus'])).toEqual([expect.stringMatching(aStatus)])
  expect(await refused(['documents', 'list', '--from', 'nope'], there)).toEqual([
    `error: ${aDate}`,
    expect.stringMatching(/^ +request id: [\w-]+$/),
  ])
  const [line = ''] = await refused(['labels', 'create', 'x', '--colour', 'red', '--json'])
  expect(JSON.parse(line)).toMatchObject({
    error: {
      message: '--colour red: a colour of the form #RRGGBB',
      details: { issues: [{ path: 'color', flag: '--colour red' }] },
      request_id: null,
    },
  })
  // A value from an argument keeps the field name of the API.
  expect(await refused(['labels', 'create', 'x'.repeat(200)])).toEqual([
    'error: The request is not valid.',
    expect.stringMatching(/^ +name: /),
  ])
})

test('every exit code but 130 and 143 (signals.test.ts) is returned by a command', async () => {
  const { app, url, ada, admin, databaseUrl, dataDir, asAda, asAdmin } = await startServer()
  await asAdmin.labels.create({ name: 'Inbox', color: '#112233' })
  const { id } = await upload(asAda, 'a.txt', 'a')
  const nowhere = '01900000-0000-7000-8000-000000000000'
  const there = { DMS_URL: url, DMS_TOKEN: await tokenFor(app, ada) }
  const asRoot = { DMS_URL: url, DMS_TOKEN: await tokenFor(app, admin) }
  const here = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir }
  const table: [code: number, words: string, env: Record<string, string>][] = [
    [0, 'documents list', there],
    [1, 'healthcheck', { DMS_URL: 'http://127.0.0.1:9' }],
    [2, 'documents list --status lost', there],
    [3, `documents delete ${id} ${nowhere} -y`, there],
    [4, 'documents list', { ...there, DMS_TOKEN: 'of nobody' }],
    [5, 'users list', there],
    [6, `documents get ${nowhere}`, there],
    [7, 'labels create Inbox', asRoot],
    [8, 'events tail --count 1 --timeout 200ms', there],
    [69, 'documents list', { ...there, DMS_URL: 'http://127.0.0.1:9' }],
    [75, 'check', here],
    [78, 'config check', { DMS_SERVER_PORT: 'none' }],
  ]
  await withLock(app.database, 'check', 0, async () => {
    const deaf = { isTTY: false, write: () => true }
    for (const [code, words, env] of table) {
      // In this process, which is faster.
      const streams = { env: bareEnvironment(env), stdin: { isTTY: false }, stdout: deaf, stderr: deaf } as unknown as Streams
      expect([words, await runHere(words.split(' '), streams)]).toEqual([words, code])
    }
  })
})

test('2 for an invalid variable', async () => {
  expect(await run(['version'], { env: { DMS_QUIET: 'perhaps' } })).toMatchObject({
    code: 2,
    stderr: 'error: DMS_QUIET: "perhaps" is neither true nor false\n',
  })
  expect(await run(['version'], { env: { DMS_TIMEOUT: 'soon' } })).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^error: DMS_TIMEOUT: "soon" is not a duration/),
  })
})

test('2 with help on standard error for a group without a subcommand', async () => {
  for (const args of [[], ['config']])
    expect(await run(args)).toMatchObject({ code: 2, stdout: '', stderr: expect.stringMatching(/^Usage: dms (?!.*error:).*Commands:/s) })
})

test('2 as JSON on standard error with --json', async () => {
  const { code, stdout, stderr } = await run(['version', '--json', '--nope'])
  expect({ code, stdout, ...JSON.parse(stderr) }).toMatchObject({
    code: 2,
    stdout: '',
    exit_code: 2,
    error: { code: 'USAGE', message: "unknown option '--nope'" },
  })
})

test('0 with help on standard output for --help and help at any depth', async () => {
  const asked = await run(['config', 'show', '--help'])
  expect(asked).toMatchObject({
    code: 0,
    stderr: '',
    stdout: expect.stringMatching(/^Usage: dms config show .*Examples:\n(?: {2}# .+\n)? {2}\$ dms config show/s),
  })
  expect(await run(['help', 'config', 'show'])).toEqual(asked)
})

test('help exit-codes lists all exit codes, help environment all variables', async () => {
  const { stdout } = await run(['help', 'exit-codes'])
  expect(stdout.match(/^ +\d+/gm)?.map(Number)).toEqual(Object.values(exits).map(([code]) => code))
  expect((await run(['help', 'environment'])).stdout).toMatch(/DMS_OUTPUT.*JWT_SECRET, JWT_SECRET_FILE +auth\.jwt_secret/s)
})

test('help topics are wrapped to the terminal, except lines to copy, and unwrapped in a pipe', async () => {
  for (const [name, topic] of Object.entries(topics)) {
    const page = await topic()
    const lines = wrapPage(page, 60).split('\n')
    expect(
      lines.filter((line) => line.length > 60 && !line.startsWith('    ')),
      name,
    ).toEqual([])
    const words = (text: string) => text.trim().split(/\s+/)
    expect(words(lines.join('\n')), name).toEqual(words(page))
    expect(lines).toEqual(expect.arrayContaining(page.split('\n').filter((line) => line.startsWith('    '))))
  }
  expect(await run(['help', 'contexts'], { env: { COLUMNS: '60' } })).toMatchObject({ stdout: await topics.contexts?.() })
  if (!hasProgram('script')) return
  const { stdout } = await runOnTerminal(['help', 'exit-codes'], { env: { COLUMNS: '60' } })
  expect(stdout).toBe(wrapPage((await topics['exit-codes']?.()) ?? '', 60))
})

test('the command lines of help cron parse', async () => {
  const { stdout } = await run(['help', 'cron'])
  const lines = [...stdout.matchAll(/(?<=^ .*)dms (?=[a-z-]+ )([^&\n]*)/gm)].map(([, words = '']) => words.trim().split(/\s+/))
  expect(lines.length).toBeGreaterThan(7)
  for (const words of lines) expect([words, (await parseWords(words)).problem]).toEqual([words, null])
})

test('0 without messages if the reader closes the pipe', async () => {
  const child = spawn(process.execPath, [executable, 'help', 'environment'], { env: bareEnvironment(), stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout.destroy()
  let stderr = ''
  child.stderr.on('data', (text: Buffer) => {
    stderr += text.toString()
  })
  expect(await new Promise((resolve) => child.on('close', (code) => resolve({ code, stderr })))).toEqual({ code: 0, stderr: '' })
})

test.skipIf(!existsSync('/dev/full'))('1 with one line if the output cannot be written', async () => {
  const line = [process.execPath, executable, 'help', 'environment'].map((word) => `'${word}'`).join(' ')
  const child = spawn('sh', ['-c', `exec ${line} > /dev/full`], { env: bareEnvironment(), stdio: ['ignore', 'ignore', 'pipe'] })
  let stderr = ''
  child.stderr.on('data', (text: Buffer) => {
    stderr += text.toString()
  })
  expect(await new Promise((resolve) => child.on('close', (code) => resolve({ code, stderr })))).toEqual({
    code: 1,
    stderr: 'error: standard output: ENOSPC: no space left on device, write\n',
  })
})

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
    expect(await run(['users', 'list', '--url', url, '--timeout', '1s'])).toMatchObject({
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
      expect([name, words, await run(words, { env: { DMS_URL: url, [name]: value } })]).toMatchObject([
        name,
        words,
        { code: 4, stdout: '', stderr: expect.stringMatching(`^error: ${url} refuses the token of ${place} .*\n +fix: dms login ${url},`) },
      ])
})

test('69 after --timeout while an unreachable server is retried', async () => {
  expect(await run(['users', 'list', '--url', 'http://127.0.0.1:1', '--timeout', '1s'])).toMatchObject({
    code: 69,
    stdout: '',
    stderr: 'error: --timeout of 1 s has passed\n',
  })
})

test('69 if nothing listens', async () => {
  let gone = ''
  await withSilentServer(async (url) => {
    gone = url
  })
  // A link is fetched from its own server, without a local database.
  const link = `${gone}/api/public/shared/abcdefghijklmnopqrstuvwx`
  expect(await run(['shared-links', 'info', link])).toMatchObject({
    code: 69,
    stderr: expect.stringContaining(`${gone} cannot be reached`),
  })
  expect(await run(['users', 'list'], { env: { DMS_URL: gone } })).toMatchObject({
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
  for (const place of places) {
    const env = { DATABASE_URL: `postgres://nobody@${place}`, DMS_DATABASE_CONNECT_TIMEOUT: '1s' }
    for (const words of [
      ['users', 'list'],
      ['migrate', 'check'],
      ['backup', 'create', '--to', '-'],
      ['worker', '--once'],
    ])
      expect([place, words, await run(words, { env })]).toMatchObject([
        place,
        words,
        {
          code: 69,
          stdout: '',
          stderr: expect.stringMatching(/^error: the database cannot be reached: .*\n {9}fix: dms doctor --only config,database\n$/),
        },
      ])
  }
})

test('2 for a server-only command with a remote target, and for --as with a remote target', async () => {
  const url = 'http://127.0.0.1:1'
  expect(await run(['migrate', '--url', url])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('"dms migrate" runs on the server only'),
  })
  expect(await run(['users', 'list', '--url', url, '--as', 'ada'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('--as ada works on this machine only'),
  })
  expect(await run(['users', 'list', '--url', 'dms.example.org'])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('is not the URL of a server'),
  })
})

const hasTerminal = hasProgram('script')
if (!hasTerminal) process.stderr.write('skipped: without the program `script` there is no terminal to test on\n')

test.skipIf(!hasTerminal)('2 for --reveal on a terminal without --yes', async () => {
  expect(await runOnTerminal(['config', 'show', '--reveal'])).toMatchObject({ code: 2, stdout: expect.stringContaining('fix: pass --yes') })
})

/** Runs a program with a stop handler and signals it at these times (ms) after it is ready. */
async function signalled(at: readonly (readonly [ms: number, signal: NodeJS.Signals])[], { timeout = 'null', isService = false } = {}) {
  const stop = new URL('../../../src/cli/runtime/stop.ts', import.meta.url).href
  const program = `
import { watchStopSignals } from '${stop}'
const stop = watchStopSignals(${timeout}, (text) => console.log(text), ${isService})
stop.signal.addEventListener('abort', () => console.log(stop.signal.reason.name, stop.exit))
setTimeout(() => { stop.end(); console.log('done') }, 800)
console.log('ready')`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    env: bareEnvironment(),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines: string[] = []
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    if (lines.length === 0) for (const [ms, signal] of at) setTimeout(() => child.kill(signal), ms)
    lines.push(...text.trimEnd().split('\n'))
  })
  const end = await new Promise((resolve) => child.on('close', (code, signal) => resolve(signal ?? code)))
  return { lines, end }
}

const stopping = 'stopping; press Ctrl-C again to stop at once'

test('the first signal requests a stop; an immediate repeat is ignored', async () => {
  const at = [
    [0, 'SIGINT'],
    [100, 'SIGINT'],
  ] as const
  expect(await signalled(at)).toEqual({ lines: ['ready', stopping, 'AbortError INTERRUPTED', 'done'], end: 0 })
})

test('the second signal ends the process', async () => {
  const at = [
    [0, 'SIGTERM'],
    [400, 'SIGTERM'],
  ] as const
  expect(await signalled(at)).toEqual({ lines: ['ready', stopping, 'AbortError TERMINATED'], end: 'SIGTERM' })
})

test('a service exits 0 after the first signal', async () => {
  expect(await signalled([[0, 'SIGTERM']], { isService: true })).toEqual({ lines: ['ready', stopping, 'AbortError null', 'done'], end: 0 })
})

test('--timeout requests a stop', async () => {
  expect(await signalled([], { timeout: '100' })).toEqual({ lines: ['ready', 'TimeoutError null', 'done'], end: 0 })
})
