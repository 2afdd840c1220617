/** Rights of the connection of the application: its role is no superuser, and migrations run as the owner of the tables. */
import { randomUUID } from 'node:crypto'
import { chmod, readFile } from 'node:fs/promises'
import { sql } from 'kysely'
import pg from 'pg'
import { describe, expect, inject, onTestFinished, test, vi } from 'vitest'
import { createClient } from '../../src/client/client.ts'
import { localTransport } from '../../src/client/local.ts'
import { loadConfig } from '../../src/config/load.ts'
import { joinEmbedded } from '../../src/db/embedded/embedded.ts'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/pool.ts'
import type { OwnedDatabase } from '../../src/db/schema-owner.ts'
import { truncateExpiredEvents } from '../../src/events.ts'
import { openLog } from '../../src/log/log.ts'
import { openApp } from '../../src/open-app.ts'
import { reindex } from '../../src/search/search.ts'
import { maintain } from '../../src/worker/maintenance.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { folder } from '../support/places.ts'

vi.setConfig({ testTimeout: 120_000 })

const log = openLog({ level: 'silent', format: 'json' })

async function dataFolder(): Promise<string> {
  const path = await folder()
  // The database runs as another user when we are root.
  await chmod(path, 0o711)
  return path
}

async function open(flags: Record<string, string | boolean>) {
  const { config } = loadConfig({ env: {}, flags: { 'storage.min_free': 0, 'ocr.enabled': false, ...flags } })
  const app = await openApp(config, log, { migrate: 'always', creates: true })
  let isOpen = true
  const close = async () => {
    if (isOpen) await app.close()
    isOpen = false
  }
  onTestFinished(close)
  return { app, close }
}

type App = Awaited<ReturnType<typeof open>>['app']

/** Uploads, reads, searches, rebuilds the index and searches again: the application creates and drops tables of the index. */
async function works(app: App, word: string): Promise<void> {
  const user = { username: 'ada', username_key: 'ada', email: 'ada@example.org', email_key: 'ada@example.org', role: 'user' } as const
  const { id } = await app.db.insertInto('users').values(user).returning('id').executeTakeFirstOrThrow()
  const actor = { id, role: 'user', username: 'ada' } as const
  const client = createClient(localTransport(app, actor))
  const bytes = Buffer.from(word)
  await client.documents.upload({ filename: `${word}.txt`, size: bytes.length, open: () => [bytes] })
  const worker = await startWorker(app, { queues: ['ocr', 'index', 'maintenance'], concurrency: 1, name: 'host/1' })
  await worker.idle()
  const found = async () => (await client.search.query(word)).results.map(({ title }) => title)
  expect(await found()).toEqual([word])
  await reindex(app, { signal: new AbortController().signal })
  expect(await found()).toEqual([word])
  await worker.stop(10_000)
}

const forbidden = [
  ['reads a file of the machine', `select pg_read_file('/etc/passwd')`],
  ['lists a folder of the machine', `select pg_ls_dir('/')`],
  ['starts a program', `copy (select 1) to program 'cat'`],
  ['writes a file', `copy (select 1) to '/tmp/dms-copied'`],
  ['makes a role', 'create role mallory superuser'],
  ['becomes the superuser', 'set role dms'],
  ['becomes the owner', 'set role dms_owner'],
  ['makes a database', 'create database mallory'],
  ['changes a setting of the server', `alter system set log_statement = 'all'`],
  ['makes an untrusted extension', 'create extension file_fdw'],
  ['drops a table', 'drop table users'],
  ['changes a table', 'alter table users add column mallory text'],
  ['switches triggers off', 'alter table audit_entries disable trigger all'],
  ['changes what is known of migrations', 'delete from migrations'],
] as const

