/**
 * Sends collections of hostile input that others have gathered to a real server: no request fails, no internal detail leaks, and the server
 * continues. npm run test:security -- FOLDER [--short] [--only bodies|signatures|strings]… FOLDER holds `json-parsing` (JSONTestSuite: every file as
 * a body), `jws-vectors` (Wycheproof: every signed text as a token) and `naughty-strings` (every string in every place of every route that takes
 * text; --short: some). What is not there is skipped. Ends with 1 when an answer is 500 or more, tells of the server's insides, or is another than
 * the collection says.
 */
import { createHmac, randomBytes, randomUUID } from 'node:crypto'
import { access, readdir, readFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { isDeepStrictEqual, parseArgs } from 'node:util'
import Table from 'cli-table3'
import { openTokens } from '../src/auth/jwt.ts'
import { multipart } from '../src/client/http/multipart.ts'
import { type Attempt, attemptsOn } from './security/naughty.ts'
import { isJson } from './support/is-json.ts'
import { type Description, insides, operationsOf } from './support/operations.ts'
import { type Served, startServed } from './support/servers/served.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { only: { type: 'string', multiple: true }, short: { type: 'boolean', default: false } },
})
const root = resolve(positionals[0] ?? 'corpus')
/** numbers of a short run, for each field */
const stringsOfShort = 4
const concurrency = 16
const jwtSecret = randomBytes(32).toString('hex')

const print = (line: string): void => void process.stdout.write(`${line}\n`)
const skip = (path: string): void => print(`${path}: not there, skipped`)
const problems: string[] = []
const table = new Table({ head: ['what', 'sent', 'answers', 'seconds', 'slowest'], style: { head: [], border: [] } })

const isThere = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  )
const batteries = { bodies: sendBodies, signatures: sendSignatures, strings: sendStrings }

if (await isThere(root)) await run()
else print(`skipped: there is no folder ${root}`)

async function run(): Promise<void> {
  const served = await startServed({
    env: {
      JWT_SECRET: jwtSecret,
      DMS_COMMENTS_PER_MINUTE: '0',
      DMS_SHARED_LINKS_PER_HOUR: '1000000',
      DMS_WORKER_SCHEDULE_SOURCES: 'false',
      DMS_SOURCES_TIMEOUT: '100ms',
      // Each request counts as another client for the limits.
      DMS_TRUSTED_PROXIES: '127.0.0.1/32',
    },
  })
  try {
    for (const [name, battery] of Object.entries(batteries)) if (!values.only || values.only.includes(name)) await battery(served)
    const { status } = await fetch(new URL('/healthz', served.url))
    if (status !== 200) problems.push(`/healthz answers ${status} after all that`)
  } finally {
    const code = await served.stop()
    if (code !== 0) problems.push(`the server ended with ${code}`)
    await served.remove()
  }
  problems.push(...served.errors.map((line) => `the server logged ${line}`))
  print(table.toString())
  for (const problem of problems.slice(0, 100)) print(`✗ ${problem}`)
  print(problems.length === 0 ? 'all as it should be' : `${problems.length} problems`)
  process.exitCode = problems.length === 0 ? 0 : 1
}

interface CheckedAnswer {
  status: number
  text: string
}

/** Counts answers by name, and checks each for internal details. */
function watch(what: string) {
  const start = performance.now()
  const statuses = new Map<number, number>()
  let slowest = { seconds: 0, about: '' }
  let sent = 0
  return {
    async send(about: string, url: URL, init: RequestInit): Promise<CheckedAnswer> {
      const startedAt = performance.now()
      const response = await fetch(url, { redirect: 'manual', ...init })
      const text = await response.text()
      const seconds = (performance.now() - startedAt) / 1000
      if (seconds > slowest.seconds) slowest = { seconds, about }
      const { status } = response
      sent++
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      if (status >= 500) problems.push(`${about}: ${status} ${text.slice(0, 200)}`)
      const leaked = status >= 400 ? insides.exec(text)?.[0] : undefined
      if (leaked) problems.push(`${about}: tells ${JSON.stringify(leaked)}`)
      if (status >= 400 && !text.startsWith('{"error":{"code":"')) problems.push(`${about}: ${status} without the error body`)
      return { status, text }
    },
    done: () => {
      const answers = [...statuses].sort(([a], [b]) => a - b).map(([status, count]) => `${status}: ${count}`)
      table.push([
        what,
        String(sent),
        answers.join('\n'),
        ((performance.now() - start) / 1000).toFixed(0),
        `${slowest.seconds.toFixed(2)} ${slowest.about}`,
      ])
    },
  }
}

