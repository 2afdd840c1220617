/** One embedded PostgreSQL for the whole run, started here and stopped at the end, with a migrated template that every test clones. And one build. */
import { execFile } from 'node:child_process'
import { chmod, mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { TestProject } from 'vitest/node'
import { environment } from '../../src/config/environment.ts'
import { joinEmbedded } from '../../src/db/embedded/embedded.ts'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/pool.ts'
import { openLog } from '../../src/log/log.ts'
import { setDatabaseClock } from './database-clock.ts'
import { createRunFolder, removeDeadRuns } from './dead-runs.ts'
import { hasRoomForFiles, quickFolder } from './quick-folder.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** URL of a database on the server with a placeholder: postgres://…/NAME?… */
    databaseUrl: string
    /** program of reader processes in the build: it starts in half the CPU time; undefined without a build */
    readerProgram: string | undefined
  }
}

export const template = 'dms_template'

/**
 * Settings of a server whose data need not survive the run. Without fsync, databases are copied as files in 17 ms of CPU time; through the WAL, whose
 * whole pages are compressed, in 230 ms. Each copy is a checkpoint, and with full_page_writes the next test would log whole pages again.
 */
const settings = { fsync: 'off', full_page_writes: 'off' }

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const log = openLog({ level: 'warn', format: 'pretty' })
  const built = build()
  // Another user's run is removed by that user.
  await removeDeadRuns(quickFolder()).catch((error: Error) => log.warn(`what a killed run left stays: ${error.message}`))
  const dataDir = await createRunFolder(quickFolder())
  // Workers inherit it. Without it, each compiles the same packages again.
  environment().NODE_COMPILE_CACHE ??= join(root, 'node_modules/.cache/test')
  // The home of every command. Workers inherit it.
  environment().DMS_TEST_HOME = join(dataDir, 'home')
  if (hasRoomForFiles()) environment().TMPDIR = await createTempFolder(dataDir)
  const embedded = await joinEmbedded({ dataDir, log, settings })
  const { host, port, user } = embedded.superuserConnection
  const url = (name: string) => `postgres://${user}@localhost/${name}?host=${encodeURIComponent(host)}&port=${port}`
  const address = (name: string) => ({
    address: { connectionString: url(name) },
    poolMax: 2,
    connectTimeoutMs: 5000,
    statementTimeoutMs: 0,
    log,
  })

  const server = openDatabase(address('postgres'))
  const client = await server.connect('dms test')
  await client.query(`create database ${template}`)
  const database = openDatabase(address(template))
  await migrate(database, { lockTimeoutMs: 10_000 })
  await setDatabaseClock(database.db, 0)
  await database.close()
  project.provide('databaseUrl', url('NAME'))
  const isBuilt = await built.then(
    () => true,
    (problem) => {
      log.warn(`without a build each dms starts slowly, from its sources: ${problem.stderr}`)
      return false
    },
  )
  project.provide('readerProgram', isBuilt ? join(root, 'dist/child.js') : undefined)
  if (isBuilt) project.onTestsRerun(async () => void (await build()))
  return async () => {
    await client.end()
    await server.close()
    await embedded.release()
    await rm(dataDir, { recursive: true, force: true })
  }
}

/** Folder for temporary files of all users. */
async function createTempFolder(parent: string): Promise<string> {
  const folder = join(parent, 't')
  await mkdir(folder)
  await chmod(folder, 0o1777)
  return folder
}

const root = fileURLToPath(new URL('../../', import.meta.url))

/** Processes of dms that tests start run this build, as long as no source is changed. */
const build = () => promisify(execFile)(process.execPath, [join(root, 'build.js')])
