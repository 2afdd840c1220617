/** Two PostgreSQL on ports of this machine: a primary, and a standby with synchronous streaming replication. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { onTestFinished } from 'vitest'
import { environmentOf, openCluster } from '../../../src/db/embedded/cluster.ts'
import { migrate } from '../../../src/db/migrate.ts'
import { openDatabase } from '../../../src/db/pool.ts'
import { openLog } from '../../../src/log/log.ts'
import { childrenOf } from '../processes/processes.ts'
import { quickFolder } from '../quick-folder.ts'
import { freePort } from './free-port.ts'

const log = openLog({ level: 'silent', format: 'json' })
const settings = { listen_addresses: '127.0.0.1', fsync: 'off', shared_buffers: '32MB', max_wal_senders: 4, wal_keep_size: '1GB' }

export interface Instance {
  readonly port: number
  query<Row extends object = Record<string, unknown>>(text: string): Promise<Row[]>
  /** Kills all its processes, as a power cut would. */
  kill(): Promise<void>
}

export type Pair = Awaited<ReturnType<typeof openPair>>

/** Starts both, with a migrated database `dms`; they are removed with the test. */
export async function openPair() {
  const top = mkdtempSync(join(quickFolder(), 'dms-pair-'))
  chmodSync(top, 0o711)
  const running: ChildProcess[] = []
  onTestFinished(async () => {
    await Promise.all(running.map(killAll))
    rmSync(top, { recursive: true, force: true })
  })
  const { folder, account, ...cluster } = await openCluster(join(top, 'one'))
  const binaries = await cluster.binaries()

  const start = async (dataFolder: string, more: Record<string, string>): Promise<Instance> => {
    const port = await freePort()
    const flags = Object.entries({ ...settings, port, unix_socket_directories: '', ...more }).map(([name, value]) => `--${name}=${value}`)
    const child = spawn(join(binaries.folder, 'bin', 'postgres'), ['-D', dataFolder, ...flags], {
      env: environmentOf(binaries),
      stdio: 'ignore',
      cwd: '/',
      uid: account?.uid,
      gid: account?.gid,
    })
    running.push(child)
    const query = async <Row extends object>(text: string, database = 'dms'): Promise<Row[]> => {
      const client = new pg.Client({ host: '127.0.0.1', port, user: 'dms', database, connectionTimeoutMillis: 5000 })
      client.on('error', () => {})
      try {
        await client.connect()
        return (await client.query<Row>(text)).rows
      } finally {
        await client.end().catch(() => {})
      }
    }
    for (let tries = 0; !(await query('select', 'postgres').catch(() => null)); tries++) {
      if (tries > 500 || child.exitCode !== null) throw new Error(`PostgreSQL on ${dataFolder} did not start (${child.exitCode})`)
      await sleep(20)
    }
    return { port, query, kill: () => killAll(child) }
  }

  writeFileSync(join(folder, 'pg_hba.conf'), 'host all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n')
  const primary = await start(folder, {})
  const administrator = new pg.Client({ host: '127.0.0.1', port: primary.port, user: 'dms', database: 'postgres' })
  await administrator.connect()
  await administrator.query('create database dms')
  await migrateAll(primary.port)
  const copy = join(top, 'two')
  await administrator.query(`select pg_backup_start('copy', true)`)
  execFileSync('cp', ['-a', folder, copy])
  const { rows } = await administrator.query<{ labelfile: string }>('select labelfile from pg_backup_stop(false)')
  rmSync(join(copy, 'postmaster.pid'))
  rmSync(join(copy, 'pg_wal'), { recursive: true })
  mkdirSync(join(copy, 'pg_wal'), { mode: 0o700 })
  writeFileSync(join(copy, 'backup_label'), rows[0]!.labelfile)
  writeFileSync(join(copy, 'standby.signal'), '')
  if (account) for (const name of ['pg_wal', 'backup_label', 'standby.signal']) chownSync(join(copy, name), account.uid, account.gid)
  const standby = await start(copy, { primary_conninfo: `host=127.0.0.1 port=${primary.port} user=dms application_name=standby` })
  await administrator.query(`alter system set synchronous_standby_names = 'standby'`)
  await administrator.query('select pg_reload_conf()')
  await administrator.end()
  return {
    primary,
    standby,
    /** `postgres://` URL of the database, with the hosts of these instances */
    url: (...instances: Instance[]) => `postgres://dms@${instances.map(({ port }) => `127.0.0.1:${port}`).join(',')}/dms`,
  }
}

async function migrateAll(port: number): Promise<void> {
  const address = { connectionString: `postgres://dms@127.0.0.1:${port}/dms` }
  const database = openDatabase({ address, poolMax: 2, connectTimeoutMs: 5000, statementTimeoutMs: 0, log })
  await migrate(database, { lockTimeoutMs: 10_000 })
  await database.close()
}

async function killAll(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const exit = once(child, 'exit')
  // Its children answer and write until they notice that it is gone.
  child.kill('SIGSTOP')
  for (const pid of [...childrenOf(child.pid), child.pid]) process.kill(pid, 'SIGKILL')
  await exit
}