/**
 * Checks that a body is accepted if and only if the collection says that it is JSON (`i_`: either). Stored values must be returned as JSON.parse
 * reads them.
 */
async function sendBodies({ url, token, client }: Served): Promise<void> {
  const folder = join(root, 'json-parsing', 'test_parsing')
  if (!(await isThere(folder))) return skip(folder)
  const { id } = (await client.documents.upload({ filename: 'a.txt', size: 1, open: () => [Buffer.from('a')] })).document
  const { send, done } = watch('JSONTestSuite, as bodies and inside them')
  const put = (about: string, body: Buffer | string) =>
    send(about, new URL(`/api/documents/${id}`, url), {
      method: 'PUT',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: body as BodyInit,
    })
  const isNoJson = ({ status, text }: CheckedAnswer) => status === 400 && /not valid (JSON|UTF-8)/.test(text)
  for (const name of (await readdir(folder)).sort()) {
    const bytes = await readFile(join(folder, name))
    const answer = await put(name, bytes)
    // No body at all is a request without fields.
    const isEmpty = bytes.toString().trim() === ''
    if (name.startsWith('y_') && isNoJson(answer)) problems.push(`${name}: refused as no JSON`)
    if (name.startsWith('n_') && !isEmpty && answer.status !== 400) problems.push(`${name}: ${answer.status}`)
    const inside = await put(`${name} inside`, Buffer.concat([Buffer.from('{"metadata":{"v":['), bytes, Buffer.from(']}}')]))
    if (name.startsWith('n_') && !isEmpty && inside.status !== 400 && !isJson(`[${bytes}]`))
      problems.push(`${name} inside: ${inside.status}`)
    if (name.startsWith('y_') && inside.status === 200) {
      const stored = JSON.parse(inside.text).metadata.v
      // JSON writes -0 as 0.
      const sent = JSON.parse(JSON.stringify(JSON.parse(`[${bytes}]`)))
      if (!isDeepStrictEqual(stored, sent)) problems.push(`${name}: came back as ${JSON.stringify(stored).slice(0, 80)}`)
    }
  }
  done()
}

interface Vectors {
  testGroups: {
    private?: { kty?: string; k?: string }
    public?: { kty?: string }
    tests: { tcId: number; comment: string; jws: string }[]
  }[]
}

/** Checks that no token is valid: with its own key, with the key of the server, and with its header, our claims and our signature. */
async function sendSignatures({ url, token: own }: Served): Promise<void> {
  const path = join(root, 'jws-vectors', 'testvectors_v1', 'json_web_signature_test.json')
  if (!(await isThere(path))) return skip(path)
  const { testGroups } = JSON.parse(await readFile(path, 'utf8')) as Vectors
  const { send, done } = watch('Wycheproof signatures, as they are and with our claims')
  const [ownHeader, claims] = own.split('.')
  const sendToken = async (about: string, token: string) => {
    const { status } = await send(about, new URL('/api/auth/me', url), { headers: { authorization: `Bearer ${token}` } })
    if (status !== 401) problems.push(`${about}: ${status}`)
  }
  let count = 0
  for (const { private: key, tests } of testGroups) {
    const theirs = openTokens(key?.k ? Buffer.from(key.k, 'base64url') : randomBytes(32))
    for (const { tcId, comment, jws } of tests) {
      const about = `${tcId} ${comment}`
      count++
      if ((await theirs.read(jws)) !== null) problems.push(`${about}: read`)
      await sendToken(about, jws.replaceAll(/[^\x21-\x7e]/g, ''))
      const header = jws.split('.')[0]?.replaceAll(/[^\x21-\x7e]/g, '') ?? ''
      const text = `${header}.${claims}`
      const signed = `${text}.${createHmac('sha256', jwtSecret).update(text).digest('base64url')}`
      if (header !== ownHeader) await sendToken(`${about}, our claims`, signed)
    }
  }
  print(`${count} signature vectors`)
  done()
}

