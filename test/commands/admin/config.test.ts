import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { settings } from '../../../src/config/schema.ts'
import { run } from '../../support/processes/run.ts'
import { runHere } from '../../support/processes/run-here.ts'

let folder: string
let file: string
const secret = 'kG3vJ0sTq9Zc7Lx2Wm5Yb8Nf1Rd4Hp6A'

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'dms-config-'))
  file = write(
    'config.toml',
    `[server]\nport = 9000\nrequest_timeout = "120s"\n[database]\nurl = "postgres://dms:hunter2@db/dms"\n[auth]\njwt_secret = "${secret}"\n`,
  )
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function write(name: string, content: string): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  chmodSync(path, 0o600)
  return path
}

/** Runs `config show` and returns its JSON. */
async function show(args: string[], env: Record<string, string> = {}): Promise<Record<string, unknown>[]> {
  const { stdout, stderr } = await runHere(['config', 'show', '-c', file, '--json', ...args], { env })
  // The database of the file does not exist.
  expect(stderr).toEqual(args.includes('--reveal') ? expect.stringMatching(/^warning: not in the audit log: .*\n$/) : '')
  return JSON.parse(stdout)
}

test('config check: 0 for a valid configuration', async () => {
  expect(await runHere(['config', 'check', '-c', file])).toEqual({ code: 0, signal: null, stdout: '', stderr: '' })
  expect((await runHere(['config', 'check', '-c', file, '--json'])).stdout).toBe('[]\n')
})

test('config check: 78 with every error for an invalid one', async () => {
  const wrong = write('wrong.toml', '[server]\nprot = 80\n')
  const { code, stdout, stderr } = await runHere(['config', 'check', '--file', wrong, '--json'], {
    env: { JWT_SECRET: 'short', DMS_SERVR_HOST: 'x' },
  })
  expect({ code, stderr }).toEqual({ code: 78, stderr: '' })
  expect(JSON.parse(stdout)).toEqual([
    { severity: 'error', message: `${wrong}:2:1  unknown key server.prot — did you mean server.port?` },
    { severity: 'error', message: expect.stringMatching(/^JWT_SECRET: 5 characters/) },
    { severity: 'warning', message: expect.stringMatching(/^DMS_SERVR_HOST/) },
  ])
})

test('config check: 78 for what this version or this machine cannot do', async () => {
  const check = async (env: Record<string, string>) => (await runHere(['config', 'check'], { env })).stdout.trimEnd().split('\n')
  const missing = join(folder, 'missing.pem')
  const files = {
    DMS_TLS_CERT: missing,
    DMS_TLS_KEY: missing,
    DMS_DATABASE_SSL_CA: missing,
    DMS_S3_CA_FILE: missing,
    DMS_SOURCES_CA_FILE: missing,
  }
  expect(await check({ ...files, DMS_BACKUP_KEY_FILE: missing })).toEqual(
    [...Object.keys(files), 'DMS_BACKUP_KEY_FILE'].map((name) =>
      expect.stringMatching(`^error\t${name}: /\\S+: no such file or directory`),
    ),
  )
  const text = write('no-certificate.pem', 'not PEM')
  expect(await check({ DMS_TLS_CERT: text, DMS_TLS_KEY: text })).toEqual([expect.stringMatching(`^error\tDMS_TLS_CERT: ${text}: `)])
  expect(await check({ DMS_LOG_FILE: folder })).toEqual([`error\tDMS_LOG_FILE: ${folder}: illegal operation on a directory`])
  expect(await check({ DMS_LOG_FILE: join(missing, 'dms.log') })).toEqual([`error\tDMS_LOG_FILE: ${missing}: no such file or directory`])
  expect(await check({ DMS_LOG_FILE: join(folder, 'dms.log') })).toEqual([''])
  expect(readdirSync(folder)).not.toContain('dms.log')
  for (const name of ['DMS_DATA_DIR', 'DMS_STORAGE_PATH', 'DMS_STORAGE_TMP_PATH', 'DMS_BACKUP_PATH'])
    expect(await check({ [name]: '/proc/dms' })).toContain(`error\t${name}: /proc/dms is in /proc, where no folder can be created`)
  expect(await check({ DMS_S3_CA_FILE: text })).toEqual([`error\tDMS_S3_CA_FILE: ${text} has no certificate in PEM`])
  expect(await check({ DMS_OPENSEARCH_INDEX: 'dms-old' })).toEqual([
    expect.stringMatching(/^error\tDMS_OPENSEARCH_INDEX: .*does not end with -old/),
  ])
  // A process of its own: programs are looked for on the PATH of the process.
  const { stdout } = await run(['config', 'check'], { env: { DMS_OCR_ENGINE: 'tesseract-native', PATH: folder } })
  expect(stdout).toMatch(/^error\tocr.engine .* no tesseract program/)
  expect((await runHere(['documents', 'list'], { env: { DMS_STORAGE_KIND: 's3' } })).code).toBe(78)
})

