/**
 * What does a sync from WebDAV cost? In turns on one machine, from one local server and the same files:
 *
 *   node bench/sync.ts [--files 5000] [--server apache|rclone] [--rounds 3] [--concurrency 8]
 *
 * bare    a loop over undici that lists each folder (Depth 1, the parser of the package `webdav`), gets each file, sums it up (SHA-256) and writes
 *         it. It keeps no record, looks nothing up, flushes nothing: no sync could do less.
 * rclone  `rclone sync` into an empty folder, then again. Its WebDAV backend sleeps between two calls, which is what its time is made of.
 * dms     `dms sources sync` into an empty database and store, then again: each file is held against the list, stored by its sum and flushed,
 *         and becomes a document with a job to read it. "run" is the sync itself, "whole" has the start of the program too, and "worker" is a
 *         third and fourth sync that a worker does which runs already, by its own clock.
 *
 * Memory: the peak of the process of `dms sources sync` beside that of a sync of an empty folder.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, cpus, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { Pool } from 'undici'
import { parseXML } from 'webdav'
import { joinEmbedded } from '../src/db/embedded.ts'
import { openLog } from '../src/log.ts'
import { bareEnvironment, executable, findProgram } from '../test/support/run.ts'
import { handOver, hasWebdavServer, startWebdav, type WebdavServerName } from '../test/support/webdav-servers.ts'

const { values } = parseArgs({
  options: {
    files: { type: 'string', default: '5000' },
    server: { type: 'string', default: hasWebdavServer('apache') ? 'apache' : 'rclone' },
    rounds: { type: 'string', default: '3' },
    concurrency: { type: 'string', default: '8' },
  },
})
const [files, rounds, concurrency] = [Number(values.files), Number(values.rounds), Number(values.concurrency)]
const perFolder = 100

interface Figures {
  /** seconds */
  first: number
  second: number
  /** seconds with the start of the program */
  whole?: [first: number, second: number]
  /** seconds of a sync without news by a worker that has done one before */
  worker?: number
  /** bytes */
  peak?: [first: number, second: number]
}

const home = await mkdtemp(join(tmpdir(), 'dms-bench-sync-'))
await chmod(home, 0o711)
const server = await startWebdav(values.server as WebdavServerName)
const authorization = `Basic ${Buffer.from(`${server.username}:${server.password}`).toString('base64')}`
await writeFile(join(home, 'password'), server.password, { mode: 0o600 })
try {
  const bytes = await makeFiles()
  const rclone = findProgram('rclone')
  console.log(
    `${files} files of ${(bytes / files / 1000).toFixed(1)} kB in folders of ${perFolder}, ${values.server}, ${concurrency} at once, ${rounds} rounds; ${cpus()[0]?.model}, ${availableParallelism()} cores, Node ${process.versions.node}`,
  )
  console.log(rclone ? await rcloneSettings(rclone) : 'no rclone on this machine')
  const ways: Record<string, () => Promise<Figures>> = {
    bare,
    ...(rclone ? { rclone: () => rcloneSync(rclone) } : {}),
    dms: () => dms('files/'),
  }
  const empty = await dms('empty/')
  const figures = new Map<string, Figures[]>()
  for (let round = 0; round < rounds; round++)
    for (const [name, way] of Object.entries(ways)) figures.set(name, [...(figures.get(name) ?? []), await way()])
  show(figures, empty)
} finally {
  await server.stop()
  await rm(home, { recursive: true, force: true })
}

