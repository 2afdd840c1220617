/**
 * What does a sync from WebDAV cost? Three programs take turns on one machine, with the same files of one local server:
 *
 *   node bench/sync.ts [--files 5000] [--per-folder 100] [--levels 1] [--server apache|rclone] [--rounds 3] [--concurrency 8] [--ways bare,rclone,dms,warm]
 *
 * bare    bench/sync-bare.ts, the minimum: the first sync downloads everything, the next one only lists.
 * rclone  `rclone sync` into an empty folder, then again. Most of its time are pauses of its WebDAV backend between calls.
 * dms     `dms sources sync` into an empty database and store, then again. Each new file is hashed, stored and flushed, and becomes a document
 *         with an OCR job.
 *
 * The time of the first sync is that of its loop without the start of the program, for bare and dms, each in a new process. The next sync is measured
 * twice. "process": a new process from start to end, for all three. "warm": a process that has synced before; for bare the one that lists, for dms
 * `dms serve` with its worker, from POST /api/sources/{id}/sync to `finished_at`. "CPU" is the CPU time of the warm process, which changes little on a
 * busy machine; for dms without its CPU time when idle, and PostgreSQL separately.
 *
 * Memory: the peak of `dms sources sync` compared with that of a sync of an empty folder. With --levels the folders are nested.
 */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { findProgram } from '../src/config/find-program.ts'
import { joinEmbedded } from '../src/db/embedded/embedded.ts'
import { openLog } from '../src/log/log.ts'
import { bareEnvironment, executable } from '../test/support/processes/run.ts'
import { type Served, startServed } from '../test/support/servers/served.ts'
import { handOver, hasWebdavServer, startWebdav, type WebdavServerName } from '../test/support/servers/webdav-servers.ts'
import { cpuOf, database } from './processor.ts'
import { median } from './quantile.ts'
import { report } from './report/figure.ts'

const { values } = parseArgs({
  options: {
    files: { type: 'string', default: '5000' },
    server: { type: 'string', default: hasWebdavServer('apache') ? 'apache' : 'rclone' },
    rounds: { type: 'string', default: '3' },
    concurrency: { type: 'string', default: '8' },
    'per-folder': { type: 'string', default: '100' },
    levels: { type: 'string', default: '1' },
    ways: { type: 'string', default: 'bare,rclone,dms,warm' },
  },
})
const [files, rounds, concurrency] = [Number(values.files), Number(values.rounds), Number(values.concurrency)]
const [perFolder, levels] = [Number(values['per-folder']), Number(values.levels)]
/** Counted syncs of a warm process, and uncounted ones before them. */
const [counting, warming] = [8, 12]

interface Figures {
  /** seconds of the loop */
  first: number
  /** seconds of the process */
  again: number
  /** seconds without the start of the program */
  run?: number
  warm?: Warm
  /** bytes */
  peak?: [first: number, again: number]
}

interface Warm {
  seconds: number
  /** CPU seconds */
  cpu: number
  database?: number
}

const settings = { DMS_SOURCES_CONCURRENCY: values.concurrency, DMS_STORAGE_MIN_FREE: '0', DMS_LOG_LEVEL: 'error' }
const home = await mkdtemp(join(tmpdir(), 'dms-bench-sync-'))
await chmod(home, 0o711)
const server = await startWebdav(values.server as WebdavServerName)
const authorization = `Basic ${Buffer.from(`${server.username}:${server.password}`).toString('base64')}`
await writeFile(join(home, 'password'), server.password, { mode: 0o600 })
// Its worker leaves the files unread: that would take the processors.
let served: Served | undefined
try {
  const bytes = await makeFiles()
  const rclone = findProgram('rclone')
  console.log(
    `${files} files of ${(bytes / files / 1000).toFixed(1)} kB in folders of ${perFolder}, ${levels} deep, ${values.server}, ${concurrency} at once, ${rounds} rounds; ${cpus()[0]?.model}, ${availableParallelism()} cores, Node ${process.versions.node}`,
  )
  console.log(rclone ? await rcloneSettings(rclone) : 'no rclone on this machine')
  const methods: Record<string, () => Promise<Figures>> = {
    bare: syncByFetch,
    ...(rclone ? { rclone: () => rcloneSync(rclone) } : {}),
    dms: () => dms('files/'),
  }
  const selectedNames = values.ways.split(',')
  const selected = Object.entries(methods).filter(([name]) => selectedNames.includes(name))
  const empty = await dms('empty/')
  const figures = new Map<string, Figures[]>()
  if (selectedNames.includes('warm')) served = await startServed({ env: { ...settings, DMS_WORKER_QUEUES: 'sync' } })
  const source = served && (await warmSource(served))
  for (let round = 0; round < rounds; round++)
    for (const [name, method] of selected) {
      const figure = await method()
      if (served && source && name === 'dms') figure.warm = await dmsWarm(served, source)
      if (served && name === 'bare') figure.warm = await bareWarm()
      figures.set(name, [...(figures.get(name) ?? []), figure])
    }
  show(figures, empty)
} finally {
  await served?.stop()
  await served?.remove()
  await server.stop()
  await rm(home, { recursive: true, force: true })
}

