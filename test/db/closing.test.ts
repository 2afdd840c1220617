import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import { expect, inject, onTestFinished, test } from 'vitest'
import { openDatabase } from '../../src/db/pool.ts'
import { openLog } from '../../src/log/log.ts'
import { startRelay } from '../support/servers/relay.ts'

test('a connection that the server ends logs a warning, but not after close(), when the embedded server stops', async () => {
  const url = inject('databaseUrl').replace('NAME', 'postgres')
  const folder = await mkdtemp(join(tmpdir(), 'dms-closing-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const logFile = join(folder, 'log')
  const relay = await startRelay(url)
  const open = (connectionString: string) =>
    openDatabase({
      address: { connectionString },
      poolMax: 1,
      connectTimeoutMs: 5000,
      statementTimeoutMs: 0,
      log: openLog({ level: 'warn', format: 'json', file: logFile }),
    })
  const [ours, other] = [open(relay.url), open(url)]
  onTestFinished(() => other.close())
  const pidOf = async (db: Kysely<never>) => (await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db)).rows[0]?.pid
  const pids = () => Promise.all([ours.db, ours.prepared].map((db) => pidOf(db as never)))
  const terminate = async (ended: readonly unknown[]) => {
    for (const pid of ended) await sql`select pg_terminate_backend(${pid}, 5000)`.execute(other.db)
  }
  const warnings = async () => (await readFile(logFile, 'utf8')).match(/an idle database connection was lost/g)?.length ?? 0

  await terminate(await pids())
  await expect.poll(warnings).toBe(2)

  const last = await pids()
  // The server stops before it reads that the connections end.
  relay.withholdRequests()
  const closing = ours.close()
  await terminate(last)
  await closing
  // This process reads the last messages of the server.
  await sleep(200)
  expect(await warnings()).toBe(2)
})