test('config check: 78 for a warning with --strict only', async () => {
  const env = { SESSION_LIFETIME_HOURS: '12' }
  expect(await runHere(['config', 'check'], { env })).toMatchObject({
    code: 0,
    stdout: 'warning\tSESSION_LIFETIME_HOURS=12: the documented token lifetime is 24 hours\n',
  })
  expect(await runHere(['config', 'check', '--strict'], { env })).toMatchObject({ code: 78 })
})

test('config check warns about open registration and links that lead nowhere', async () => {
  const { code, stdout } = await runHere(['config', 'check'], { env: { DMS_SERVER_HOST: '0.0.0.0', DMS_SERVER_PORT: '9000' } })
  expect(code).toBe(0)
  expect(stdout).toContain('warning\tanyone who reaches 0.0.0.0:9000 can register   fix: ENABLE_REGISTRATION=false')
  expect(stdout).toContain('warning\tlinks begin with http://localhost:9000, which works on this machine only   fix: set server.public_url')
})

test('show lists every setting with value and origin', async () => {
  const rows = await show([], { DMS_SERVER_HOST: '::1' })
  expect(rows.map(({ key }) => key)).toEqual([...settings.keys()])
  const row = (key: string) => rows.find((each) => each.key === key)
  expect(row('server.port')).toEqual({ key: 'server.port', value: 9000, origin: 'file', source: `${file}:2`, secret: false })
  expect(row('server.host')).toEqual({ key: 'server.host', value: '::1', origin: 'env', source: 'DMS_SERVER_HOST', secret: false })
  expect(row('server.request_timeout')?.value).toBe('2m')
  expect(row('limits.max_upload_size')).toMatchObject({ value: '500MB', origin: 'default', source: '' })
})

test('show takes a section, a key, --set-only, and flags as origin', async () => {
  expect((await show(['ocr'])).every(({ key }) => String(key).startsWith('ocr.'))).toBe(true)
  expect((await show(['--set-only'])).map(({ key }) => key)).toEqual([
    'server.port',
    'server.request_timeout',
    'database.url',
    'auth.jwt_secret',
  ])
  expect(await show(['data_dir', '--data-dir', '/srv/dms'])).toEqual([
    { key: 'data_dir', value: '/srv/dms', origin: 'flag', source: 'command line', secret: false },
  ])
  expect((await runHere(['config', 'show', 'server.port', '--fields', 'value', '-c', file])).stdout).toBe('9000\n')
  expect((await runHere(['config', 'show', 'server.port', '--origin', '-c', file])).stdout).toBe(`server.port\t9000\t${file}:2\n`)
})

test('secrets are hidden unless --reveal', async () => {
  expect((await show(['auth.jwt_secret']))[0]).toMatchObject({ value: null, secret: true })
  const { stdout } = await runHere(['config', 'show', '-c', file])
  expect(stdout).toContain('auth.jwt_secret\t****** (32 chars)\n')
  expect(stdout).toContain('database.url\tpostgres://dms:******@db/dms\n')
  expect(stdout).not.toMatch(/hunter2|kG3v/)
  expect((await show(['auth.jwt_secret', '--reveal']))[0]).toMatchObject({ value: secret })
})

test('generated secrets are shown with their file, and masked like others', async () => {
  const env = { DMS_DATA_DIR: folder }
  const path = write('jwt_secret', `${secret}\n`)
  const { stdout } = await runHere(['config', 'show', '--origin', 'auth.jwt_secret'], { env })
  expect(stdout).toBe(`auth.jwt_secret\t****** (32 chars)\t${path}\n`)
  const both = await runHere(['config', 'show', '--reveal', '--json'], { env })
  const rows = JSON.parse(both.stdout) as { key: string }[]
  expect(rows.find(({ key }) => key === 'auth.jwt_secret')).toMatchObject({ value: secret, origin: 'file', source: path, secret: true })
  expect(rows.find(({ key }) => key === 'sources.encryption_key')).toMatchObject({ value: null, origin: 'default', source: '' })
})

test('2 for a setting that does not exist, with a suggestion', async () => {
  expect(await runHere(['config', 'show', 'server.prot'])).toMatchObject({
    code: 2,
    stderr: 'error: there is no setting server.prot — did you mean server.port?\n',
  })
})

test('config show: 78 for an invalid configuration, as JSON with --json', async () => {
  const { code, stderr } = await runHere(['config', 'show', '--json'], { env: { DMS_SERVER_PORT: 'x', DMS_LOG_LEVEL: 'y' } })
  expect(code).toBe(78)
  expect(JSON.parse(stderr)).toEqual({
    error: {
      code: 'CONFIG',
      message: expect.any(String),
      details: { problems: [expect.any(String), expect.any(String)] },
      timestamp: expect.any(String),
      request_id: null,
    },
    exit_code: 78,
  })
})
