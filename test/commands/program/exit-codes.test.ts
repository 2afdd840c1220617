import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { run as runHere, type Streams } from '../../../commands/program.ts'
import { formatErrorJson, formatErrorLines } from '../../../src/cli/output/error-lines.ts'
import { exitOf, exits, Failure } from '../../../src/cli/runtime/exit.ts'
import { withLock } from '../../../src/db/lock.ts'
import { AppError, ConfigError, invalid } from '../../../src/errors.ts'
import { startApp, upload } from '../../support/app.ts'
import { bareEnvironment, hasProgram, run, runOnTerminal } from '../../support/processes/run.ts'
import { runHere as dms } from '../../support/processes/run-here.ts'
import { startServer, tokenFor } from '../../support/servers/server.ts'

const withCode = (code: string, cause?: Error) => Object.assign(new Error('failed', { cause }), { code })
const named = (name: string) => Object.assign(new Error('failed'), { name })

test.each<[string, unknown, number]>([
  ['an unexpected error', new Error('oops'), 1],
  ['a thrown string', 'oops', 1],
  ['500', new AppError('INTERNAL_ERROR'), 1],
  ['400', invalid('email', 'is not an address'), 2],
  ['a usage error', new Failure('USAGE', 'no'), 2],
  ['401', new AppError('UNAUTHORIZED'), 4],
  ['403', new AppError('FORBIDDEN'), 5],
  ['404', new AppError('NOT_FOUND'), 6],
  ['410 from a remote server', Object.assign(new Error('gone'), { status: 410, code: 'SHARED_LINK_EXPIRED' }), 6],
  ['409', new AppError('DUPLICATE_RESOURCE'), 7],
  ['a condition that is not met yet', new Failure('PENDING', 'no'), 8],
  ['409 SOURCE_SYNC_RUNNING', Object.assign(new Error('running'), { status: 409, code: 'SOURCE_SYNC_RUNNING' }), 75],
  ['429', new AppError('RATE_LIMITED'), 69],
  ['503', new AppError('SERVICE_UNAVAILABLE'), 69],
  ['a refused connection', withCode('ECONNREFUSED'), 69],
  ['a refused connection inside a failed fetch', new TypeError('fetch failed', { cause: withCode('ECONNREFUSED') }), 69],
  ['both addresses refused', new AggregateError([withCode('ECONNREFUSED'), withCode('ECONNREFUSED')]), 69],
  ['a database that starts up', withCode('57P03'), 69],
  ['a missing unix socket', Object.assign(withCode('ENOENT'), { syscall: 'connect' }), 69],
  ['a missing file', Object.assign(withCode('ENOENT'), { syscall: 'open' }), 1],
  ['a wrong database password', withCode('28P01'), 78],
  ['a held lock', named('Busy'), 75],
  ['a newer schema', named('NewerSchema'), 78],
  ['an invalid configuration', new ConfigError(['no']), 78],
  ['Ctrl-C at a question', named('ExitPromptError'), 130],
])('%s', (_, error, code) => expect(exits[exitOf(error)][0]).toBe(code))

