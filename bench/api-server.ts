/** A server for bench/api.ts: dms, or a plain handler that runs the recorded SQL of dms. */
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import type { Actor } from '../src/actor.ts'
import type { App } from '../src/app.ts'
import { loadConfig } from '../src/config/load.ts'
import { joinEmbedded } from '../src/db/embedded/embedded.ts'
import { typeParsers } from '../src/db/pool.ts'
import type { Schema } from '../src/db/schema.ts'
import { requireDocument } from '../src/documents/access.ts'
import { list as listDocuments } from '../src/documents/list.ts'
import { excerptLength } from '../src/documents/view.ts'
import { openLog } from '../src/log/log.ts'
import { openApp } from '../src/open-app.ts'
import { openPostgres } from '../src/search/engines/postgres/engine.ts'
import * as search from '../src/search/search.ts'
import { buildServer } from '../src/server/http/assemble.ts'
import { openAuthCache } from '../src/server/http/auth-cache.ts'
import { listen } from '../src/server/listen.ts'
import { resolvePage } from '../src/settings/settings.ts'

interface Statement {
  text: string
  values: readonly unknown[]
}

const [kind = 'dms', folder = '', count = '10000'] = process.argv.slice(2)
const flags = {
  data_dir: join(folder, 'data'),
  'server.port': 0,
  'log.access': false,
  'limits.api_calls_per_minute': kind === 'dms unlimited' ? 0 : 1_000_000,
  'worker.embedded': false,
}
const { config } = loadConfig({ env: {}, flags })
const log = openLog({ level: 'error', format: 'json' })
const app = await openApp(config, log, { migrate: 'embedded', creates: true })
const actor = await somebody(app)
if (kind === 'dms') await fill(app, actor, Number(count))
const { id } = await app.db.selectFrom('documents').select('id').orderBy('id').offset(100).limit(1).executeTakeFirstOrThrow()
const paths = { document: `/api/documents/${id}`, list: '/api/documents', search: '/api/search?q=harbour&highlight=false' }
const close = kind.startsWith('dms') ? await serveDms() : await serveBare()

process.on('message', async (message: { stop?: true; usage?: true; measure?: keyof typeof paths }) => {
  if (message.usage) process.send?.({ cpu: process.cpuUsage().user + process.cpuUsage().system })
  if (message.measure) process.send?.({ rate: await measure(message.measure) })
  if (!message.stop) return
  await close()
  await app.close()
  process.exit(0)
})

async function serveDms(): Promise<() => Promise<void>> {
  const authCache = openAuthCache(app)
  const { url, close } = await listen(buildServer(app, { authCache }), app.config)
  const iat = Math.floor(Date.now() / 1000)
  const token = await app.tokens.sign({ sub: actor.id ?? '', jti: randomUUID(), iat, exp: iat + 3600, ver: 1 })
  process.send?.({ base: url, token, paths })
  return async () => {
    await close(1000)
    await authCache.close()
  }
}

async function serveBare(): Promise<() => Promise<void>> {
  const statements = await recordStatements()
  const query = kind === 'bare pool' ? await overPool() : await overPipeline()
  const server = createServer(async (request, response) => {
    const kind = request.url?.startsWith('/api/search') ? 'search' : request.url === '/api/documents' ? 'list' : 'document'
    const answers: unknown[] = []
    for (const statement of statements[kind]) answers.push((await query(statement)).rows)
    const body = JSON.stringify(answers)
    response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }).end(body)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  process.send?.({ base: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, token: 'none', paths })
  return async () => void server.close()
}

/** Records the SQL that dms sends for each request, without the sign-in. */
async function recordStatements(): Promise<Record<keyof typeof paths, Statement[]>> {
  const noted: Statement[] = []
  const pool = new pg.Pool(await address())
  const db = new Kysely<Schema>({
    dialect: new PostgresDialect({ pool }),
    log: ({ query }) => {
      noted.push({ text: query.sql, values: query.parameters })
    },
  })
  const watched: App = { ...app, db, reads: db, database: { ...app.database, lists: db }, search: openPostgres(db) }
  const during = async (work: () => Promise<unknown>) => {
    noted.length = 0
    await work()
    return [...noted]
  }
  // How long a page is, where the request does not say, is a setting of the user.
  const page = () => resolvePage(watched, actor, { page: 1 })
  const statements = {
    document: await during(() => requireDocument(db, actor, id)),
    list: await during(async () =>
      listDocuments(watched, actor, { ...(await page()), sort: 'created_at', order: 'desc', characters: excerptLength }),
    ),
    search: await during(async () =>
      search.search(watched, actor, { ...(await page()), q: 'harbour', filters: {}, highlight: false, fuzzy: false }),
    ),
  }
  await db.destroy()
  return statements
}

async function overPool() {
  const pool = new pg.Pool({ ...(await address()), max: 10 })
  return ({ text, values }: Statement) => pool.query(text, [...values])
}

async function overPipeline() {
  const client = new pg.Client({ ...(await address()), types: typeParsers, pipeline: true })
  await client.connect()
  const names = new Map<string, string>()
  const nameOf = (text: string) => names.get(text) ?? names.set(text, `q${names.size}`).get(text)
  return ({ text, values }: Statement) => client.query({ name: nameOf(text), text, values: [...values] })
}

/** Returns queries per second with 32 at once, without HTTP and JSON. */
async function measure(request: keyof typeof paths): Promise<number> {
  const statements = (await recordStatements())[request]
  const query = await overPipeline()
  const end = performance.now() + 3000
  let done = 0
  await Promise.all(
    Array.from({ length: 32 }, async () => {
      for (; performance.now() < end; done++) for (const statement of statements) await query(statement)
    }),
  )
  return done / 3
}

async function address() {
  const { connection, release } = await joinEmbedded({ dataDir: config.data_dir, log })
  await release()
  return connection
}

async function somebody({ db }: App): Promise<Actor> {
  const row = {
    username: 'bench',
    username_key: 'bench',
    email: 'bench@example.org',
    email_key: 'bench@example.org',
    role: 'user' as const,
  }
  await db
    .insertInto('users')
    .values(row)
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  const { id } = await db.selectFrom('users').select('id').where('username', '=', 'bench').executeTakeFirstOrThrow()
  return { id, role: 'user', username: 'bench' }
}

/** Texts of about 2 kB; one in twenty contains the word harbour. */
async function fill({ db }: App, { id }: Actor, count: number): Promise<void> {
  await db
    .insertInto('stored_files')
    .values({ sha256: '0'.repeat(64), address: '0'.repeat(64), size: 2000 })
    .execute()
  await sql`
    insert into documents (owner_id, title, filename, mime_type, size, sha256, language, status, content)
    select ${id}::uuid, 'Letter ' || n, 'letter-' || n || '.txt', 'text/plain', 2000, ${'0'.repeat(64)}, 'eng', 'completed',
      case when n % 20 = 0 then 'harbour ' else '' end || (select string_agg(substr(md5((n * 131 + w)::text), 1, 3 + w % 6), ' ') from generate_series(1, 250) w)
    from generate_series(1, ${count}::int) n`.execute(db)
  await search.reindex(app)
  await sql`analyze`.execute(db)
}
