/** Secret values through many requests to a real `dms serve`, and the places where none of them may appear. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { processTree } from '../support/processes/process-tree.ts'
import { until } from '../support/processes/processes.ts'
import { type Served, startServed } from '../support/servers/served.ts'

const canary = (what: string) => `canary-${what}-${randomBytes(12).toString('hex')}`
const secrets = {
  jwtSecret: canary('jwt-secret'),
  oidcSecret: canary('oidc-client-secret'),
  smtpPassword: canary('smtp-password'),
  password: canary('password'),
  nextPassword: canary('next-password'),
  wrongPassword: canary('wrong-password'),
  importedPassword: canary('imported-password'),
  linkPassword: canary('link-password'),
  guess: canary('guess'),
  sourcePassword: canary('source-password'),
  sourceUser: canary('source-user'),
}
const text = canary('text')

let served: Served
let folder: string
const commandLines = new Set<string>()
const environments = new Set<string>()
const refusals: string[] = []
/** secrets that the server has generated */
const tokens: Record<string, string> = {}
let linkToken = ''

/**
 * Reads what processes show to other users: the command lines of the tree, and the environments of the server's children. A fork that has not
 * executed its program yet still shows command line and environment of the server, for the server's own user alone.
 */
function look(): void {
  const tree = processTree(served.pid)
  const server = tree.find(({ pid }) => pid === served.pid)
  for (const { pid, command } of tree) {
    commandLines.add(command)
    if (command !== server?.command) environments.add(read(`/proc/${pid}/environ`))
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'latin1')
  } catch {
    return ''
  }
}

async function send(method: string, path: string, body?: object | string, token: string | null = served.token) {
  const response = await fetch(new URL(path, served.url), {
    method,
    headers: { ...(token === null ? {} : { authorization: `Bearer ${token}` }), 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  const answer = await response.text()
  if (response.status >= 400) refusals.push(answer)
  look()
  return { status: response.status, answer: (answer.startsWith('{') ? JSON.parse(answer) : {}) as Record<string, string> }
}

async function signIns(): Promise<void> {
  const { password, nextPassword, wrongPassword, importedPassword } = secrets
  const eve = { username: 'eve', email: 'eve@example.org' }
  expect((await send('POST', '/api/users', { ...eve, password })).status).toBe(201)
  await send('POST', '/api/auth/login', { username: 'eve', password: wrongPassword }, null)
  await send('POST', '/api/auth/login', { username: wrongPassword, password: wrongPassword }, null)
  await send('POST', '/api/auth/login', `{"username":"eve","password":"${password}"`, null)
  await send('POST', '/api/auth/login', { username: 'eve', password, [password]: password, role: password }, null)
  await send('GET', `/api/auth/login?username=eve&password=${password}`, undefined, null)
  tokens.first = (await send('POST', '/api/auth/login', { username: 'eve', password }, null)).answer.token ?? ''
  tokens.refreshed = (await send('POST', '/api/auth/refresh', {}, tokens.first)).answer.token ?? ''
  await send('GET', `/api/documents?token=${tokens.refreshed}`, undefined, tokens.first)
  await send('POST', '/api/users/change-password', { current_password: wrongPassword, new_password: nextPassword }, tokens.refreshed)
  const change = await send(
    'POST',
    '/api/users/change-password',
    { current_password: password, new_password: nextPassword },
    tokens.refreshed,
  )
  tokens.changed = change.answer.token ?? ''
  await send('POST', '/api/users', { ...eve, password })
  await send('POST', '/api/users', { username: 'x y', email: password, password })
  await send('POST', '/api/users/import', { users: [{ username: 'ivy', email: 'ivy@example.org', password: importedPassword }] })
  await send('POST', '/api/users/import', { users: [{ username: 'i v', email: importedPassword, password: importedPassword }] })
  // Sends a mail that the mail server refuses.
  expect((await send('POST', '/api/auth/register', { username: 'mia', email: 'mia@example.org', password }, null)).status).toBe(201)
  tokens.api = (await send('POST', '/api/tokens', { name: 'a program', scopes: ['read'] })).answer.token ?? ''
  expect((await send('GET', '/api/documents', undefined, tokens.api)).status).toBe(200)
  await send('DELETE', '/api/documents/x', undefined, tokens.api)
  await send('GET', '/api/documents', undefined, `${tokens.api}x`)
  expect(Object.entries(tokens).filter(([, token]) => !token)).toEqual([])
}

async function links(documentId: string): Promise<void> {
  const { linkPassword, guess } = secrets
  const { answer } = await send('POST', '/api/shared-links', { document_id: documentId, password: linkPassword })
  linkToken = answer.token ?? ''
  const path = `/api/public/shared/${linkToken}`
  await send('GET', path, undefined, null)
  await send('POST', `${path}/verify`, { password: guess }, null)
  await send('POST', `${path}/download`, { password: guess }, null)
  await send('POST', `${path}/download?password=${linkPassword}`, {}, null)
  expect((await send('POST', `${path}/download`, { password: linkPassword }, null)).status).toBe(200)
  await send('POST', `${path}/nonsense`, { password: linkPassword }, null)
}

/** A server that refuses every password. */
async function sources(): Promise<void> {
  const dav = createServer((_, response) => response.writeHead(401, { 'www-authenticate': 'Basic realm="x"' }).end()).listen(0, '127.0.0.1')
  await once(dav, 'listening')
  const url = `http://127.0.0.1:${(dav.address() as AddressInfo).port}/`
  const { sourcePassword, sourceUser } = secrets
  const credentials = { username: sourceUser, password: sourcePassword }
  try {
    const made = await send('POST', '/api/sources', { name: 'dav', type: 'webdav', url, sync_interval: 0, ...credentials })
    expect(made.status).toBe(201)
    await send('POST', `/api/sources/${made.answer.id}/test`)
    await send('POST', '/api/sources/test', { type: 'webdav', url, ...credentials })
    await send('POST', '/api/sources/test', { type: 'webdav', url: `http://${sourceUser}:${sourcePassword}@127.0.0.1/`, ...credentials })
    await send('POST', `/api/sources/${made.answer.id}/sync`, {})
    await expect.poll(async () => (await send('GET', `/api/sources/${made.answer.id}`)).answer.status, { timeout: 30_000 }).toBe('error')
  } finally {
    dav.close()
  }
}

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'dms-secrets-'))
})

afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

test('passwords, tokens and keys are in no log, error, command line or environment of a child, and in the database only hashed or encrypted', async () => {
  const log = join(folder, 'dms.log')
  served = await startServed({
    env: {
      JWT_SECRET: secrets.jwtSecret,
      OIDC_CLIENT_SECRET: secrets.oidcSecret,
      DMS_SMTP_URL: `smtp://mailer:${secrets.smtpPassword}@127.0.0.1:9`,
      DMS_SMTP_FROM: 'dms@example.org',
      REQUIRE_EMAIL_VERIFICATION: 'true',
      DMS_LOG_LEVEL: 'trace',
      DMS_LOG_FILE: log,
      DMS_STORAGE_MIN_FREE: '0',
    },
  })
  let dump = ''
  try {
    const { document } = await served.client.documents.upload({ filename: 'a.txt', size: text.length, open: () => [Buffer.from(text)] })
    const statusNow = async () => {
      look()
      return (await served.client.documents.get(document.id)).status
    }
    await expect.poll(statusNow, { timeout: 30_000 }).toBe('completed')
    await signIns()
    await links(document.id)
    await sources()
    // The mail server was unavailable when it was used with its password.
    await until(() => read(log).includes('MAIL_FAILED'), 20_000)
    dump = await dumped(join(served.dataDir, 'postgres-socket'))
  } finally {
    await served.stop()
    await served.remove()
  }

  const logged = await readFile(log, 'utf8')
  const lines = logged.split('\n').filter(Boolean)
  expect(lines.length).toBeGreaterThan(30)
  for (const line of lines) expect(JSON.parse(line)).toMatchObject({ level: expect.any(String), msg: expect.any(String) })
  expect(environments.size).toBeGreaterThan(0)
  expect(commandLines.size).toBeGreaterThan(1)
  expect(refusals.length).toBeGreaterThan(10)
  expect(dump).toContain(text)

  const inDatabase: Record<string, string> = { ...secrets, ...tokens, admin: served.password, own: served.token }
  // The token of a shared link is in the database, because lists of links show it; the text, because it is searched.
  const hidden = { ...inDatabase, link: linkToken, text }
  const places: [string, string, Record<string, string>][] = [
    ['log', logged, hidden],
    ['refusals', refusals.join('\n'), hidden],
    ['command lines', [...commandLines].join('\n'), hidden],
    ['environments of children', [...environments].join('\n'), hidden],
    ['database', dump, inDatabase],
  ]
  const found = places.flatMap(([place, content, values]) =>
    Object.entries(values).flatMap(([name, value]) =>
      spellings(value)
        .filter((form) => content.includes(form))
        .map(() => `${name} in the ${place}`),
    ),
  )
  expect(found).toEqual([])
})

/** Returns the value as it is, in base64 and as bytes of the database. */
const spellings = (value: string): string[] => [
  value,
  Buffer.from(value)
    .toString('base64')
    .replace(/.{0,4}=*$/, ''),
  Buffer.from(value).toString('hex'),
]

/** Returns every row of every table of the embedded database as text. */
async function dumped(host: string): Promise<string> {
  const port = Number(/\d+$/.exec((await readdir(host)).find((name) => /PGSQL\.\d+$/.test(name)) ?? ''))
  const client = new pg.Client({ host, port, user: 'dms', database: 'dms' })
  await client.connect()
  try {
    const { rows } = await client.query<{ name: string }>(
      `select quote_ident(relname) as name from pg_class where relkind = 'r' and relnamespace = current_schema()::regnamespace`,
    )
    const parts: string[] = []
    for (const { name } of rows) {
      const found = await client.query<{ line: string }>(`select t::text as line from ${name} t`)
      parts.push(...found.rows.map(({ line }) => `${name} ${line}`))
    }
    return parts.join('\n')
  } finally {
    await client.end()
  }
}
