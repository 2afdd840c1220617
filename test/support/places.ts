/** Empty places for restores, commands on them, and their content afterwards. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { existsSync, statSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { sql } from 'kysely'
import pg from 'pg'
import { inject, onTestFinished } from 'vitest'
import { operator } from '../../src/actor.ts'
import type { App } from '../../src/app.ts'
import { localClient } from '../../src/client/local.ts'
import { loadConfig } from '../../src/config/load.ts'
import { openLog } from '../../src/log/log.ts'
import { openApp } from '../../src/open-app.ts'
import { administer } from './administer.ts'
import { bareEnvironment, type Ended, executable, type RunOptions, run } from './processes/run.ts'
import { runHere } from './processes/run-here.ts'

export interface Place {
  readonly databaseUrl: string
  readonly dataDir: string
}

/** A folder on another file system than tmpdir(), if there is one. */
export const otherFileSystem = ['/var/tmp', '/dev/shm'].find((path) => existsSync(path) && statSync(path).dev !== statSync(tmpdir()).dev)

/** Creates a folder that is removed with the test. */
export async function folder(parent = tmpdir()): Promise<string> {
  const path = await mkdtemp(join(parent, 'dms-place-'))
  onTestFinished(() => rm(path, { recursive: true, force: true }))
  return path
}

/** Creates an empty database, owned by a role that is no superuser, and a folder; both are removed with the test. */
export async function emptyPlace(): Promise<Place> {
  const name = `dms_test_${randomUUID().replaceAll('-', '')}`
  await administer(`create role ${name} login`, `create database ${name} owner ${name} strategy file_copy`)
  onTestFinished(() => administer(`drop database ${name} with (force)`, `drop role ${name}`))
  const databaseUrl = inject('databaseUrl')
    .replace('NAME', name)
    .replace(/\/\/[^@]*@/, `//${name}@`)
  return { databaseUrl, dataDir: await folder() }
}

/** Returns the variables of a command on a place. */
export const variables = ({ databaseUrl, dataDir }: Place, env: Record<string, string> = {}): Record<string, string> => ({
  DATABASE_URL: databaseUrl,
  DMS_DATA_DIR: dataDir,
  DMS_STORAGE_MIN_FREE: '0',
  DMS_BACKUP_PATH: join(dataDir, 'backups'),
  ...env,
})

/** Runs `dms args…` on a place to its end. */
export const dms = (place: Place, args: readonly string[], options: RunOptions = {}): Promise<Ended> =>
  run(args, { ...options, env: variables(place, options.env) })

/** Runs it in this process, for tests that need no process of their own. */
export const here = (place: Place, args: readonly string[], options: RunOptions = {}): Promise<Ended> =>
  runHere(args, { ...options, env: variables(place, options.env) })

/** Starts `dms args…` on a place; it is killed with the test. */
export function begin(place: Place, args: readonly string[]): ChildProcessWithoutNullStreams & { ended: Promise<number | null> } {
  const child = spawn(process.execPath, [executable, ...args], { env: bareEnvironment(variables(place)) })
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve))
  child.stdin.on('error', () => {})
  child.stderr.resume()
  onTestFinished(async () => {
    child.kill('SIGKILL')
    child.stdout.resume()
    await ended
  })
  return Object.assign(child, { ended })
}

/** Opens a connection to its database, which is closed with the test. */
export async function connection({ databaseUrl }: Place): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: databaseUrl })
  client.on('error', () => {})
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** Opens the place as a server would; closed with the test. */
export async function opened({ databaseUrl, dataDir }: Place) {
  const { config } = loadConfig({
    env: {},
    flags: { data_dir: dataDir, 'database.url': databaseUrl, 'limits.api_calls_per_minute': 0, 'storage.min_free': 0 },
  })
  const app = await openApp(config, openLog({ level: 'error', format: 'json' }), { migrate: 'never' })
  onTestFinished(() => app.close())
  return { app, asOperator: localClient(app, operator), asStranger: localClient(app, null) }
}

/** Adds a copy of this document without indexing it. Returns its id. */
export async function copyUnindexed({ db }: App, id: string): Promise<string> {
  const { rows } = await sql<{ document_id: string }>`
    with copy as (
      insert into documents (owner_id, title, filename, status, mime_type, size, sha256, language)
      select owner_id, title, filename, status, mime_type, size, sha256, language from documents where id = ${id} returning *
    )
    insert into document_versions (document_id, number, sha256, size, mime_type, filename, origin, created_at)
    select id, 1, sha256, size, mime_type, filename, 'upload', created_at from copy returning document_id`.execute(db)
  return rows[0]?.document_id ?? ''
}