function show(figures: ReadonlyMap<string, readonly Figures[]>, empty: Figures): void {
  const of = (name: string, value: (figure: Figures) => number | undefined) =>
    median((figures.get(name) ?? []).flatMap((figure) => value(figure) ?? []))
  const columns: Record<string, (figure: Figures) => number | undefined> = {
    first: ({ first }) => first,
    'again, process': ({ again }) => again,
    'again, warm': ({ warm }) => warm?.seconds,
    'its CPU': ({ warm }) => warm?.cpu,
  }
  const table = new Table({
    style: { head: [], border: [] },
    head: ['seconds, median', ...Object.keys(columns).flatMap((name) => [name, ': bare']), ': rclone'],
  })
  for (const name of figures.keys()) {
    const cells = Object.values(columns).flatMap((value) => {
      const own = of(name, value)
      return [formatted(own, 3), formatted(own / of('bare', value), 2)]
    })
    if (name === 'dms')
      for (const [measure, value] of Object.entries(columns)) {
        const peers = Object.fromEntries(
          [
            ['bare loop', of('bare', value)],
            ['rclone', of('rclone', value)],
          ].filter(([, seconds]) => !Number.isNaN(seconds)),
        )
        report({ measure: `${files} files, ${measure}`, unit: 's', value: of('dms', value), peers, better: 'lower' })
      }
    table.push([name, ...cells, formatted(of(name, ({ again }) => again) / of('rclone', ({ again }) => again), 2)])
  }
  console.log(table.toString())
  const grown = [0, 1].map((index) => (of('dms', ({ peak }) => (peak?.[index] ?? 0) - (empty.peak?.[index] ?? 0)) / 1e6).toFixed(0))
  console.log(
    `dms: again without the start of its program ${of('dms', ({ run }) => run).toFixed(2)} s; of an empty folder, the whole process ${empty.again.toFixed(2)} s`,
  )
  console.log(
    `dms, warm: CPU of its database ${
      formatted(
        of('dms', ({ warm }) => warm?.database),
        3,
      ) || '?'
    } s`,
  )
  console.log(
    `dms, memory beside that of an empty folder (${((empty.peak?.[1] ?? 0) / 1e6).toFixed(0)} MB): first +${grown[0]} MB, again +${grown[1]} MB`,
  )
  console.log('wanted of dms: first at most 3 of bare; again, warm, at most 1.3 of bare; again no more than rclone; memory below +100 MB')
}

/** undefined if it was not measured */
function formatted(value: number, digits: number): string {
  return Number.isNaN(value) ? '' : value.toFixed(digits)
}

/** Creates the files and an empty folder, for the fixed costs of a sync. Returns their total bytes. */
async function makeFiles(): Promise<number> {
  let bytes = 0
  await mkdir(join(server.folder, 'empty'))
  for (let file = 0; file < files; file++) {
    const folder = Math.floor(file / perFolder)
    const above = Array.from({ length: levels > 1 ? (folder % levels) - 1 : 0 }, () => 'in')
    const path = join(server.folder, 'files', ...above, String(folder), `${file}.txt`)
    if (file % perFolder === 0) await mkdir(dirname(path), { recursive: true })
    const text = `${file} ${'lorem ipsum dolor sit amet '.repeat(20 + (file % 280))}`
    bytes += text.length
    await writeFile(path, text)
  }
  await handOver(server.folder)
  return bytes
}

async function syncByFetch(): Promise<Figures> {
  const folder = join(home, 'bare')
  const url = new URL('files/', server.url).href
  const [first] = await listings('first', url, folder)
  await rm(folder, { recursive: true })
  const again = await seconds(() => listings('list', url, '1'))
  return { first: first?.seconds ?? 0, again }
}

async function bareWarm(): Promise<Warm> {
  const all = (await listings('list', new URL('files/', server.url).href, String(warming + counting))).slice(warming)
  return { seconds: median(all.map((each) => each.seconds)), cpu: median(all.map(({ cpu }) => cpu)) }
}

async function listings(...args: string[]): Promise<{ files: number; seconds: number; cpu: number }[]> {
  const program = fileURLToPath(new URL('./sync-bare.ts', import.meta.url))
  const { stdout } = await run(process.execPath, [program, ...args, values.concurrency], {}, authorization)
  const all = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
  if (all.some((each) => each.files !== files)) throw new Error(`of ${files} files ${all[0].files} are listed`)
  return all
}

async function rcloneSync(program: string): Promise<Figures> {
  const folder = join(home, 'rclone')
  const obscured = (await run(program, ['obscure', '-'], {}, server.password)).stdout.trim()
  const env = { RCLONE_WEBDAV_URL: server.url, RCLONE_WEBDAV_USER: server.username, RCLONE_WEBDAV_PASS: obscured }
  const args = [
    'sync',
    ':webdav:files',
    folder,
    '--config',
    '/dev/null',
    '--transfers',
    values.concurrency,
    '--checkers',
    values.concurrency,
  ]
  const [first, again] = [await seconds(() => run(program, args, env)), await seconds(() => run(program, args, env))]
  await rm(folder, { recursive: true })
  return { first, again }
}

