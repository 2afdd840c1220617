/**
 * What does an upload cost? `dms serve`, dd, and a bare node:http handler, alone and with a row of each file in PostgreSQL, take turns on one disk.
 *
 *   node bench/upload.ts [--size 500] [--rounds 5] [--folder FOLDER]
 *
 * --size in MB; --folder is on the measured disk (default: the folder of temporary files).
 */
import { readFile, stat } from 'node:fs/promises'
import { availableParallelism, cpus, loadavg, tmpdir, totalmem } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { processTree } from '../test/support/processes/process-tree.ts'
import { median } from './quantile.ts'
import { report } from './report/figure.ts'
import { dd, dms, rawServer, type UploadMethod } from './upload-ways.ts'

const { values } = parseArgs({
  options: {
    size: { type: 'string', default: '500' },
    rounds: { type: 'string', default: '5' },
    folder: { type: 'string', default: tmpdir() },
  },
})
const size = Number(values.size) * 1e6
const rounds = Number(values.rounds)
const sampling = 50

interface Put {
  seconds: number
  /** memory of the server in bytes before, and its maximum meanwhile */
  before: number
  peak: number
}

console.log(await machine())
const methods: Record<string, UploadMethod> = {
  dms: await dms(values.folder),
  dd: await dd(values.folder),
  'bare node:http': await rawServer(values.folder),
  'with PostgreSQL': await rawServer(values.folder, { withRows: true }),
}
try {
  await showLarge()
  await showMany()
} finally {
  for (const method of Object.values(methods)) await method.close()
}

async function showLarge(): Promise<void> {
  const puts = new Map<string, Put[]>()
  for (let round = 0; round < rounds; round++) {
    for (const [name, method] of Object.entries(methods)) {
      const put = await measured(method, () => method.put(size))
      puts.set(name, [...(puts.get(name) ?? []), put])
      await method.settle()
      await sleep(500)
    }
  }
  const rate = ({ seconds }: Put) => size / 1e6 / seconds
  const table = new Table({ head: [`${values.size} MB`, 'MB/s', 'median', ': dd', 'memory before, MB', 'at most', 'grew by'] })
  for (const [name, all] of puts) {
    const ratio = median(all.map((put, round) => rate(put) / rate(puts.get('dd')![round]!)))
    const [before, peak] = [all[0]!.before, Math.max(...all.map((put) => put.peak))]
    const memory = before > 0 ? [before, peak, peak - before].map((bytes) => (bytes / 1e6).toFixed(0)) : ['', '', '']
    table.push([name, all.map((put) => rate(put).toFixed(0)).join(' '), median(all.map(rate)).toFixed(0), ratio.toFixed(2), ...memory])
  }
  const rates = (name: string) => median((puts.get(name) ?? []).map(rate))
  const peers = { 'bare handler': rates('bare node:http'), dd: rates('dd') }
  report({ measure: `a file of ${values.size} MB`, unit: 'MB/s', value: rates('dms'), peers, better: 'higher' })
  console.log(table.toString())
  console.log('wanted of dms: at least 0.6 of dd (median of the ratios of each round), and memory that grows by less than 100 MB')
}

async function showMany(): Promise<void> {
  const table = new Table({ head: ['', '10 × 50 MB, MB/s', `400 × 10 kB, 16 at once, files/s in ${rounds} turns`, 'median'] })
  const medium = new Map<string, number>()
  for (const [name, method] of Object.entries(methods)) {
    const { seconds } = await measured(method, () => inARow(10, () => method.put(50e6)))
    medium.set(name, 500 / seconds)
    await method.settle()
  }
  // The files stay until the end: a server that gets slower with each document shows it.
  const small = new Map<string, number[]>()
  for (let round = 0; round < rounds; round++) {
    for (const [name, method] of Object.entries(methods).filter(([, { pid }]) => pid !== null)) {
      const { seconds } = await measured(method, () => Promise.all(Array.from({ length: 16 }, () => inARow(25, () => method.put(10_000)))))
      small.set(name, [...(small.get(name) ?? []), 400 / seconds])
      await method.rest()
      await sleep(500)
    }
  }
  for (const [name, rate] of medium) {
    const rates = small.get(name) ?? []
    table.push([name, rate.toFixed(0), rates.map((one) => one.toFixed(0)).join(' '), rates.length > 0 ? median(rates).toFixed(0) : ''])
  }
  const compare = (measure: string, unit: string, of: (name: string) => number) =>
    report({ measure, unit, value: of('dms'), peers: { 'bare handler': of('bare node:http') }, better: 'higher' })
  compare('10 files of 50 MB', 'MB/s', (name) => medium.get(name)!)
  compare('400 files of 10 kB, 16 at once', 'files/s', (name) => median(small.get(name)!))
  console.log(table.toString())
}

async function inARow(times: number, work: () => Promise<void>): Promise<void> {
  for (let time = 0; time < times; time++) await work()
}

async function measured({ pid }: UploadMethod, work: () => Promise<unknown>): Promise<Put> {
  const resident = () => (pid === null ? 0 : (processTree(pid)[0]?.resident ?? 0))
  const before = resident()
  let peak = before
  const clock = setInterval(() => {
    peak = Math.max(peak, resident())
  }, sampling)
  const start = performance.now()
  await work()
  const seconds = (performance.now() - start) / 1000
  clearInterval(clock)
  return { seconds, before, peak: Math.max(peak, resident()) }
}

async function machine(): Promise<string> {
  const memory = `${(totalmem() / 1e9).toFixed(0)} GB`
  return `${availableParallelism()} cores, ${cpus()[0]?.model.trim()}, ${memory}, ${await disk()}, load ${loadavg()[0]?.toFixed(1)}, Node ${process.version}`
}

/** Returns what Linux reports of the disk of the folder. */
async function disk(): Promise<string> {
  const { dev } = await stat(values.folder)
  const number = `${(dev >> 8) & 0xfff}:${(dev & 0xff) | ((dev >> 12) & 0xfff00)}`
  for (const place of ['queue', '../queue']) {
    const rotational = await readFile(`/sys/dev/block/${number}/${place}/rotational`, 'utf8').catch(() => null)
    if (rotational !== null) return rotational.trim() === '1' ? 'rotating disk' : 'disk without rotation'
  }
  return 'disk unknown'
}
