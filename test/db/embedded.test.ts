import { type ChildProcessWithoutNullStreams, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  appendFileSync,
  chmodSync,
  chownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client } from 'pg'
import { afterAll, afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { DatabaseOutdated } from '../../src/db/embedded/cluster.ts'
import { type EmbeddedPostgres, joinEmbedded } from '../../src/db/embedded/embedded.ts'
import { ConfigError } from '../../src/errors.ts'
import { openLog } from '../../src/log/log.ts'
import { signal } from '../support/processes/process-tree.ts'

const log = openLog({ level: 'silent', format: 'json' })
const isRoot = process.getuid?.() === 0
const nobody = isRoot ? Number(execFileSync('id', ['-u', 'nobody'])) : undefined
const script = fileURLToPath(new URL('../support/servers/own-embedded.ts', import.meta.url))
/** whether that account can run this checkout, which may be below /root */
const canRun = (uid: number | undefined): boolean => {
  try {
    execFileSync(process.execPath, ['--check', script], { uid, cwd: '/', stdio: 'ignore' })
    return uid !== undefined
  } catch {
    return false
  }
}

const top = mkdtempSync(join(tmpdir(), 'dms-embedded-'))
chmodSync(top, 0o711)
/** one database for all tests that need no empty folder */
const used = join(top, 'used')
const joined: EmbeddedPostgres[] = []
const started: ChildProcessWithoutNullStreams[] = []

afterEach(async () => {
  await Promise.all(joined.splice(0).map((postgres) => postgres.release()))
  for (const child of started.splice(0)) child.kill('SIGKILL')
  for (const pid of servers()) signal(pid, 'SIGKILL')
})
afterAll(() => rmSync(top, { recursive: true, force: true }))

/** Returns the PostgreSQL processes with a data folder of this test. */
function servers(): number[] {
  const lines = execFileSync('ps', ['-ww', '-eo', 'pid=,args=']).toString().split('\n')
  return lines
    .filter((line) => /^\s*\d+ \S*postgres .*-D /.test(line) && line.includes(`-D ${top}/`))
    .map((line) => Number.parseInt(line, 10))
}

const serverOf = (dataDir: string): number => Number.parseInt(readFileSync(join(dataDir, 'postgres/postmaster.pid'), 'utf8'), 10)

const uidOf = (pid: number): number => Number(execFileSync('ps', ['-o', 'uid=', '-p', String(pid)]))

async function joinAt(dataDir: string): Promise<EmbeddedPostgres> {
  const postgres = await joinEmbedded({ dataDir, log })
  joined.push(postgres)
  return postgres
}

/** Starts another process that joins; resolves when it has joined. */
async function owner(dataDir: string, { uid, shell }: { uid?: number; shell?: string } = {}) {
  const command = [process.execPath, script, dataDir]
  const [program, ...args] = shell ? ['sh', '-c', `${shell}; exec "$@"`, 'sh', ...command] : command
  const child = spawn(program!, args, { uid, gid: uid, cwd: '/' })
  started.push(child)
  let failure = ''
  child.stderr.on('data', (chunk) => {
    failure += chunk
  })
  const exit = once(child, 'exit')
  const first = await Promise.race([once(child.stdout, 'data').then(String), exit])
  if (first !== 'in\n') throw new Error(failure)
  return {
    leave: () => {
      child.stdin.end('leave\n')
      return exit
    },
    kill: () => {
      child.kill('SIGKILL')
      return exit
    },
  }
}

async function query({ superuserConnection: connection }: EmbeddedPostgres, sql: string): Promise<unknown> {
  const client = new Client({ ...connection, ssl: false })
  client.on('error', () => undefined)
  await client.connect()
  try {
    const { rows } = await client.query({ text: sql, rowMode: 'array' })
    return rows[0]?.[0]
  } finally {
    await client.end()
  }
}

test('starts on an empty folder, answers, stops after release, and keeps what was written', async () => {
  const postgres = await joinAt(used)
  expect(postgres.version).toMatch(/^\d+\.\d+$/)
  await query(postgres, 'create table kept as select 42 as answer')
  expect(servers()).toEqual([serverOf(used)])
  await postgres.release()
  await postgres.release()
  expect(servers()).toEqual([])
  const again = await joinAt(used)
  expect(await query(again, 'select answer from kept')).toBe(42)
  await again.release()
  expect(servers()).toEqual([])
})

test('listens on a private Unix socket and on no TCP port, flushes commits, and is independent of the locale of the system', async () => {
  const postgres = await joinAt(used)
  const setting = (name: string) => query(postgres, `show ${name}`)
  expect(await setting('listen_addresses')).toBe('')
  expect(await Promise.all(['fsync', 'full_page_writes', 'synchronous_commit', 'data_checksums'].map(setting))).toEqual([
    'on',
    'on',
    'on',
    'on',
  ])
  expect(await query(postgres, `select datlocprovider::text || ' ' || datlocale from pg_database where datname = 'dms'`)).toBe('b C.UTF-8')
  expect(await query(postgres, `select lower('ÄÖÜ')`)).toBe('äöü')
  expect(statSync(postgres.connection.host).mode & 0o777).toBe(0o700)
  expect(statSync(join(used, 'postgres')).mode & 0o777).toBe(0o700)
  if (process.platform === 'linux') expect(tcpSockets(serverOf(used))).toEqual([])
  await postgres.release()
})

/** Returns the TCP sockets among the open files of a process. */
function tcpSockets(pid: number): string[] {
  const tables = ['tcp', 'tcp6'].flatMap((name) => readFileSync(`/proc/${pid}/net/${name}`, 'utf8').trim().split('\n').slice(1))
  const sockets = new Set(tables.map((line) => `socket:[${line.trim().split(/\s+/)[9]}]`))
  const links = readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`))
  expect(links.some((link) => link.startsWith('socket:'))).toBe(true)
  return links.filter((link) => sockets.has(link))
}

test('two processes share one server: it goes on after the first release and stops after the last', async () => {
  const other = await owner(used)
  const pid = serverOf(used)
  const postgres = await joinAt(used)
  expect(serverOf(used)).toBe(pid)
  expect(await other.leave()).toEqual([0, null])
  expect(await query(postgres, 'select 1')).toBe(1)
  expect(servers()).toEqual([pid])
  await postgres.release()
  expect(servers()).toEqual([])
})

test('three processes that start at once on an empty folder share one server, and leave no unfinished cluster', async () => {
  const empty = join(top, 'race')
  const [one, two, three] = await Promise.all([owner(empty), owner(empty), joinAt(empty)])
  expect(servers()).toEqual([serverOf(empty)])
  expect(await query(three, "select count(*)::int from pg_database where datname = 'dms'")).toBe(1)
  await Promise.all([one.leave(), two.leave(), three.release()])
  expect(servers()).toEqual([])
  expect(readdirSync(empty).filter((name) => name.endsWith('.tmp'))).toEqual([])
})

test('a process that opens the folder while the last one releases it gets a server', async () => {
  for (let round = 0; round < 3; round++) {
    const leaving = await joinAt(used)
    const [, postgres] = await Promise.all([leaving.release(), joinAt(used)])
    expect(await query(postgres, 'select 1')).toBe(1)
    await postgres.release()
  }
  expect(servers()).toEqual([])
})

test('after kill -9 of the only owner the next process uses its server and stops it', async () => {
  await (await owner(used)).kill()
  const pid = serverOf(used)
  expect(servers()).toEqual([pid])
  const postgres = await joinAt(used)
  expect(serverOf(used)).toBe(pid)
  await postgres.release()
  expect(servers()).toEqual([])
})

test('after kill -9 of the server its owner restarts it with everything that was committed', async () => {
  const postgres = await joinAt(used)
  await query(postgres, 'create table survives as select 7 as answer')
  const pid = serverOf(used)
  process.kill(pid, 'SIGKILL')
  await expect.poll(servers).not.toEqual([pid])
  await expect.poll(() => query(postgres, 'select answer from survives').catch(String)).toBe(7)
  await postgres.release()
  expect(servers()).toEqual([])
})

test('release does not throw after the server was killed, and the next process recovers the data', async () => {
  const postgres = await joinAt(used)
  await query(postgres, 'create table recovered as select 8 as answer')
  process.kill(serverOf(used), 'SIGKILL')
  await postgres.release()
  const again = await joinAt(used)
  expect(await query(again, 'select answer from recovered')).toBe(8)
  await again.release()
  expect(servers()).toEqual([])
})

test('a lock of a crashed process whose pid is reused by another program does not prevent the start', async () => {
  await (await joinAt(used)).release()
  const { uid, gid } = statSync(join(used, 'postgres'))
  const other = spawn('sleep', ['60'], { uid: isRoot ? uid : undefined, cwd: '/' })
  started.push(other as ChildProcessWithoutNullStreams)
  await once(other, 'spawn')
  for (const file of ['postgres/postmaster.pid', 'postgres-socket/.s.PGSQL.5432.lock']) {
    writeFileSync(join(used, file), `${other.pid}\n${join(used, 'postgres')}\n1700000000\n5432\n${join(used, 'postgres-socket')}\n\n`)
    chownSync(join(used, file), uid, gid)
  }
  const postgres = await joinAt(used)
  expect(await query(postgres, 'select 1')).toBe(1)
  expect(serverOf(used)).not.toBe(other.pid)
  await postgres.release()
  expect(other.exitCode).toBeNull()
})

test('a server of another pid namespace that recovers is awaited beyond the time limit: no second one is started on its folder', async () => {
  await (await joinAt(used)).release()
  const socket = join(used, 'postgres-socket/.s.PGSQL.5432')
  const answer = Buffer.from('SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0')
  const head = Buffer.alloc(5, 'E')
  head.writeInt32BE(answer.length + 4, 1)
  const recovering = createServer((connection) => {
    connection.on('error', () => {}).once('data', () => connection.end(Buffer.concat([head, answer])))
  }).listen(socket)
  await once(recovering, 'listening')
  const { uid, gid } = statSync(join(used, 'postgres'))
  // No process of this namespace has this pid.
  writeFileSync(
    join(used, 'postgres/postmaster.pid'),
    `${2 ** 22 + 1}\n${join(used, 'postgres')}\n1700000000\n5432\n${join(used, 'postgres-socket')}\n\n`,
  )
  chownSync(join(used, 'postgres/postmaster.pid'), uid, gid)
  // Its time does not count while PostgreSQL recovers.
  const joining = joinEmbedded({ dataDir: used, log, startTimeoutMs: 1500 }).then(
    (postgres) => postgres.release(),
    () => {},
  )
  expect(await Promise.race([joining, new Promise((resolve) => setTimeout(resolve, 4000, 'recovers'))])).toBe('recovers')
  expect(serverOf(used)).toBe(2 ** 22 + 1)
  recovering.close()
  await joining
  const postgres = await joinAt(used)
  expect(await query(postgres, 'select 1')).toBe(1)
  await postgres.release()
})

test('a data folder with too long a path for a socket has its socket in the temporary folder', async () => {
  const long = join(top, 'long'.repeat(30), 'data')
  const postgres = await joinAt(long)
  expect(postgres.connection.host.length).toBeLessThan(90)
  expect(statSync(postgres.connection.host).mode & 0o777).toBe(0o700)
  expect(await query(postgres, 'select 1')).toBe(1)
  await postgres.release()
  rmSync(postgres.connection.host, { recursive: true })
})

test('a failing initdb reports the reason and leaves no files', async () => {
  await (await joinAt(used)).release()
  const moved = join(top, 'failing')
  mkdirSync(moved)
  // The copy for an account that cannot reach the package: it would exceed the limit, too.
  const copy = readdirSync(used).find((name) => /^postgres-\d/.test(name))
  if (copy) execFileSync('cp', ['-a', join(used, copy), moved])
  // a limit on the size of files stands for the full disk
  await expect(owner(moved, { shell: 'ulimit -f 500' })).rejects.toThrow(
    /initdb failed: .*(File too large|could not extend|could not write)/,
  )
  expect(readdirSync(moved).filter((name) => !/^postgres-\d/.test(name))).toEqual([])
  expect(servers()).toEqual([])
})

test('refuses a database of another major version, with both versions', async () => {
  const old = join(top, 'old')
  mkdirSync(join(old, 'postgres'), { recursive: true, mode: 0o711 })
  writeFileSync(join(old, 'postgres/PG_VERSION'), '15\n')
  const failure = await joinAt(old).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(DatabaseOutdated)
  expect(String(failure)).toMatch(/PostgreSQL 15, .* PostgreSQL 18$/)
})

test.runIf(isRoot)('as root, refuses a data folder that the PostgreSQL account cannot reach, with the folder', async () => {
  const shut = join(top, 'shut')
  mkdirSync(shut, { mode: 0o700 })
  const failure = await joinAt(join(shut, 'data')).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(ConfigError)
  expect(String(failure)).toContain(`${shut} shuts out`)
})

test.runIf(canRun(nobody))('one that is not root runs it as itself, and root as the owner of the data folder', async () => {
  const theirs = join(top, 'theirs')
  mkdirSync(theirs, { mode: 0o700 })
  chownSync(theirs, nobody!, nobody!)
  const theirOwner = await owner(theirs, { uid: nobody })
  expect(uidOf(serverOf(theirs))).toBe(nobody)
  const postgres = await joinAt(theirs)
  expect(await query(postgres, 'select 1')).toBe(1)
  await theirOwner.leave()
  await postgres.release()
  // root has started it: the same account serves, and may go on without root afterwards
  const byRoot = await joinAt(theirs)
  expect(uidOf(serverOf(theirs))).toBe(nobody)
  await byRoot.release()
  await (await owner(theirs, { uid: nobody })).leave()
  expect(servers()).toEqual([])
})

test('the log of a running server is emptied when it exceeds 10 MB, and the server goes on writing to it', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const { superuserConnection } = await joinAt(used)
  const file = join(used, 'postgres.log')
  appendFileSync(file, Buffer.alloc(10_000_001, 'x'))
  vi.advanceTimersByTime(600_000)
  await expect.poll(() => statSync(file).size, { timeout: 10_000 }).toBe(0)
  const client = new Client(superuserConnection)
  await client.connect()
  await client.query('select nothing').catch(() => {})
  await client.end()
  expect(readFileSync(file, 'utf8')).toContain('column "nothing" does not exist')
})
