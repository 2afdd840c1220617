/**
 * How fast does the API answer, compared with a bare node:http handler that runs the same SQL on the same machine?
 *
 *   node bench/api.ts [documents, default 10000] [seconds of a run, default 5]        needs wrk (Debian: apt-get install wrk)
 *
 * Three requests are measured: one document, a list of 20, and a search. Four handlers take turns, each in a process of its own: dms; dms without
 * the limit of requests; a bare handler with an ordinary pool of pg; and a bare handler with the pipelined connection of dms. Requests per second
 * need an idle machine. The CPU time of the handler's process per request (user and system, without PostgreSQL) is nearly equal on a busy one.
 * The last lines have the rate of PostgreSQL alone with this SQL.
 */
import { type ChildProcess, execFile, fork } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, cpus, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { median } from './quantile.ts'
import { report } from './report/figure.ts'

const run = promisify(execFile)
const kinds = ['dms', 'dms unlimited', 'bare pool', 'bare lane'] as const
const requests = ['document', 'list', 'search'] as const
const rounds = 3
const seconds = Number(process.argv[3] ?? 5)

type Kind = (typeof kinds)[number]
type Request = (typeof requests)[number]
interface Served {
  child: ChildProcess
  base: string
  headers: string[]
  paths: Record<Request, string>
}
interface Figure {
  rate: number
  /** milliseconds */
  p99: number
  /** CPU time of the handler's process per request, in microseconds */
  cpu: number
}

const documents = Number(process.argv[2] ?? 10_000)
await run('wrk', ['--version']).catch((error) => {
  if (error.code === 'ENOENT') fail('wrk is missing: apt-get install wrk')
})

const folder = await mkdtemp(join(tmpdir(), 'dms-bench-'))
await chmod(folder, 0o711)
const servers = new Map<Kind, Served>()
try {
  for (const kind of kinds) {
    const child = fork(fileURLToPath(new URL('./api-server.ts', import.meta.url)), [kind, folder, String(documents)])
    const [ready] = (await once(child, 'message')) as [{ base: string; token: string; paths: Record<Request, string> }]
    servers.set(kind, { child, base: ready.base, headers: ['-H', `authorization: Bearer ${ready.token}`], paths: ready.paths })
  }
  console.log(
    `${documents} documents, ${rounds} × ${seconds} s each in turn, 32 connections; ${cpus()[0]?.model}, ${availableParallelism()} cores, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.versions.node}\n`,
  )
  console.log(
    ['request', ...kinds.flatMap((kind) => [`${kind} req/s`, 'p99 ms', 'CPU µs']), 'dms / pool', 'dms / lane', 'limiter costs'].join('\t'),
  )
  for (const request of requests) {
    const figures = new Map<Kind, Figure[]>(kinds.map((kind) => [kind, []]))
    for (let round = 0; round < rounds; round++) for (const kind of kinds) figures.get(kind)?.push(await load(kind, request))
    const [dms, unlimited, pool, lane] = kinds.map((kind) => middle(figures.get(kind) as Figure[])) as [Figure, Figure, Figure, Figure]
    const cells = [dms, unlimited, pool, lane].flatMap(({ rate, p99, cpu }) => [rate.toFixed(0), p99.toFixed(1), cpu.toFixed(0)])
    const ratios = [dms.rate / pool.rate, dms.rate / lane.rate].map((ratio) => ratio.toFixed(2))
    console.log([request, ...cells, ...ratios, `${(100 * (1 - dms.rate / unlimited.rate)).toFixed(1)} %`].join('\t'))
    const peers = (of: (figure: Figure) => number) => ({ 'bare handler, pool': of(pool), 'bare handler, same connection': of(lane) })
    report({ measure: request, unit: 'requests/s', value: dms.rate, peers: peers(({ rate }) => rate), better: 'higher' })
    report({ measure: request, unit: 'µs of CPU', value: dms.cpu, peers: peers(({ cpu }) => cpu), better: 'lower' })
    console.log(
      `\tCPU of dms: ${(dms.cpu / pool.cpu).toFixed(2)} of pool, ${(dms.cpu / lane.cpu).toFixed(2)} of lane, limiter ${(100 * (1 - unlimited.cpu / dms.cpu)).toFixed(1)} %`,
    )
  }
  console.log('\nthe database alone, same SQL, one pipelined connection:')
  for (const request of requests) {
    const { child } = servers.get('bare lane') as { child: ChildProcess }
    child.send({ measure: request })
    const [{ rate }] = (await once(child, 'message')) as [{ rate: number }]
    console.log(`${request}\t${rate.toFixed(0)} queries/s`)
  }
} finally {
  // The first one owns the database and is stopped last.
  for (const { child } of [...servers.values()].reverse()) {
    child.send({ stop: true })
    await once(child, 'exit')
  }
  await rm(folder, { recursive: true, force: true })
}

/** The median of each figure. */
function middle(figures: readonly Figure[]): Figure {
  const [rate, p99, cpu] = (['rate', 'p99', 'cpu'] as const).map((name) => median(figures.map((figure) => figure[name])))
  return { rate, p99, cpu } as Figure
}

/** Runs wrk once. */
async function load(kind: Kind, request: Request): Promise<Figure> {
  const { child, base, headers, paths } = servers.get(kind) as Served
  const before = await cpuOf(child)
  const { stdout } = await run('wrk', ['-t1', '-c32', `-d${seconds}s`, '--latency', ...headers, base + paths[request]])
  const failed = /Non-2xx or 3xx responses: (\d+)/.exec(stdout)
  if (failed) fail(`${kind} answered ${failed[1]} requests for ${request} with a failure`)
  const cpu = (await cpuOf(child)) - before
  const [, value = '0', unit = 'ms'] = /99%\s+([\d.]+)(us|ms|s)/.exec(stdout) ?? []
  return {
    rate: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]),
    p99: Number(value) * ({ us: 0.001, ms: 1, s: 1000 }[unit] ?? 1),
    cpu: cpu / Number(/(\d+) requests in/.exec(stdout)?.[1]),
  }
}

/** Returns the CPU time of this process in microseconds. */
async function cpuOf(child: ChildProcess): Promise<number> {
  child.send({ usage: true })
  const [{ cpu }] = (await once(child, 'message')) as [{ cpu: number }]
  return cpu
}

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}
