/** A whole dms for one test: a database of its own, real files, real reader processes, and users. */
import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import { inject, onTestFinished } from 'vitest'
import type { Actor } from '../../src/actor.ts'
import { type Client, createClient, type Transport } from '../../src/client/client.ts'
import { localTransport } from '../../src/client/local.ts'
import { loadConfig } from '../../src/config/load.ts'
import { openLog } from '../../src/log/log.ts'
import { openApp } from '../../src/open-app.ts'
import { buildServer } from '../../src/server/http/assemble.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { administer } from './administer.ts'
import { conforming } from './conformance.ts'
import { template } from './database.ts'
import { searchPath, setDatabaseClock } from './database-clock.ts'

type Settings = Record<string, string | number | boolean>

const queues = ['ocr', 'sync', 'index', 'maintenance'] as const

/** Starts it; it is closed with the test. `settings` by dotted key, as `{'limits.max_upload_size': '1kB'}`. */
export async function startApp(settings: Settings = {}) {
  const dataDir = await mkdtemp(join(tmpdir(), 'dms-app-'))
  const url = await cloneDatabase()
  const { config } = loadConfig({
    env: {},
    flags: {
      data_dir: dataDir,
      'database.url': url,
      'log.access': false,
      'limits.api_calls_per_minute': 0,
      'storage.min_free': 0,
      // The servers that tests read from are on this machine.
      'sources.allow_private_networks': true,
      ...settings,
    },
  })
  let shift = 0
  let shown = 0
  let passed = 0
  let databaseShift = 0
  const app = await openApp(config, openLog({ level: 'error', format: 'json' }), {
    migrate: 'never',
    readerProgram: inject('readerProgram'),
    // Never the same moment twice: what is of one moment shows it by being asked for once.
    now: () => {
      shown = Math.max(shown + 1, Date.now() + shift)
      return new Date(shown)
    },
    monotonicMs: () => performance.now() + passed,
  })
  onTestFinished(async () => {
    await app.close()
    await rm(dataDir, { recursive: true, force: true })
  })

  /** One after the other: PostgreSQL cannot replace a function twice at once. */
  let shifting = Promise.resolve()
  const shiftDatabase = (ms: number): Promise<void> => {
    databaseShift += ms
    shifting = shifting.then(() => setDatabaseClock(app.db, databaseShift))
    return shifting
  }

  // Owners take turns in the order of their ids, and ids of one millisecond have no order.
  const { rows: ids } = await sql<{ id: string }>`select dms_uuidv7() as id from generate_series(1, 3) order by id`.execute(app.db)
  const person = async (username: string, role: 'admin' | 'user') => {
    const id = ids.shift()?.id
    const user = await app.db
      .insertInto('users')
      .values({ id, username, username_key: username, email: `${username}@example.org`, email_key: `${username}@example.org`, role })
      .returningAll()
      .executeTakeFirstOrThrow()
    return { ...user, actor: { id: user.id, role, username } satisfies Actor }
  }
  const [ada, bob, admin] = [await person('ada', 'user'), await person('bob', 'user'), await person('root', 'admin')]

  let server: ReturnType<typeof buildServer> | undefined
  /** in this process, with every answer checked against the description of the API; all use one server, which is built with the first request */
  const client = (actor: Actor | null): Client => {
    let transport: Transport | undefined
    return createClient((request) => {
      server ??= buildServer(app)
      transport ??= conforming(app, localTransport(app, actor, server))
      return transport(request)
    })
  }

  return {
    app,
    dataDir,
    /** URL of the database of the test */
    databaseUrl: url,
    ada,
    bob,
    admin,
    asAda: client(ada.actor),
    asBob: client(bob.actor),
    asAdmin: client(admin.actor),
    asStranger: client(null),
    /** advances every clock that dms reads by `ms` milliseconds */
    later: async (ms: number) => {
      shift += ms
      passed += ms
      await shiftDatabase(ms)
    },
    /** advances the clock of this process alone by `ms` milliseconds, which may be negative */
    setProcessClock: (ms: number) => {
      shift += ms
      shown = 0
    },
    /** advances the clock of the database alone by `ms` milliseconds, which may be negative */
    setDatabaseClock: async (ms: number) => {
      await shiftDatabase(ms)
    },
    /** runs jobs until none can run */
    runJobs: async (only: readonly (typeof queues)[number][] = queues) => {
      const worker = await startWorker(app, { queues: only, concurrency: 2 })
      await worker.idle()
      await worker.stop(10_000)
    },
  }
}

/** Uploads a file with these bytes. Returns the document. */
export async function upload(
  client: Client,
  filename: string,
  bytes: string | Uint8Array,
  options: Parameters<Client['documents']['upload']>[1] = {},
) {
  const buffer = Buffer.from(bytes)
  return (await client.documents.upload({ filename, size: buffer.length, open: () => [buffer] }, options)).document
}

async function cloneDatabase(): Promise<string> {
  const name = `dms_test_${randomUUID().replaceAll('-', '')}`
  await administer(
    `create database ${name} template ${template} strategy file_copy`,
    `alter database ${name} set search_path = ${searchPath}`,
  )
  onTestFinished(() => administer(`drop database ${name} with (force)`))
  return inject('databaseUrl').replace('NAME', name)
}