function show(figures: ReadonlyMap<string, readonly Figures[]>, empty: Figures): void {
  const of = (name: string, value: (figure: Figures) => number) => median((figures.get(name) ?? []).map(value))
  const table = new Table({
    style: { head: [], border: [] },
    head: ['seconds, median', 'first', ': bare', 'again', ': bare listing', ': rclone'],
  })
  for (const name of figures.keys()) {
    const [first, second] = [of(name, (figure) => figure.first), of(name, (figure) => figure.second)]
    const ratios = [first / of('bare', (figure) => figure.first), second / of('bare', (figure) => figure.second)]
    const beside = figures.has('rclone') ? (second / of('rclone', (figure) => figure.second)).toFixed(2) : ''
    table.push([name, first.toFixed(2), ratios[0]!.toFixed(2), second.toFixed(2), ratios[1]!.toFixed(2), beside])
  }
  console.log(table.toString())
  const whole = [0, 1].map((index) => of('dms', (figure) => figure.whole?.[index] ?? 0).toFixed(2))
  const grown = [0, 1].map((index) => (of('dms', (figure) => (figure.peak?.[index] ?? 0) - (empty.peak?.[index] ?? 0)) / 1e6).toFixed(0))
  console.log(`dms, whole: first ${whole[0]} s, again ${whole[1]} s (of an empty folder ${empty.whole?.[1].toFixed(2)} s)`)
  console.log(`dms, in a worker that runs: again ${of('dms', (figure) => figure.worker ?? 0).toFixed(2)} s`)
  console.log(
    `dms, memory beside that of an empty folder (${((empty.peak?.[1] ?? 0) / 1e6).toFixed(0)} MB): first +${grown[0]} MB, again +${grown[1]} MB`,
  )
  console.log('wanted of dms: first at most 3 of bare; again at most 1.3 of a bare listing and no more than rclone; memory below +100 MB')
}

/** Makes the files; their bytes together. Beside them an empty folder, which costs what any sync costs. */
async function makeFiles(): Promise<number> {
  let bytes = 0
  await mkdir(join(server.folder, 'empty'))
  for (let file = 0; file < files; file++) {
    const path = join(server.folder, 'files', String(Math.floor(file / perFolder)), `${file}.txt`)
    if (file % perFolder === 0) await mkdir(dirname(path), { recursive: true })
    const text = `${file} ${'lorem ipsum dolor sit amet '.repeat(20 + (file % 280))}`
    bytes += text.length
    await writeFile(path, text)
  }
  await handOver(server.folder)
  return bytes
}

async function bare(): Promise<Figures> {
  const root = new URL('files/', server.url)
  const folder = join(home, 'bare')
  const pool = new Pool(root.origin, { connections: concurrency })
  const list = async (path: string): Promise<{ href: string; isFolder: boolean }[]> => {
    const { body } = await pool.request({
      method: 'PROPFIND' as 'GET',
      path,
      headers: { authorization, depth: '1', 'content-type': 'application/xml' },
      body: '<d:propfind xmlns:d="DAV:"><d:prop><d:resourcetype/><d:getetag/><d:getlastmodified/><d:getcontentlength/></d:prop></d:propfind>',
    })
    const { multistatus } = await parseXML(await body.text())
    const all = multistatus.response.map(({ href, propstat }) => ({
      href,
      isFolder: propstat?.prop.resourcetype?.collection !== undefined,
    }))
    return all.filter(({ href }) => href !== path)
  }
  const listAll = async (): Promise<string[]> => {
    const [found, waiting] = [[] as string[], [root.pathname]]
    await atOnce(waiting, async (path) => {
      for (const { href, isFolder } of await list(path)) (isFolder ? waiting : found).push(href)
    })
    return found
  }
  const get = async (path: string) => {
    const { body } = await pool.request({ method: 'GET', path, headers: { authorization } })
    const bytes = Buffer.from(await body.arrayBuffer())
    createHash('sha256').update(bytes).digest('hex')
    const to = join(folder, decodeURIComponent(path))
    await mkdir(dirname(to), { recursive: true })
    await writeFile(to, bytes)
  }
  const first = await seconds(async () => atOnce(await listAll(), get))
  const second = await seconds(listAll)
  await pool.close()
  await rm(folder, { recursive: true })
  return { first, second }
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
  const [first, second] = [await seconds(() => run(program, args, env)), await seconds(() => run(program, args, env))]
  await rm(folder, { recursive: true })
  return { first, second }
}

