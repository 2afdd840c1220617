/**
 * How fast the API answers beside a bare node:http handler that runs the same SQL, in one run on one machine:
 *
 *   node bench/api.ts [documents, default 10000]        needs wrk (Debian: apt-get install wrk)
 *
 * For each request (one document, a list of 20, a search) four handlers take turns, each in a process of its own: dms as it is (sign-in, limits,
 * checks, OpenAPI-described answer), the same without the limit on calls, a bare handler over an ordinary pg pool, and a bare handler over the same pipelined connection that dms reads
 * on. Below: what the database alone can do with that SQL.
 */
import { type ChildProcess, execFile, fork } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import { availableParallelism, cpus, tmpdir, totalmem } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const kinds = ['dms', 'dms unlimited', 'bare pool', 'bare lane'] as const
const requests = ['document', 'list', 'search'] as const
const rounds = 3
const seconds = 5

type Kind = (typeof kinds)[number]
interface Figure {
  rate: number
  p99: number
}

const documents = Number(process.argv[2] ?? 10_000)
await run('wrk', ['--version']).catch((error) => {
  if (error.code === 'ENOENT') fail('wrk is missing: apt-get install wrk')
})

const folder = await mkdtemp(join(tmpdir(), 'dms-bench-'))
await chmod(folder, 0o711)
const servers = new Map<Kind, { child: ChildProcess; base: string; headers: string[]; paths: Record<(typeof requests)[number], string> }>()
try {
  for (const kind of kinds) {
    const child = fork(fileURLToPath(new URL('./api-server.ts', import.meta.url)), [kind, folder, String(documents)])
    const [ready] = (await once(child, 'message')) as [{ base: string; token: string; paths: Record<(typeof requests)[number], string> }]
    servers.set(kind, { child, base: ready.base, headers: ['-H', `authorization: Bearer ${ready.token}`], paths: ready.paths })
  }
  console.log(
    `${documents} documents, ${rounds} × ${seconds} s each in turn, 32 connections; ${cpus()[0]?.model}, ${availableParallelism()} cores, ${Math.round(totalmem() / 2 ** 30)} GiB, Node ${process.versions.node}\n`,
  )
  console.log(['request', ...kinds.flatMap((kind) => [`${kind} req/s`, 'p99 ms']), 'dms / pool', 'dms / lane', 'limiter costs'].join('\t'))
  for (const request of requests) {
    const figures = new Map<Kind, Figure[]>(kinds.map((kind) => [kind, []]))
    for (let round = 0; round < rounds; round++) for (const kind of kinds) figures.get(kind)?.push(await load(kind, request))
    const middle = (kind: Kind) => (figures.get(kind) as Figure[]).toSorted((a, b) => a.rate - b.rate)[Math.floor(rounds / 2)] as Figure
    const [dms, unlimited, pool, lane] = kinds.map(middle) as [Figure, Figure, Figure, Figure]
    const cells = [dms, unlimited, pool, lane].flatMap(({ rate, p99 }) => [rate.toFixed(0), p99.toFixed(1)])
    console.log(
      [
        request,
        ...cells,
        (dms.rate / pool.rate).toFixed(2),
        (dms.rate / lane.rate).toFixed(2),
        `${(100 * (1 - dms.rate / unlimited.rate)).toFixed(1)} %`,
      ].join('\t'),
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
  // The first one owns the database: it goes last.
  for (const { child } of [...servers.values()].reverse()) {
    child.send({ stop: true })
    await once(child, 'exit')
  }
  await rm(folder, { recursive: true, force: true })
}

/** One run of wrk; requests per second and the 99th percentile in milliseconds. */
async function load(kind: Kind, request: (typeof requests)[number]): Promise<Figure> {
  const { base, headers, paths } = servers.get(kind) as { base: string; headers: string[]; paths: Record<string, string> }
  const { stdout } = await run('wrk', ['-t1', '-c32', `-d${seconds}s`, '--latency', ...headers, base + paths[request]])
  const failed = /Non-2xx or 3xx responses: (\d+)/.exec(stdout)
  if (failed) fail(`${kind} answered ${failed[1]} requests for ${request} with a failure`)
  const [, value = '0', unit = 'ms'] = /99%\s+([\d.]+)(us|ms|s)/.exec(stdout) ?? []
  return { rate: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]), p99: Number(value) * ({ us: 0.001, ms: 1, s: 1000 }[unit] ?? 1) }
}

function fail(message: string): never {
  console.error(message)
  process.exit(1)
}
