/**
 * What do 100 thousand, 10 million and 100 million documents need? Computes machines from the measured costs in docs/benchmarks.json, simulates the
 * job queue of a working day, and writes the tables into docs/scaling.md.
 *
 *   npm run bench:scaling -- [--docs FOLDER]
 *
 * The simulation draws arrivals by a Poisson process and gives each document to the first idle core, as jobs are leased. The service time of a
 * document is its measured processor time. The result is the same in each run: the random numbers have a seed.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type Results, replaceGenerated } from './report/page.ts'
import { seeded } from './search-corpus.ts'

const { values } = parseArgs({ options: { docs: { type: 'string', default: fileURLToPath(new URL('../docs', import.meta.url)) } } })
const results: Results = JSON.parse(await readFile(join(values.docs, 'benchmarks.json'), 'utf8'))

/** A kind of document, named as in bench/costs.ts, and its assumed share. */
const mix = [
  { kind: 'text of 12 kB', share: 0.5 },
  { kind: 'born-digital PDF of 10 pages', share: 0.35 },
  { kind: 'scan of 2 pages', share: 0.15 },
] as const

interface Size {
  readonly documents: number
  readonly users: number
}

const sizes: readonly Size[] = [
  { documents: 100_000, users: 50 },
  { documents: 10_000_000, users: 2000 },
  { documents: 100_000_000, users: 20_000 },
]

// Assumptions, which docs/scaling.md lists.
const growthPerYear = 0.2
const workingDays = 250
const workingSeconds = 8 * 3600
const peakHourFactor = 2
const readsOfUser = 200
const searchesOfUser = 20
const utilization = 0.6
const fileKilobytes = 300
const importDays = 30
const shardGigabytes = 30

const cost = (measure: string, unit: string): number => {
  const figure = results.costs?.figures.find((one) => one.measure === measure && one.unit === unit)
  if (!figure) throw new Error(`docs/benchmarks.json has no ${measure} in ${unit}: run npm run bench -- --only costs`)
  return figure.value
}

/** Returns the mean over the mix of documents. */
const mean = (of: (kind: string) => number): number => mix.reduce((sum, { kind, share }) => sum + share * of(kind), 0)
const cpu = (measure: string) => mean((kind) => cost(`${kind}: ${measure}`, 'ms of CPU') / 1000)
const kilobytes = (measure: string) => mean((kind) => cost(`${kind}: ${measure}`, 'kB'))

/** Seconds of processor time for a document, and kilobytes. */
const document = {
  server: cpu('upload, server'),
  worker: cpu('reading and indexing, worker'),
  postgres: cpu('upload, PostgreSQL') + cpu('reading and indexing, PostgreSQL'),
  tables: kilobytes('tables'),
  index: kilobytes('search index'),
}

const request = (place: string) =>
  (readsOfUser * (cost(`one document, ${place}`, 'ms of CPU') + cost(`list of 20, ${place}`, 'ms of CPU'))) / 2000 +
  (searchesOfUser * cost(`search, ${place}`, 'ms of CPU')) / 1000

await writePage()

async function writePage(): Promise<void> {
  const path = join(values.docs, 'scaling.md')
  const page = await readFile(path, 'utf8')
  const content = [costTable(), sizeTable(), queueTable()].join('\n')
  await writeFile(path, replaceGenerated(page, 'npm run bench:scaling', content))
}

function costTable(): string {
  const rows = mix.map(({ kind, share }) => [
    kind,
    `${share * 100} %`,
    ...['upload, server', 'reading and indexing, worker'].map((measure) => digits(cost(`${kind}: ${measure}`, 'ms of CPU'))),
    digits(cost(`${kind}: upload, PostgreSQL`, 'ms of CPU') + cost(`${kind}: reading and indexing, PostgreSQL`, 'ms of CPU')),
    ...['tables', 'search index'].map((measure) => digits(cost(`${kind}: ${measure}`, 'kB'))),
  ])
  const { machine = '', measuredAt = '' } = results.costs ?? {}
  return `### What a document costs

Measured with \`npm run bench -- --only costs\` on ${machine}, ${measuredAt}.

${table(['document', 'share', 'server, ms', 'worker, ms', 'PostgreSQL, ms', 'tables, kB', 'search index, kB'], rows)}
One core reads and indexes ${digits(3600 / document.worker)} documents of this mix per hour, and answers ${digits((readsOfUser + searchesOfUser) / request('server'))} requests per second of the mix of a user.
`
}

interface Need {
  readonly size: Size
  readonly arrivalsPerDay: number
  readonly serverCores: number
  readonly workerCores: number
  readonly databaseCores: number
}

