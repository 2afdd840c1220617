import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type ConfigSources, loadConfig } from '../../src/config/load.ts'
import { settings } from '../../src/config/schema.ts'
import { parseDuration, parseSize } from '../../src/config/values.ts'
import { ConfigError } from '../../src/errors.ts'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'dms-config-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const secret = 'kG3vJ0sTq9Zc7Lx2Wm5Yb8Nf1Rd4Hp6A'

/** Loads the configuration independent of this machine. */
const load = (sources: ConfigSources = {}) =>
  loadConfig({ home: folder, etc: join(folder, 'etc'), uid: 1000, machineData: join(folder, 'none'), env: {}, ...sources })

function write(name: string, content: string, mode = 0o600): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  chmodSync(path, mode)
  return path
}

function problemsOf(sources: ConfigSources): readonly string[] {
  try {
    load(sources)
  } catch (error) {
    if (error instanceof ConfigError) return error.problems
    throw error
  }
  return []
}

const example = readFileSync(new URL('../../config.example.toml', import.meta.url), 'utf8')

test('config.example.toml has every setting with its default, and no other', () => {
  const file = write('config.toml', example.replace(/^# (?=[a-z0-9_]+ = )/gm, ''))
  const { config, origins, warnings } = load({ file })
  expect(warnings).toEqual([])
  expect(config).toEqual(load().config)
  expect([...origins].filter(([, { origin }]) => origin !== 'file')).toEqual([])
})

test('config.example.toml names the variables of every setting, in the order of the schema', () => {
  let section = ''
  const found = example.split('\n').flatMap((line) => {
    section = /^\[(\w+)\]$/.exec(line)?.[1] ?? section
    const [, key, variables] = /^# (\w+) = .*?#((?:,? [A-Z][A-Z0-9_]+\b(?!-))+)/.exec(line) ?? []
    return key ? [[section ? `${section}.${key}` : key, variables?.trim()]] : []
  })
  const expected = [...settings].map(([key, { env, secret }]) => [key, secret ? `${env}, ${env}_FILE` : env])
  expect(found).toEqual(expected)
})

test('no two settings share a variable', () => {
  const names = [...settings.values()].flatMap(({ env, secret }) => (secret ? [env, `${env}_FILE`] : [env]))
  expect(new Set(names).size).toBe(names.length)
})

test('the defaults are a valid configuration', () => {
  const { config, origins, warnings, file } = load()
  expect(config.server).toMatchObject({ host: '127.0.0.1', port: 8080, request_timeout: 60_000 })
  expect(config.limits.max_upload_size).toBe(500_000_000)
  expect(config.data_dir).toBe(join(folder, '.local/share/dms'))
  expect(origins.get('server.port')).toEqual({ origin: 'default', source: '' })
  expect({ warnings, file }).toEqual({ warnings: [], file: null })
})

test('data_dir is /var/lib/dms for root and for its owner, and under XDG_DATA_HOME for others', () => {
  expect(load({ uid: 0, machineData: undefined }).config.data_dir).toBe('/var/lib/dms')
  const machineData = join(folder, 'machine')
  mkdirSync(machineData)
  const uid = process.getuid?.() || 1000
  chownSync(machineData, uid, -1)
  expect(load({ uid, machineData }).config.data_dir).toBe(machineData)
  expect(load({ uid: uid + 1, machineData }).config.data_dir).toBe(join(folder, '.local/share/dms'))
  expect(load({ env: { XDG_DATA_HOME: '/srv/share' } }).config.data_dir).toBe('/srv/share/dms')
})

test('backup.path is in the data folder; for the data folder of the system it is a separate folder, if both have one owner', () => {
  const [machineData, machineBackups] = [join(folder, 'machine-data'), join(folder, 'machine-backups')]
  const pathFor = (data_dir: string) => load({ machineData, machineBackups, flags: { data_dir } }).config.backup.path
  mkdirSync(machineData)
  expect(pathFor(machineData)).toBe(join(machineData, 'backups'))
  mkdirSync(machineBackups)
  expect(pathFor(machineData)).toBe(machineBackups)
  expect(pathFor('/srv/dms')).toBe('/srv/dms/backups')
})

test('precedence: flag, variable, file, default', () => {
  const file = write('config.toml', '[server]\nport = 1\nhost = "file"\npublic_url = "http://file"\n')
  const env = { DMS_SERVER_PORT: '2', DMS_SERVER_HOST: 'env' }
  const { config, origins } = load({ file, env, flags: { 'server.port': 3 } })
  expect(config.server).toMatchObject({ port: 3, host: 'env', public_url: 'http://file', socket: '' })
  expect(['port', 'host', 'public_url', 'socket'].map((key) => origins.get(`server.${key}`))).toEqual([
    { origin: 'flag', source: 'command line' },
    { origin: 'env', source: 'DMS_SERVER_HOST' },
    { origin: 'file', source: `${file}:4` },
    { origin: 'default', source: '' },
  ])
})

test('NAME_FILE has precedence over the file, and its last line break is removed', () => {
  const file = write('config.toml', `[auth]\njwt_secret = "${'x1'.repeat(5)}${secret}"\n`)
  const path = write('jwt', `${secret}\n`)
  const { config, origins } = load({ file, env: { JWT_SECRET_FILE: path } })
  expect(config.auth.jwt_secret).toBe(secret)
  expect(origins.get('auth.jwt_secret')).toEqual({ origin: 'env_file', source: `JWT_SECRET_FILE=${path}` })
})

test('an empty variable counts as unset', () => {
  expect(load({ env: { DMS_SERVER_PORT: '', JWT_SECRET: '', JWT_SECRET_FILE: write('jwt', secret) } }).config).toMatchObject({
    server: { port: 8080 },
    auth: { jwt_secret: secret },
  })
})

test('the file is the given one, else $DMS_CONFIG, else that of the user, else that of the system', () => {
  const [flag, env] = [write('flag.toml', 'data_dir = "/flag"'), write('env.toml', 'data_dir = "/env"')]
  mkdirSync(join(folder, 'xdg/dms'), { recursive: true })
  mkdirSync(join(folder, '.config/dms'), { recursive: true })
  mkdirSync(join(folder, 'etc'))
  write('etc/config.toml', 'data_dir = "/etc-dms"')
  expect(load().config.data_dir).toBe('/etc-dms')
  write('.config/dms/config.toml', 'data_dir = "/home"')
  expect(load().config.data_dir).toBe('/home')
  write('xdg/dms/config.toml', 'data_dir = "/xdg"')
  const XDG_CONFIG_HOME = join(folder, 'xdg')
  expect(load({ env: { XDG_CONFIG_HOME } }).config.data_dir).toBe('/xdg')
  expect(load({ env: { XDG_CONFIG_HOME, DMS_CONFIG: env } }).config.data_dir).toBe('/env')
  expect(load({ env: { XDG_CONFIG_HOME, DMS_CONFIG: env }, file: flag })).toMatchObject({ config: { data_dir: '/flag' }, file: flag })
})

test('a given file must exist', () => {
  const missing = join(folder, 'missing.toml')
  expect(problemsOf({ file: missing })).toEqual([`${missing}: no such file or directory`])
  expect(problemsOf({ env: { DMS_CONFIG: missing } })).toEqual([`${missing}: no such file or directory`])
})

test('relative paths are relative to the file that has them', () => {
  const file = write('config.toml', 'data_dir = "data"\n[server]\ntls_cert = "tls/cert.pem"\ntls_key = "/etc/key.pem"\n')
  expect(load({ file }).config).toMatchObject({
    data_dir: join(folder, 'data'),
    server: { tls_cert: join(folder, 'tls/cert.pem'), tls_key: '/etc/key.pem' },
  })
})

test('variables and flags are parsed by type', () => {
  const env = {
    DMS_STORAGE_FSYNC: 'Off',
    DMS_OCR_ENABLED: '0',
    ENABLE_REGISTRATION: 'no',
    DMS_LOG_ACCESS: 'TRUE',
    DMS_REQUEST_TIMEOUT: '90',
    DMS_DRAIN_DELAY: '500ms',
    DMS_MAX_UPLOAD_SIZE: '100MiB',
    DMS_TRUSTED_PROXIES: '10.0.0.0/8, 192.168.1.1,',
    DMS_LOG_LEVEL: 'debug',
  }
  expect(load({ env, flags: { 'worker.concurrency': '4', 'server.cors_origins': 'https://a.example' } }).config).toMatchObject({
    storage: { fsync: false },
    ocr: { enabled: false },
    auth: { enable_registration: false },
    server: {
      request_timeout: 90_000,
      drain_delay: 500,
      trusted_proxies: ['10.0.0.0/8', '192.168.1.1'],
      cors_origins: ['https://a.example'],
    },
    limits: { max_upload_size: 104_857_600 },
    log: { access: true, level: 'debug' },
    worker: { concurrency: 4 },
  })
})

test.each([
  ['90s', 90_000],
  ['15m', 900_000],
  ['24h', 86_400_000],
  ['7d', 604_800_000],
  ['500ms', 500],
  ['1.5s', 1500],
  ['2', 2000],
  [3, 3000],
])('the duration %s is %i ms', (written, ms) => expect(parseDuration(written)).toBe(ms))

test.each([
  ['500MB', 500_000_000],
  ['100MiB', 104_857_600],
  ['1kB', 1000],
  ['1.5 GiB', 1_610_612_736],
  ['12B', 12],
  [42, 42],
])('the size %s is %i bytes', (written, bytes) => expect(parseSize(written)).toBe(bytes))

const awsKeys = { AWS_ACCESS_KEY_ID: 'key', AWS_SECRET_ACCESS_KEY: 'aws secret' }
const headerText = 'text for a header (printable ASCII characters, no line breaks)'

test.each([
  [{ DMS_SERVER_PORT: '70000' }, 'DMS_SERVER_PORT: 70000 is not a whole number from 0 to 65535'],
  [{ DMS_SERVER_PORT: '80a' }, 'DMS_SERVER_PORT: "80a" is not a whole number from 0 to 65535'],
  [{ DMS_OCR_ENABLED: 'maybe' }, 'DMS_OCR_ENABLED: "maybe" is neither true nor false'],
  [{ DMS_LOG_LEVEL: 'loud' }, 'DMS_LOG_LEVEL: "loud" is not one of trace, debug, info, warn, error'],
  [{ DMS_REQUEST_TIMEOUT: 'soon' }, 'DMS_REQUEST_TIMEOUT: "soon" is not a duration such as "90s", "15m", "24h" or "7d"'],
  [{ DMS_REQUEST_TIMEOUT: '60d' }, 'DMS_REQUEST_TIMEOUT: "60d" is not a duration from 1s to 24d'],
  [{ DMS_OCR_PAGE_TIMEOUT: '3d' }, 'DMS_OCR_PAGE_TIMEOUT: "3d" is not a duration from 100ms to 2d'],
  [{ DMS_API_CALLS_PER_MINUTE: '1000000001' }, 'DMS_API_CALLS_PER_MINUTE: 1000000001 is not a whole number from 0 to 1000000000'],
  [{ DMS_MAX_UPLOAD_SIZE: '5 apples' }, 'DMS_MAX_UPLOAD_SIZE: "5 apples" is not a size such as "500MB" or "100MiB"'],
  [{ DMS_OCR_MEMORY_LIMIT: '1MB' }, 'DMS_OCR_MEMORY_LIMIT: "1MB" is less than 64MB'],
  [{ DMS_TRUSTED_PROXIES: '10.0.0.0/40' }, 'DMS_TRUSTED_PROXIES: ["10.0.0.0/40"] is not an address or a network such as 10.0.0.0/8'],
  [{ DMS_METRICS_LISTEN: '9464' }, 'DMS_METRICS_LISTEN: "9464" is not host:port'],
  [{ DMS_PUBLIC_URL: 'dms.example.org' }, 'DMS_PUBLIC_URL: "dms.example.org" is not an http(s) URL without ? and #'],
  [{ DMS_PUBLIC_URL: 'http://h/a?b' }, 'DMS_PUBLIC_URL: "http://h/a?b" is not an http(s) URL without ? and #'],
  [{ DMS_PUBLIC_URL: 'http://h/#a' }, 'DMS_PUBLIC_URL: "http://h/#a" is not an http(s) URL without ? and #'],
  [{ DMS_PER_PAGE_DEFAULT: '200' }, 'DMS_PER_PAGE_DEFAULT: 200 is more than limits.per_page_max'],
  [{ AUTH_METHOD: 'oidc' }, 'AUTH_METHOD needs oidc.issuer and oidc.client_id and oidc.client_secret'],
  [{ REQUIRE_EMAIL_VERIFICATION: 'yes' }, 'REQUIRE_EMAIL_VERIFICATION needs smtp.url'],
  [{ DMS_STORAGE_KIND: 's3' }, 'DMS_STORAGE_KIND needs storage.s3_bucket'],
  [{ DMS_S3_BUCKET: 'scans' }, 'DMS_S3_BUCKET needs storage.s3_access_key_id'],
  [{ DMS_S3_BUCKET: 'a/b' }, 'DMS_S3_BUCKET: "a/b" is not the name of a bucket'],
  [{ DMS_S3_PREFIX: 'a/../b' }, 'DMS_S3_PREFIX: "a/../b" is not a prefix such as "dms/" (letters, digits and _ - . /, no leading /)'],
  [{ DMS_S3_ACCESS_KEY_ID: 'key' }, 'DMS_S3_ACCESS_KEY_ID needs storage.s3_secret_access_key'],
  [{ DMS_S3_BUCKET: 'scans', AWS_ACCESS_KEY_ID: 'key' }, 'AWS_ACCESS_KEY_ID needs storage.s3_secret_access_key'],
  [{ DMS_S3_BUCKET: 'scans', ...awsKeys, AWS_SESSION_TOKEN: 'to\nken' }, `AWS_SESSION_TOKEN: the value is not ${headerText}`],
  [{ DMS_S3_BUCKET: 'scans', ...awsKeys, AWS_REGION: 'eu-west-1\n' }, `AWS_REGION: "eu-west-1\\n" is not ${headerText}`],
  [
    { DMS_S3_CREDENTIALS: 'instance', DMS_S3_BUCKET: 'scans', DMS_S3_ACCESS_KEY_ID: 'key' },
    'DMS_S3_ACCESS_KEY_ID: must be empty with storage.s3_credentials = "instance"',
  ],
  [{ DMS_S3_SSE_KMS_KEY_ID: 'key' }, 'DMS_S3_SSE_KMS_KEY_ID needs storage.s3_sse = "aws:kms"'],
  [{ DMS_TLS_CERT: '/cert.pem' }, 'DMS_TLS_CERT needs server.tls_key'],
  [{ JWT_SECRET: 'short' }, 'JWT_SECRET: 5 characters; at least 32 are needed; make one with: openssl rand -base64 48'],
  [{ JWT_SECRET: 'a'.repeat(40) }, 'JWT_SECRET: is a secret that anybody can guess; make one with: openssl rand -base64 48'],
  [
    { JWT_SECRET: 'change-me-change-me-please-change-me!' },
    'JWT_SECRET: is a secret that anybody can guess; make one with: openssl rand -base64 48',
  ],
  [{ JWT_SECRET_FILE: '/nonexistent/jwt' }, 'JWT_SECRET_FILE=/nonexistent/jwt: no such file or directory'],
  [{ JWT_SECRET: secret, JWT_SECRET_FILE: '/dev/null' }, 'JWT_SECRET and JWT_SECRET_FILE are both set; use one of them'],
])('%j is refused', (env, problem) => expect(problemsOf({ env })).toEqual([problem]))

test.each([
  'SECURITY_CSP',
  'SECURITY_X_FRAME_OPTIONS',
  'SECURITY_X_CONTENT_TYPE_OPTIONS',
  'SECURITY_REFERRER_POLICY',
  'DMS_S3_REGION',
  'DMS_S3_SSE_KMS_KEY_ID',
])('%s: text that a header cannot have is refused', (variable) => {
  for (const text of ['one\ntwo', 'one\r', 'caf\u00e9', '\u0000'])
    expect(problemsOf({ env: { [variable]: text } })).toEqual([
      `${variable}: ${JSON.stringify(text)} is not text for a header (printable ASCII characters, no line breaks)`,
    ])
})

test('a secret or an address that a header cannot have is refused', () => {
  for (const variable of ['DMS_S3_SESSION_TOKEN', 'DMS_MEILI_API_KEY', 'DMS_METRICS_TOKEN'])
    expect(problemsOf({ env: { [variable]: 'one\n' } })).toEqual([
      `${variable}: the value is not text for a header (printable ASCII characters, no line breaks)`,
    ])
  for (const url of ['https://a.example/\n', 'https://a.example/caf\u00e9'])
    expect(problemsOf({ env: { OIDC_POST_LOGIN_URL: url } })).toEqual([
      `OIDC_POST_LOGIN_URL: ${JSON.stringify(url)} is not an http(s) URL in ASCII`,
    ])
})

test('an invalid secret is not printed', () => {
  expect(problemsOf({ env: { DATABASE_URL: 'mysql://dms:hunter2@db/dms' } })).toEqual(['DATABASE_URL: the value is not a postgres:// URL'])
})

test('errors in the file have file, line and column', () => {
  const file = write('config.toml', '# mine\ndata_dri = "/d"\n\n[server]\nport = "8080"\n  prot = 80\n[serach]\nengine = "postgres"\n')
  expect(problemsOf({ file })).toEqual([
    `${file}:2:1  unknown key data_dri — did you mean data_dir?`,
    `${file}:6:3  unknown key server.prot — did you mean server.port?`,
    `${file}:7:1  unknown section [serach] — did you mean search?`,
    `${file}:5:1  server.port: "8080" is not a whole number from 0 to 65535`,
  ])
})

test('a value of the file that contradicts another setting: the error has file, line and column', () => {
  const oidc = 'issuer = "http://id.example.org"\nclient_id = "dms"\nclient_secret = "x"\nscope = "email"\n'
  const file = write(
    'config.toml',
    `[limits]\nper_page_default = 200\n[auth]\nmethod = "oidc"\n[oidc]\n${oidc}[server]\ntls_cert = "c.pem"\n`,
  )
  expect(problemsOf({ file })).toEqual([
    `${file}:9:1  oidc.scope: "email" lacks openid, without which the provider returns no ID token`,
    `${file}:6:1  oidc.issuer: http://id.example.org is not https, and not on this machine`,
    `${file}:11:1  server.tls_cert needs server.tls_key`,
    `${file}:2:1  limits.per_page_default: 200 is more than limits.per_page_max`,
  ])
})

test('a file that is not TOML: the error has the position', () => {
  const file = write('config.toml', '[server]\nport = \n')
  expect(problemsOf({ file })).toEqual([expect.stringMatching(/config\.toml:2:\d+ {2}\w.*$/)])
})

test('every error is listed, not only the first', () => {
  const file = write('config.toml', 'nonsense = 1\n')
  expect(problemsOf({ file, env: { DMS_SERVER_PORT: 'x', JWT_SECRET: 'short', AUTH_METHOD: 'oidc' } })).toHaveLength(4)
})

test('an unknown DMS_ variable is a warning with a suggestion', () => {
  const { warnings } = load({ env: { DMS_SERVR_HOST: 'x', DMS_OUTPUT: 'json', DMS_JWT: 'y', PATH: '/bin' } })
  expect(warnings).toEqual([
    'DMS_SERVR_HOST is set but is not a dms variable — did you mean DMS_SERVER_HOST?',
    expect.stringMatching(/^DMS_JWT is set but is not/),
  ])
})

test('AWS_* variables name region and credentials of the bucket, where no setting names them', () => {
  const aws = { AWS_REGION: 'eu-west-1', AWS_ACCESS_KEY_ID: 'key', AWS_SECRET_ACCESS_KEY: 'aws secret', AWS_SESSION_TOKEN: 'session' }
  const storageOf = (env: Record<string, string>) => load({ env: { ...aws, ...env } }).config.storage
  const found = { s3_region: 'eu-west-1', s3_access_key_id: 'key', s3_secret_access_key: 'aws secret', s3_session_token: 'session' }
  expect(storageOf({ DMS_S3_BUCKET: 'scans' })).toMatchObject(found)
  expect(load({ env: { ...aws, DMS_S3_BUCKET: 'scans' } }).origins.get('storage.s3_region')).toEqual({
    origin: 'env',
    source: 'AWS_REGION',
  })
  const own = { DMS_S3_BUCKET: 'scans', DMS_S3_REGION: 'here', DMS_S3_ACCESS_KEY_ID: 'own', DMS_S3_SECRET_ACCESS_KEY: 'own secret' }
  expect(storageOf(own)).toMatchObject({ s3_region: 'here', s3_access_key_id: 'own', s3_session_token: '' })
  const none = { s3_access_key_id: '', s3_secret_access_key: '', s3_session_token: '' }
  expect(storageOf({ DMS_S3_BUCKET: 'scans', DMS_S3_CREDENTIALS: 'instance' })).toMatchObject({ s3_region: 'eu-west-1', ...none })
  expect(storageOf({})).toMatchObject({ s3_region: '', ...none })
})

test('a token lifetime other than 24 hours is a warning', () => {
  expect(load({ env: { SESSION_LIFETIME_HOURS: '12' } }).warnings).toEqual([
    'SESSION_LIFETIME_HOURS=12: the documented token lifetime is 24 hours',
  ])
})

test('a file with secrets that everyone can read is a warning', () => {
  const content = `[auth]\njwt_secret = "${secret}"\n`
  expect(load({ file: write('closed.toml', content, 0o640) }).warnings).toEqual([])
  const file = write('open.toml', content, 0o644)
  expect(load({ file }).warnings).toEqual([`${file} is readable by everyone and holds auth.jwt_secret   fix: chmod 640 ${file}`])
})