describe('the embedded database', () => {
  test('the application reads and writes rows, and has no other rights', async () => {
    const { app } = await open({ data_dir: await dataFolder() })
    await works(app, 'harbour')
    // Partitions are the owner's.
    await app.db
      .updateTable('jobs')
      .set({ finished_at: new Date(0) })
      .where('status', '=', 'completed')
      .execute()
    await sql`select dms_add_job_weeks('2020-01-01', '2020-01-02')`.execute(app.db)
    await maintain(app)
    expect(await app.db.selectFrom('jobs').select('id').execute()).toEqual([])
    expect(await sql`select to_regclass('jobs_completed_2020w01')::text as name`.execute(app.db)).toMatchObject({ rows: [{ name: null }] })
    await sql`update events set at = at - interval '1 hour'`.execute(app.db)
    await truncateExpiredEvents(app.db)
    expect(await app.db.selectFrom('events').select('seq').execute()).toEqual([])
    for (const [what, statement] of forbidden)
      await expect
        .soft(sql.raw(statement).execute(app.db), what)
        .rejects.toMatchObject({ code: expect.stringMatching(/^(42501|0A000|58P01)$/) })
    const { rows } =
      await sql`select rolsuper, rolcreatedb, rolcreaterole, rolbypassrls, rolreplication from pg_roles where rolname = current_user`.execute(
        app.db,
      )
    expect(rows).toEqual([{ rolsuper: false, rolcreatedb: false, rolcreaterole: false, rolbypassrls: false, rolreplication: false }])
  })

  test('the owner creates databases and is no superuser', async () => {
    const { app } = await open({ data_dir: await dataFolder() })
    const database = app.database as OwnedDatabase
    await database.asOwner(async ({ connect }) => {
      const client = await connect('dms test')
      await client.query('create database other')
      await client.query('drop database other')
      await expect(client.query(`select pg_read_file('/etc/passwd')`)).rejects.toMatchObject({ code: '42501' })
      await client.end()
    })
  })

  test('tables of the superuser get the new owner with the next start', async () => {
    const data_dir = await dataFolder()
    const before = await joinEmbedded({ dataDir: data_dir, log })
    const asSuperuser = openDatabase({
      address: before.superuserConnection,
      poolMax: 2,
      connectTimeoutMs: 5000,
      statementTimeoutMs: 0,
      log,
    })
    // As it was made when there were no other roles.
    await sql`drop owned by dms_owner, dms_app`.execute(asSuperuser.db)
    await sql`alter database dms owner to dms`.execute(asSuperuser.db)
    await sql`drop role dms_app, dms_owner`.execute(asSuperuser.db)
    await migrate(asSuperuser, { lockTimeoutMs: 10_000 })
    await asSuperuser.close()
    await before.release()

    const { app } = await open({ data_dir })
    await works(app, 'lighthouse')
    const { rows } = await sql<{ owner: string }>`
      select distinct pg_get_userbyid(relowner) as owner from pg_class where relnamespace = 'public'::regnamespace
        and not exists (select from pg_depend where objid = pg_class.oid and deptype = 'e') order by 1`.execute(app.db)
    expect(rows.map(({ owner }) => owner)).toEqual(['dms_app', 'dms_owner'])
  })
})

describe('an external database with database.migration_url', () => {
  async function place() {
    const name = `dms_test_${randomUUID().replaceAll('-', '')}`
    const client = new pg.Client(inject('databaseUrl').replace('NAME', 'postgres'))
    await client.connect()
    // The statements of the documentation, for this database.
    const [, documented = ''] = /^```sql\n([\s\S]*?)^```$/m.exec(await readFile('docs/operations.md', 'utf8')) ?? []
    const statements = documented.trim().split('\n')
    expect(statements.length).toBe(4)
    for (const statement of statements) await client.query(statement.replaceAll(/\bdms(?=[_ ])/g, name))
    onTestFinished(async () => {
      await client.query(`drop database ${name} with (force)`)
      await client.query(`drop role ${name}_app, ${name}_owner`)
      await client.end()
    })
    const urlOf = (role: string, database = name) =>
      inject('databaseUrl')
        .replace('NAME', database)
        .replace(/\/\/[^@]*@/, `//${name}_${role}@`)
    return { urlOf, data_dir: await folder() }
  }

  test('migrations run as the owner, and the application gets its rights', async () => {
    const { urlOf, data_dir } = await place()
    const { app } = await open({ data_dir, 'database.url': urlOf('app'), 'database.migration_url': urlOf('owner') })
    await works(app, 'breakwater')
    await expect(sql`drop table users`.execute(app.db)).rejects.toMatchObject({ code: '42501' })
  })

  test('78 if the two URLs name different databases', async () => {
    const { urlOf, data_dir } = await place()
    const other = inject('databaseUrl').replace('NAME', 'postgres')
    const { close } = await open({ data_dir, 'database.url': urlOf('app'), 'database.migration_url': urlOf('owner') })
    await close()
    const client = new pg.Client(urlOf('owner'))
    await client.connect()
    await client.query(`revoke all on users from ${new URL(urlOf('app')).username}`)
    await client.end()
    await expect(open({ data_dir, 'database.url': urlOf('app'), 'database.migration_url': other })).rejects.toThrow('name two databases')
  })
})