async function rcloneSettings(program: string): Promise<string> {
  const [{ stdout: version }, { stdout: flags }] = [await run(program, ['version']), await run(program, ['help', 'flags'])]
  const pacer = /^.*webdav-pacer.*$/m.exec(flags)?.[0].trim() ?? 'no setting for its pacer: at least 10 ms between two calls to WebDAV'
  return `${version.split('\n')[0]}: --transfers ${concurrency} --checkers ${concurrency}, ${pacer}`
}

/** Into a data folder of its own, whose PostgreSQL runs already. */
async function dms(folder: string): Promise<Figures> {
  const dataDir = await mkdtemp(join(home, 'dms-'))
  await chmod(dataDir, 0o711)
  const postgres = await joinEmbedded({ dataDir, log: openLog({ level: 'silent', format: 'json' }) })
  const env = { DMS_SOURCES_CONCURRENCY: values.concurrency, DMS_STORAGE_MIN_FREE: '0', DMS_LOG_LEVEL: 'error' }
  const call = (...args: string[]) => run(process.execPath, [executable, '--data-dir', dataDir, ...args], env)
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
  const sync = async (wanted: string) => {
    const { stdout, peak, took } = await call('sources', 'sync', 'bench', '-o', 'json')
    const [item] = [JSON.parse(stdout)].flatMap((answer) => answer.items ?? answer.results ?? answer)
    if (folder !== 'empty/' && item[wanted] !== files) throw new Error(`of ${files} files ${item[wanted]} are ${wanted}: ${stdout}`)
    return { run: Number(item.duration_seconds), whole: took, peak }
  }
  const [first, second] = [await sync('new'), await sync('unchanged')]
  const worker = await byWorker([executable, '--data-dir', dataDir, 'worker', '--queues', 'sync'], env, call)
  await postgres.release()
  await rm(dataDir, { recursive: true, force: true })
  return { first: first.run, second: second.run, whole: [first.whole, second.whole], worker, peak: [first.peak, second.peak] }
}

/** Seconds that the second of two syncs takes a worker, as the server tells them. */
async function byWorker(
  args: readonly string[],
  env: Record<string, string>,
  call: (...args: string[]) => Promise<{ stdout: string }>,
): Promise<number> {
  const child = spawn(process.execPath, args, { env: { ...bareEnvironment({ HOME: home }), ...env }, stdio: 'ignore' })
  const ended = once(child, 'exit')
  let took = 0
  for (let turn = 0; turn < 2; turn++) {
    const job = (await call('sources', 'sync', 'bench', '--no-wait', '-o', 'id')).stdout.trim()
    for (;;) {
      const [status] = [JSON.parse((await call('sources', 'status', 'bench', '-o', 'json')).stdout)].flat()
      if (child.exitCode !== null || status.state === 'failed') throw new Error(`the worker's sync failed: ${JSON.stringify(status)}`)
      took = (Date.parse(status.finished_at) - Date.parse(status.started_at)) / 1000
      if (status.job_id === job && status.state === 'completed') break
    }
  }
  child.kill('SIGTERM')
  await ended
  return took
}

/** Runs a program to its end; `peak` is the most memory that it had, in bytes. */
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

/** Works through a list that may grow meanwhile. */
async function atOnce<T>(items: T[], work: (item: T) => Promise<void>): Promise<void> {
  let running = 0
  await new Promise<void>((resolve, reject) => {
    const next = () => {
      while (running < concurrency && items.length > 0) {
        running++
        work(items.pop() as T).then(() => {
          running--
          next()
        }, reject)
      }
      if (running === 0 && items.length === 0) resolve()
    }
    next()
  })
}

async function seconds(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return (performance.now() - began) / 1000
}

function median(all: readonly number[]): number {
  const sorted = all.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? 0
}