function needOf(size: Size): Need {
  const arrivalsPerDay = (size.documents * growthPerYear) / workingDays
  const atPeak = (secondsPerDay: number) => Math.max(1, Math.ceil((secondsPerDay * peakHourFactor) / workingSeconds / utilization))
  return {
    size,
    arrivalsPerDay,
    serverCores: atPeak(size.users * request('server') + arrivalsPerDay * document.server),
    workerCores: atPeak(arrivalsPerDay * document.worker),
    databaseCores: atPeak(size.users * request('PostgreSQL') + arrivalsPerDay * document.postgres),
  }
}

function sizeTable(): string {
  const rows = sizes.map(needOf).map(({ size, arrivalsPerDay, serverCores, workerCores, databaseCores }) => {
    const terabytes = (kilobytesEach: number) => storage(size.documents * kilobytesEach)
    const importSeconds = importDays * 86_400
    return [
      size.documents.toLocaleString('en'),
      size.users.toLocaleString('en'),
      digits(arrivalsPerDay),
      String(serverCores),
      String(workerCores),
      String(databaseCores),
      terabytes(fileKilobytes),
      terabytes(document.tables),
      terabytes(document.index),
      String(Math.ceil((size.documents * document.index) / 1e6 / shardGigabytes)),
      `${Math.ceil((size.documents * document.worker) / importSeconds)} + ${Math.ceil((size.documents * document.postgres) / importSeconds)}`,
    ]
  })
  const head = [
    'documents',
    'users',
    'new per day',
    'cores: server',
    'worker',
    'PostgreSQL',
    'files',
    'tables',
    'index',
    `shards of ${shardGigabytes} GB`,
  ]
  return `### Three sizes

Cores for the busiest hour, at ${utilization * 100} % of their time. The last column: cores of workers and of PostgreSQL to import all documents in ${importDays} days.

${table([...head, `import in ${importDays} days`], rows)}`
}

/** Simulates one working day with different numbers of cores. */
function queueTable(): string {
  const need = needOf(sizes.at(-1)!)
  const rows = [0.5, 0.75, 1].map((factor) => {
    const cores = Math.max(1, Math.round(need.workerCores * factor))
    const { documents, busy, waits } = simulateDay(need.arrivalsPerDay, cores)
    const at = (share: number) => duration(waits[Math.min(waits.length - 1, Math.floor(waits.length * share))] ?? 0)
    return [String(cores), documents.toLocaleString('en'), `${Math.round(100 * busy)} %`, at(0.5), at(0.95), at(1)]
  })
  return `### The job queue at 100 million documents

A simulated working day: the time from the upload until search finds the document, for numbers of worker cores.

${table(['worker cores', 'documents', 'busy', 'p50', 'p95', 'longest'], rows)}`
}

/** Returns the times until documents are read, in seconds and sorted, and the share of the day that the cores are busy. */
function simulateDay(arrivals: number, cores: number): { documents: number; busy: number; waits: number[] } {
  const random = seeded(23)
  let sum = 0
  const services = mix.map(({ kind, share }) => {
    sum += share
    return { below: sum, seconds: cost(`${kind}: reading and indexing, worker`, 'ms of CPU') / 1000 }
  })
  const idleFrom = new Float64Array(cores)
  const waits: number[] = []
  let worked = 0
  // One of the eight hours has more arrivals than the others.
  const quiet = arrivals / workingSeconds / ((7 + peakHourFactor) / 8)
  for (let now = 0; ; ) {
    const isPeak = now >= 2 * 3600 && now < 3 * 3600
    now -= Math.log(1 - random()) / (quiet * (isPeak ? peakHourFactor : 1))
    if (now >= workingSeconds) break
    const draw = random()
    const service = services.find(({ below }) => draw < below) ?? services[0]!
    let core = 0
    for (let other = 1; other < cores; other++) if (idleFrom[other]! < idleFrom[core]!) core = other
    idleFrom[core] = Math.max(now, idleFrom[core]!) + service.seconds
    worked += service.seconds
    waits.push(idleFrom[core]! - now)
  }
  return { documents: waits.length, busy: worked / cores / workingSeconds, waits: waits.sort((one, other) => one - other) }
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |\n`
  return [head, head.map((_, column) => (column === 0 ? '---' : '---:')), ...rows].map(line).join('')
}

function storage(kilobytes: number): string {
  const [amount, unit] = kilobytes >= 1e9 ? [kilobytes / 1e9, 'TB'] : [kilobytes / 1e6, 'GB']
  return `${digits(amount)} ${unit}`
}

function duration(seconds: number): string {
  if (seconds < 60) return `${digits(seconds)} s`
  return seconds < 7200 ? `${digits(seconds / 60)} min` : `${digits(seconds / 3600)} h`
}

/** Rounds to two significant digits. */
function digits(value: number): string {
  return Number(value.toPrecision(2)).toLocaleString('en', { maximumFractionDigits: 3 })
}
