/** One PostgreSQL for the whole run: the embedded one, started here and stopped at the end, with a migrated template that every test clones. And one build. */
import { execFile } from 'node:child_process'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { TestProject } from 'vitest/node'
import { joinEmbedded } from '../../src/db/embedded/embedded.ts'
import { migrate } from '../../src/db/migrate.ts'
import { openDatabase } from '../../src/db/pool.ts'
import { openLog } from '../../src/log/log.ts'
import { setDatabaseClock } from './database-clock.ts'
import { copyStrategy, quickFolder } from './quick-folder.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** of a database on the server, the name left out: postgres://…/NAME?… */
    databaseUrl: string
    /** how databases are best copied there */
    copyStrategy: 'file_copy' | 'wal_log'
  }
}

export const template = 'dms_template'

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const log = openLog({ level: 'warn', format: 'pretty' })
  const built = build()
  const dataDir = await mkdtemp(join(quickFolder(), 'dms-test-'))
  // The database runs as another user when we are root; that one must get through.
  await chmod(dataDir, 0o711)
  const embedded = await joinEmbedded({ dataDir, log })
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
  await migrate(database, 10_000)
  await setDatabaseClock(database.db, 0)
  await database.close()
  project.provide('databaseUrl', url('NAME'))
  project.provide('copyStrategy', copyStrategy())
  await built.catch((problem) => log.warn(`without a build each dms starts slowly, from its sources: ${problem.stderr}`))
  return async () => {
    await client.end()
    await server.close()
    await embedded.release()
    await rm(dataDir, { recursive: true, force: true })
  }
}

/** The processes of dms that tests start are this build, where nobody changes a source meanwhile. */
const build = () => promisify(execFile)(process.execPath, [fileURLToPath(new URL('../../build.js', import.meta.url))])