test('an error is a line with the cause and the fix', () => {
  expect(formatErrorLines(new Failure('PENDING', '2 migrations are pending', { fix: 'dms migrate' }))).toEqual([
    'error: 2 migrations are pending',
    '         fix: dms migrate',
  ])
  expect(formatErrorLines(invalid('email', 'is not an address'))).toEqual([
    'error: The request is not valid.',
    '         email: is not an address',
  ])
  expect(formatErrorLines(new ConfigError(['a', 'b']))).toEqual(['error: a', 'error: b'])
  expect(formatErrorLines(new Error('odd\u001b[2J'))).toEqual(['error: odd\\x1b[2J'])
  expect(formatErrorLines(new Error("ENOENT: no such file or directory, open 'a.csv'"))).toEqual([
    'error: a.csv: no such file or directory',
  ])
  expect(formatErrorLines(new Error("X_FILE=/a: EACCES: permission denied, open '/a'"))).toEqual(['error: X_FILE=/a: permission denied'])
  expect(formatErrorLines(new Error("--to: EEXIST: file already exists, open 'a'"))).toEqual(['error: --to: a: file already exists'])
  expect(formatErrorLines(named('ExitPromptError'))).toEqual(['error: the question was not answered'])
  expect(formatErrorLines(new Error('odd'), { isVerbose: true }).join('\n')).toMatch(/^error: odd\n +at /)
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
  [
    'a search without its command',
    ['search', 'invoice', '2026'],
    "error: unknown command 'invoice'\n         fix: to find documents: dms search query 'invoice 2026'; its commands: dms search --help\n",
  ],
  ['too many arguments', ['version', 'now'], /^error: too many arguments/],
  ['a wrong format', ['version', '-o', 'xml'], /^error: option '-o, --output <format>' argument 'xml' is invalid/],
  ['two targets', ['version', '--local', '--url', 'http://x'], /^error: option '--local' cannot be used with option '--url <url>'/],
  [
    'a worker that is wanted and not',
    ['serve', '--with-worker', '--no-worker'],
    /^error: option '--with-worker' cannot be used with option '--no-worker'/,
  ],
  ['a log level that is none', ['migrate', 'status', '--log-level', 'loud'], /^error: option '--log-level <level>' argument 'loud' is /],
  ['a port that is none', ['serve', '--port', '99999'], /^error: server\.port \(command line\): 99999 is /],
  ['a queue that is none', ['worker', '--queues', 'oct'], /^error: worker\.queues \(command line\): \["oct"\] is /],
  ['an empty data folder', ['config', 'show', '--data-dir', ''], /^error: --data-dir: the value is empty/],
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

test('78 for an invalid variable, also if its value names the command line, and beside an invalid flag', async () => {
  const env = { DMS_LOG_LEVEL: 'loud (command line)' }
  expect(await dms(['config', 'show'], { env })).toMatchObject({
    code: 78,
    stdout: '',
    stderr: expect.stringMatching(/^error: DMS_LOG_LEVEL: /),
  })
  expect((await dms(['serve', '--port', '99999'], { env })).code).toBe(78)
})

test('an argument of 3 MB is cut in messages, but not the reason after it', async () => {
  const { databaseUrl, dataDir } = await startApp()
  const ask = (args: readonly string[], input = '') => dms(args, { input, env: { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir } })
  const long = 'x'.repeat(3_000_000)
  const messages = [
    ['documents', 'get', long],
    ['documents', 'get', long, '--json'],
    ['documents', 'list', '--limit', long],
    ['labels', 'create', 'a', '--color', 'x '.repeat(1_500_000)],
    ['documents', 'lits', long],
  ]
  for (const args of messages) {
    const { stderr } = await ask(args)
    expect([args.slice(0, 2), stderr.length < 10_000]).toEqual([args.slice(0, 2), true])
  }
  const { code, stderr } = await ask(['documents', 'delete', '-', '-y'], long)
  expect([code, stderr.length < 10_000]).toEqual([6, true])
  expect(stderr).toMatch(/xxx…xxx.*": not an id\n$/)
})

test('78 for a log file and a certificate that the server cannot use', async () => {
  const { databaseUrl, dataDir } = await startApp()
  const file = join(dataDir, 'not-a-certificate')
  await writeFile(file, 'not PEM')
  const start = (env: Record<string, string>) =>
    dms(['serve', '--port', '0', '--no-worker'], { env: { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir, ...env } })
  expect(await start({ DMS_LOG_FILE: dataDir })).toMatchObject({
    code: 78,
    stderr: expect.stringContaining(`error: log.file: ${dataDir}: illegal operation on a directory\n`),
  })
  expect(await start({ DMS_TLS_CERT: file, DMS_TLS_KEY: file })).toMatchObject({
    code: 78,
    stderr: expect.stringContaining(`error: server.tls_cert: ${file}: `),
  })
})

test('6 for --as of an unknown user', async () => {
  const { databaseUrl, dataDir } = await startServer()
  const env = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir }
  for (const command of [
    ['labels', 'list'],
    ['events', 'tail'],
  ])
    expect(await dms([...command, '--as', 'nope'], { env })).toMatchObject({
      code: 6,
      stdout: '',
      stderr: 'error: --as nope: no such user\n',
    })
})

test('2 for values that the API refuses, named by the typed flags; the request id only if a log has it', async () => {
  const { app, url, ada, databaseUrl, dataDir } = await startServer()
  const here = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir }
  const remote = { DMS_URL: url, DMS_TOKEN: await tokenFor(app, ada) }
  const refused = async (args: readonly string[], env: Record<string, string> = here) => {
    const { code, stdout, stderr } = await run(args, { env })
    expect([code, stdout]).toEqual([2, ''])
    return stderr.trimEnd().split('\n')
  }
  const aDate = '--from nope: not a date, a time or a duration such as yesterday, 2026-11-20, 2026-11-20T08:00:00Z or 7d'
  const aStatus = /^error: --status bogus: .*"failed"/
  expect(await refused(['search', 'query', 'x', '--from', 'nope'])).toEqual([`error: ${aDate}`])
  expect(await refused(['documents', 'list', '--status', 'bogus'])).toEqual([expect.stringMatching(aStatus)])
  expect(await refused(['search', 'query', 'x', '--status', 'failed', '--status', 'bogus'])).toEqual([expect.stringMatching(aStatus)])
  expect(await refused(['documents', 'list', '--status', 'bogus'], remote)).toEqual([
    expect.stringMatching(aStatus),
    expect.stringMatching(/^ +request id: [\w-]+$/),
  ])
  expect(await refused(['search', 'query', 'x', '--min-confidence', ''])).toEqual([
    expect.stringMatching(/^error: --min-confidence : not a /),
  ])
  expect(await refused(['search', 'reindex', '--ids-from', '/none'])).toEqual(['error: --ids-from /none: no such file or directory'])
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
  const remote = { DMS_URL: url, DMS_TOKEN: await tokenFor(app, ada) }
  const asRoot = { DMS_URL: url, DMS_TOKEN: await tokenFor(app, admin) }
  const here = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir }
  const table: [code: number, words: string, env: Record<string, string>][] = [
    [0, 'documents list', remote],
    [1, 'healthcheck', { DMS_URL: 'http://127.0.0.1:9' }],
    [2, 'documents list --status lost', remote],
    [3, `documents delete ${id} ${nowhere} -y`, remote],
    [4, 'documents list', { ...remote, DMS_TOKEN: 'of nobody' }],
    [5, 'users list', remote],
    [6, `documents get ${nowhere}`, remote],
    [7, 'labels create Inbox', asRoot],
    [8, 'events tail --count 1 --timeout 200ms', remote],
    [69, 'documents list', { ...remote, DMS_URL: 'http://127.0.0.1:9' }],
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

test('8 after --timeout while another run holds the lock, and nothing begins', async () => {
  const { app, databaseUrl, dataDir } = await startServer()
  const env = { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir, DMS_STORAGE_MIN_FREE: '0' }
  const users = join(dataDir, 'users.csv')
  await writeFile(users, 'username,email\neve,eve@example.org\n')
  const archive = join(dataDir, 'backup.tar')
  const commands = {
    check: ['check'],
    migrate: ['migrate'],
    'search.reindex': ['search', 'reindex'],
    backup: ['backup', 'create', '--to', archive],
    'users.import': ['users', 'import', users, '--passwords', 'none'],
  }
  // Together, with a time in which each has started also on a busy machine.
  const runs = Object.entries(commands).map(async ([lock, words]) => {
    const waiting = () => dms([...words, '--lock-timeout', '1h', '--timeout', '10s'], { env })
    return [lock, await withLock(app.database, lock, 0, waiting, { label: 'other run' })] as const
  })
  for (const [lock, { code, stderr }] of await Promise.all(runs)) {
    const expected = new RegExp(`^error: --timeout of 10 s has passed: ${lock}: already running \\(dms other run pid=${process.pid} `, 'm')
    expect([lock, code, stderr]).toEqual([lock, 8, expect.stringMatching(expected)])
  }
  expect(existsSync(archive)).toBe(false)
  expect(await app.db.selectFrom('users').select('id').where('username', '=', 'eve').execute()).toEqual([])
}, 120_000)

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

test('2 for durations beyond those of a timer or a date', async () => {
  const lines = [
    ['ocr', 'queue', '--timeout', '25d'],
    ['ocr', 'queue', '--watch', '25d'],
    ['worker', '--once', '--max-time', '60d'],
    ['documents', 'watch', '.', '--poll', '25d'],
    ['documents', 'list', '--since', '40000d'],
    ['ocr', 'queue', 'list', '--older-than', '40000d'],
  ]
  for (const line of lines) {
    const [flag, value] = line.slice(-2)
    const stderr = `error: ${flag}: "${value}" is longer than ${value === '40000d' ? '36500d' : '24d'}\n`
    expect(await dms(line)).toMatchObject({ code: 2, stderr })
  }
  expect(await dms(['version'], { env: { DMS_TIMEOUT: '30d' } })).toMatchObject({ code: 2 })
  expect(await dms(['config', 'show', 'server.port', '--timeout', '24d'])).toMatchObject({ code: 0, stderr: '' })
})

test('2 for a server-only command with a remote target, and for --as with a remote target', async () => {
  const url = 'http://127.0.0.1:1'
  expect(await run(['migrate', '--url', url])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('"dms migrate" runs on the server only'),
  })
  for (const command of ['users list --url', 'whoami --url', 'events tail --url', 'doctor --url', 'login'])
    expect(await run([...command.split(' '), url, '--as', 'ada']), command).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--as ada applies to this machine only'),
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