async function rcloneSettings(program: string): Promise<string> {
  const [{ stdout: version }, { stdout: flags }] = [await run(program, ['version']), await run(program, ['help', 'flags'])]
  const pacer = /^.*webdav-pacer.*$/m.exec(flags)?.[0].trim() ?? 'no setting for its pacer: at least 10 ms between two calls to WebDAV'
  return `${version.split('\n')[0]}: --transfers ${concurrency} --checkers ${concurrency}, ${pacer}`
}

/** Syncs into a separate data folder, whose PostgreSQL is already running. */
async function dms(folder: string): Promise<Figures> {
  const dataDir = await mkdtemp(join(home, 'dms-'))
  await chmod(dataDir, 0o711)
  const postgres = await joinEmbedded({ dataDir, log: openLog({ level: 'silent', format: 'json' }) })
  const call = (...args: string[]) => run(process.execPath, [executable, '--data-dir', dataDir, ...args], settings)
  await call('migrate')
  await call('users', 'add', '--username', 'bench', '--email', 'bench@example.org', '--role', 'admin', '--generate-password')
  const address = new URL(folder, server.url).href
  await call(
    'sources',
    'add',
    '--name',
    'bench',
    '--address',
    address,
    '--username',
    server.username,
    '--password-file',
    join(home, 'password'),
    '--owner',
    'bench',
  )
  const sync = async (expected: string) => {
    const { stdout, peak, took } = await call('sources', 'sync', 'bench', '-o', 'json')
    const [item] = [JSON.parse(stdout)].flatMap((answer) => answer.items ?? answer.results ?? answer)
    if (folder !== 'empty/' && item[expected] !== files) throw new Error(`of ${files} files ${item[expected]} are ${expected}: ${stdout}`)
    return { run: Number(item.duration_seconds), whole: took, peak }
  }
  const [first, again] = [await sync('new'), await sync('unchanged')]
  await postgres.release()
  await rm(dataDir, { recursive: true, force: true })
  return { first: first.run, again: again.whole, run: again.run, peak: [first.peak, again.peak] }
}

/** Creates a source and syncs it a few times. Returns its id. */
async function warmSource(served: Served): Promise<string> {
  const { username, password } = server
  const url = new URL('files/', server.url).href
  const { id } = await served.client.sources.create({ name: 'bench', type: 'webdav', url, username, password, sync_interval: 0 })
  for (let turn = 0; turn <= warming; turn++) await syncByApi(served, id)
  return id
}

async function dmsWarm(served: Served, source: string): Promise<Warm> {
  const used = async () => [await cpuOf([served.pid]), await cpuOf(await database(served.dataDir))]
  const [began, before] = [performance.now(), await used()]
  const all: number[] = []
  for (let turn = 0; turn < counting; turn++) all.push(await syncByApi(served, source, 'unchanged'))
  const [ended, after] = [performance.now(), await used()]
  await sleep(ended - began)
  const rested = await used()
  const [cpu, databaseCpu] = after.map((value, index) => (2 * value - (before[index] ?? 0) - (rested[index] ?? 0)) / counting)
  return { seconds: median(all), cpu: cpu ?? 0, database: databaseCpu }
}

/** Returns the seconds from the request to the end that the server reports. */
async function syncByApi({ client }: Served, source: string, expected?: 'unchanged'): Promise<number> {
  // The run before it may have told its end just now, and still hold the source.
  await sleep(100)
  const began = Date.now()
  const { job_id } = await client.sources.sync(source)
  // Whoever asks how far it is takes processor time as well.
  for (let pause = 500; ; pause = 100) {
    await sleep(pause)
    const status = await client.sources.syncStatus(source)
    if (status.job_id === job_id && status.state === 'failed') throw new Error(`the sync failed: ${JSON.stringify(status)}`)
    if (status.job_id !== job_id || status.state !== 'completed' || (await client.sources.get(source)).status === 'syncing') continue
    if (expected && status[expected] !== files) throw new Error(`of ${files} files ${status[expected]} are ${expected}`)
    return (Date.parse(status.finished_at ?? '') - began) / 1000
  }
}

/** Runs a program to its end. `peak`: its maximum memory in bytes. */
async function run(program: string, args: readonly string[], env: Record<string, string> = {}, input = '') {
  const began = performance.now()
  const child = spawn(program, args, { env: { ...bareEnvironment({ HOME: home }), ...env }, stdio: ['pipe', 'pipe', 'pipe'] })
  let [stdout, stderr, peak] = ['', '', 0]
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const timer = setInterval(async () => {
    const status = await readFile(`/proc/${child.pid}/status`, 'utf8').catch(() => '')
    peak = Math.max(peak, Number(/^VmHWM:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) * 1024)
  }, 20)
  child.stdin.end(input)
  const [code] = await once(child, 'close')
  clearInterval(timer)
  if (code !== 0) throw new Error(`${program} ${args.slice(0, 4).join(' ')} ended with ${code}: ${stderr || stdout}`)
  return { stdout, peak, took: (performance.now() - began) / 1000 }
}

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return (performance.now() - began) / 1000
}