/** Checks that every string is harmless in every field, and that metadata and comments return it unchanged. */
async function sendStrings({ url, token, client }: Served): Promise<void> {
  const path = join(root, 'naughty-strings', 'blns.json')
  if (!(await isThere(path))) return skip(path)
  const strings = JSON.parse(await readFile(path, 'utf8')) as string[]
  const { document } = await client.documents.upload({ filename: 'a.txt', size: 1, open: () => [Buffer.from('b')] })
  const metadata = Object.fromEntries(strings.map((text, index) => [`n${index}`, text]))
  const stored = (await client.documents.update(document.id, { metadata })).metadata as Record<string, string>
  for (const [key, text] of Object.entries(metadata)) if (stored[key] !== text) problems.push(`metadata: ${JSON.stringify(text)} changed`)
  print(`${strings.length} strings came back from metadata`)

  const comment = await client.comments.create(document.id, { content: 'x' })
  const label = await client.labels.create({ name: 'x', color: '#112233' })
  const link = await client.sharedLinks.create({ document_id: document.id })
  const someone = await client.call<{ id: string }>('POST', '/api/users', {
    username: 'someone',
    email: 'someone@example.org',
    password: null,
  })
  const source = await client.sources.create({ name: 'x', type: 'webdav', url: 'http://127.0.0.1:9/', sync_interval: 0 })
  const api = await client.tokens.create({ name: 'x', scopes: ['read'] })
  const known = {
    documents: document.id,
    document_id: document.id,
    comment_id: comment.id,
    labels: label.id,
    users: someone.id,
    identifier: 'someone',
    sources: source.id,
    tokens: api.id,
    token: link.token,
    ocr: randomUUID(),
    notifications: randomUUID(),
  }
  const order = Array.from({ length: strings.length }, (_, index) => strings[(index * 7) % strings.length] as string)
  let at = 0
  const pick = () => {
    if (!values.short) return strings
    at = (at + stringsOfShort) % (order.length - stringsOfShort)
    return order.slice(at, at + stringsOfShort)
  }
  const operations = operationsOf(await client.call<Description>('GET', '/api/openapi.json'))
  const attempts = operations.flatMap((operation) => attemptsOn(operation, known, pick))
  const { send, done } = watch(
    `naughty strings, in ${new Set(attempts.map(({ place }) => place)).size} places of ${operations.length} routes`,
  )
  let next = 0
  const runNext = async () => {
    for (let number = next++; number < attempts.length; number = next++) {
      const attempt = attempts[number] as Attempt
      await send(attempt.place, new URL(attempt.address, url), requestOf(attempt, token, number))
    }
  }
  await Promise.all(Array.from({ length: concurrency }, runNext))
  done()
}

function requestOf({ method, json, form }: Attempt, token: string, number: number): RequestInit {
  const address = `198.18.${(number >> 8) & 255}.${number & 255}`
  const headers: Record<string, string> = { authorization: `Bearer ${token}`, 'x-forwarded-for': address }
  if (json !== undefined) return { method, headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify(json) }
  if (!form) return { method, headers }
  const { body, contentType } = multipart(form.fields, form.field, [{ filename: form.filename, size: 1, open: () => [Buffer.from('c')] }])
  return { method, headers: { ...headers, 'content-type': contentType }, body, duplex: 'half' } as RequestInit
}
