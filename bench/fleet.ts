/**
 * What do a second worker and a second server bring?
 *
 *   node bench/fleet.ts [--scans 8] [--seconds 5] [--rounds 2]        needs wrk for the servers (Debian: apt-get install wrk)
 *
 * One and two workers with one slot each read different scans of the same size; one and two servers answer requests of wrk. In turns. Rates
 * depend on what else the machine does, processor time hardly does. So the program also computes what both bring on idle cores: a worker or a
 * server uses one core at a time, and PostgreSQL the others. The processor time of wrk is not part of it.
 */
import { execFile, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { availableParallelism } from 'node:os'
import { createInterface } from 'node:readline'
import { parseArgs, promisify } from 'node:util'
import Table from 'cli-table3'
import { sql } from 'kysely'
import { joinEmbedded } from '../src/db/embedded/embedded.ts'
import { openDatabase } from '../src/db/pool.ts'
import { openLog } from '../src/log/log.ts'
import { scannedPdf } from '../test/support/data/page-image.ts'
import { bareEnvironment, executable, hasProgram } from '../test/support/processes/run.ts'
import { startServed } from '../test/support/servers/served.ts'
import { cpuTime } from './ocr-programs.ts'
import { cpuOf, database as databaseProcesses } from './processor.ts'
import { median } from './quantile.ts'
import { report } from './report/figure.ts'
import { makeScans } from './scans.ts'

const { values } = parseArgs({
  options: {
    scans: { type: 'string', default: '8' },
    seconds: { type: 'string', default: '5' },
    rounds: { type: 'string', default: '2' },
  },
})
const [scans, seconds, rounds] = [Number(values.scans), Number(values.seconds), Number(values.rounds)]
const run = promisify(execFile)
const env = { DMS_WORKER_EMBEDDED: 'false', DMS_STORAGE_MIN_FREE: '0', DMS_LOG_ACCESS: 'false', DMS_LOG_LEVEL: 'error' }

/** Rate by the clock, and seconds of processor time for one document or request. */
interface Round {
  rate: number
  /** sum over all workers, or over all servers */
  own: number
  postgres: number
  /** cores that workers or servers, PostgreSQL and wrk used on average */
  cores: number
}

const served = await startServed({ env })
const embedded = await joinEmbedded({ dataDir: served.dataDir, log: openLog({ level: 'error', format: 'json' }) })
const database = openDatabase({
  ...{ address: embedded.connection, poolMax: 1, connectTimeoutMs: 5000, statementTimeoutMs: 0 },
  log: openLog({ level: 'error', format: 'json' }),
})
const table = new Table({
  head: ['', 'each second', 'CPU of it, ms', 'CPU of PostgreSQL, ms', 'cores used', 'ratio', 'ratio on idle cores'],
})
try {
  await cpuOfRun(1)
  const pages = (await makeScans(scans, 'clean')).map((page) => scannedPdf([page]))
  // Equal pages in files that differ, as many for each worker: each also starts its reader, which takes as long as a small document.
  const copies = (count: number) =>
    Array.from({ length: count }, () => pages.map((page) => Buffer.concat([page, Buffer.from(`% ${randomUUID()}\n`)])))
  await compare('worker', true, (count) => readScans(count, copies(count).flat()))
  if (hasProgram('wrk')) {
    const { data } = await served.client.call<{ data: { id: string }[] }>('GET', '/api/documents?per_page=1')
    const second = await startSecond()
    // A new process compiles its code while it answers its first requests.
    await request([second], `/api/documents/${data[0]?.id}`)
    await request([served], `/api/documents/${data[0]?.id}`)
    await compare('server', false, (count) => request([served, second].slice(0, count), `/api/documents/${data[0]?.id}`))
    await second.stop()
  } else console.log('wrk is missing: the servers are left out')
  console.log(`${availableParallelism()} cores`)
  console.log(table.toString())
} finally {
  await database.close()
  await embedded.release()
  await served.stop()
  await served.remove()
}

/** Runs rounds with one and with two processes in turns, and reports the medians. `isSequential`: a process waits for PostgreSQL without other work. */
async function compare(name: string, isSequential: boolean, round: (count: 1 | 2) => Promise<Round>): Promise<void> {
  const results = { 1: [] as Round[], 2: [] as Round[] }
  for (let number = 0; number < rounds; number++) for (const count of [1, 2] as const) results[count].push(await round(count))
  const medianOf = (count: 1 | 2, of: (one: Round) => number) => median(results[count].map(of))
  const one = {
    rate: medianOf(1, ({ rate }) => rate),
    own: medianOf(1, ({ own }) => own),
    postgres: medianOf(1, ({ postgres }) => postgres),
  }
  const two = {
    rate: medianOf(2, ({ rate }) => rate),
    own: medianOf(2, ({ own }) => own),
    postgres: medianOf(2, ({ postgres }) => postgres),
  }
  const waiting = ({ postgres }: { postgres: number }) => (isSequential ? postgres : 0)
  // On many cores, each process has its own core. On two, PostgreSQL needs a part of them.
  const onManyCores = (2 * (one.own + waiting(one))) / (two.own + waiting(two))
  const onTwoCores = Math.min(onManyCores, (2 * (one.own + waiting(one))) / (two.own + two.postgres))
  for (const [count, { rate, own, postgres }] of [one, two].entries())
    table.push([
      count === 0 ? `one ${name}` : `two ${name}s`,
      rate.toFixed(2),
      (own * 1e3).toFixed(2),
      (postgres * 1e3).toFixed(2),
      medianOf(count === 0 ? 1 : 2, ({ cores }) => cores).toFixed(2),
      count === 0 ? '' : (two.rate / one.rate).toFixed(2),
      count === 0 ? '' : `${onManyCores.toFixed(2)}; on two cores ${onTwoCores.toFixed(2)}`,
    ])
  report({ measure: `two ${name}s, rate of one`, unit: '×', value: two.rate / one.rate, better: 'higher' })
  report({ measure: `two ${name}s, rate of one by processor time, on two idle cores`, unit: '×', value: onTwoCores, better: 'higher' })
  report({ measure: `two ${name}s, rate of one by processor time, on more`, unit: '×', value: onManyCores, better: 'higher' })
}

/** Uploads scans and lets workers with one slot each read them. */
async function readScans(workers: number, files: readonly Uint8Array[]): Promise<Round> {
  const start = await cpuOfRun(workers)
  for (const bytes of files) {
    const form = new FormData()
    form.set('file', new Blob([Buffer.from(bytes)], { type: 'application/pdf' }), 'scan.pdf')
    form.set('language', 'eng')
    const headers = { authorization: `Bearer ${served.token}` }
    const response = await fetch(`${served.url}/api/documents/upload`, { method: 'POST', headers, body: form })
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
  }
  const { rows: before } = await sql<{ now: Date }>`select clock_timestamp() as now`.execute(database.db)
  const work = await cpuOfRun(workers)
  const { rows } = await sql<{ count: number; seconds: number }>`
    select count(*)::int as count, extract(epoch from max(finished_at) - min(started_at))::float8 as seconds
    from jobs where kind = 'ocr' and status = 'completed' and started_at > ${before[0]?.now}`.execute(database.db)
  const { count = 0, seconds: took = 0 } = rows[0] ?? {}
  if (count !== files.length) throw new Error(`${count} of ${files.length} scans were read`)
  // Each worker takes as much for its start without a job.
  const [own, postgres] = [work.own - start.own, work.postgres - start.postgres]
  return { rate: count / took, own: own / count, postgres: postgres / count, cores: (own + postgres) / took }
}

/** Seconds of processor time that workers and PostgreSQL take until no job is left. */
async function cpuOfRun(workers: number): Promise<{ own: number; postgres: number }> {
  const now = async () => ({
    own: (await cpuTime()) / 1e3 - (await cpuOf([served.pid])),
    postgres: await cpuOf(await databaseProcesses(served.dataDir)),
  })
  const before = await now()
  const args = [executable, 'worker', '--once', '-q', '--concurrency', '1', '--data-dir', served.dataDir]
  await Promise.all(Array.from({ length: workers }, () => run(process.execPath, args, { env: bareEnvironment(env) })))
  const after = await now()
  return { own: after.own - before.own, postgres: after.postgres - before.postgres }
}

interface Server {
  url: string
  pid: number
  stop(): Promise<unknown>
}

async function startSecond(): Promise<Server> {
  const args = [executable, 'serve', '--port', '0', '--data-dir', served.dataDir]
  const limits = { DMS_API_CALLS_PER_MINUTE: '0' }
  const child = spawn(process.execPath, args, { env: bareEnvironment({ ...env, ...limits }), stdio: ['ignore', 'ignore', 'pipe'] })
  const exit = once(child, 'exit')
  for await (const line of createInterface(child.stderr)) {
    const url = /^listening on (\S+)/.exec(line)?.[1]
    if (!url) continue
    const stop = () => {
      child.kill('SIGTERM')
      return exit
    }
    return { url, pid: child.pid ?? 0, stop }
  }
  throw new Error('the second server did not start')
}

/** Lets one wrk for each server send requests on 32 connections in all. */
async function request(servers: readonly Pick<Server, 'url' | 'pid'>[], path: string): Promise<Round> {
  const pids = servers.map(({ pid }) => pid)
  const postgres = async () => cpuOf(await databaseProcesses(served.dataDir))
  const before = { own: await cpuOf(pids), postgres: await postgres(), all: await cpuTime() }
  const outputs = await Promise.all(
    servers.map(({ url }) => {
      const connections = 32 / servers.length
      return run('wrk', ['-t1', `-c${connections}`, `-d${seconds}s`, '-H', `authorization: Bearer ${served.token}`, url + path])
    }),
  )
  const own = (await cpuOf(pids)) - before.own
  const database = (await postgres()) - before.postgres
  const all = ((await cpuTime()) - before.all) / 1e3 + database
  const bad = outputs.find(({ stdout }) => stdout.includes('Non-2xx'))
  if (bad) throw new Error(bad.stdout)
  const count = outputs.reduce((sum, { stdout }) => sum + Number(/(\d+) requests in/.exec(stdout)?.[1]), 0)
  return { rate: count / seconds, own: own / count, postgres: database / count, cores: all / seconds }
}
