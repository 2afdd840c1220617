/**
 * Does a source come back after ransomware, and how fast? Files on a real WebDAV server are synced, encrypted, synced again and rolled back:
 *
 *   node bench/rollback.ts [--files 10000] [--server apache|rclone] [--attacks half,all,place] [--unread]
 *
 * half  half of the files encrypted in place with the same size, the other half encrypted under new names
 * all   every file encrypted under a new name
 * place every file encrypted in place
 *
 * The sync after the encryption has to stop by itself, and to apply nothing. With `accept_changes` it goes through. `dms sources rollback` over HTTP
 * brings the documents back: each is downloaded and compared with the bytes that were written first. Memory: the most that the server, with its worker
 * and reader processes, held during the rollback (without PostgreSQL). `--unread`: no worker reads texts.
 */
import { spawn } from 'node:child_process'
import { createCipheriv, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readFile, rename, writeFile } from 'node:fs/promises'
import { availableParallelism, loadavg } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import type { Source, SyncStatus } from '../src/client/sources.ts'
import { processTree } from '../test/support/processes/process-tree.ts'
import { bareEnvironment, executable } from '../test/support/processes/run.ts'
import { startServed } from '../test/support/servers/served.ts'
import { handOver, hasWebdavServer, startWebdav, type WebdavServerName } from '../test/support/servers/webdav-servers.ts'
import { cpuOf, database } from './processor.ts'

const { values } = parseArgs({
  options: {
    files: { type: 'string', default: '10000' },
    server: { type: 'string', default: hasWebdavServer('apache') ? 'apache' : 'rclone' },
    attacks: { type: 'string', default: 'half,all' },
    unread: { type: 'boolean', default: false },
  },
})
const files = Number(values.files)
const filesPerFolder = 100
const concurrency = 8
const pollIntervalMs = 250

interface Attack {
  isInPlace(file: number): boolean
}
const attacks: Record<string, Attack> = {
  half: { isInPlace: (file) => file % 2 === 0 },
  all: { isInPlace: () => false },
  place: { isInPlace: () => true },
}

const webdav = await startWebdav(values.server as WebdavServerName)
const env = {
  DMS_SOURCES_CONCURRENCY: String(concurrency),
  DMS_STORAGE_MIN_FREE: '0',
  ...(values.unread ? { DMS_WORKER_QUEUES: 'sync' } : {}),
}
const dms = await startServed({ env })
const table = new Table({ head: ['attack', 'step', 'seconds', 'result'], style: { head: [], border: [] } })
let lost = 0
try {
  console.log(`${files} files of 0.5 to 8 kB, ${values.server}, ${availableParallelism()} cores, load ${loadavg()[0]?.toFixed(1)}`)
  for (const [name, attack] of Object.entries(attacks)) if (values.attacks.split(',').includes(name)) await survive(name, attack)
  console.log(table.toString())
  console.log(`lost: ${lost}; load ${loadavg()[0]?.toFixed(1)}`)
} finally {
  await dms.stop()
  await dms.remove()
  await webdav.stop()
}
if (lost > 0) process.exitCode = 1

async function survive(name: string, attack: Attack): Promise<void> {
  const folder = join(webdav.folder, name)
  for (let file = 0; file < files; file++) {
    if (file % filesPerFolder === 0) await mkdir(dirname(join(folder, pathOf(file))), { recursive: true })
    await writeFile(join(folder, pathOf(file)), cleanBytes(name, file))
  }
  await handOver(folder)
  const { username, password } = webdav
  const url = new URL(`${name}/`, webdav.url).href
  const source = await dms.client.sources.create({ name, type: 'webdav', url, username, password, sync_interval: 0 })
  const step = async <Result>(title: string, work: () => Promise<Result>, describe: (result: Result) => string): Promise<Result> => {
    const started = performance.now()
    const result = await work()
    const seconds = (performance.now() - started) / 1000
    table.push([name, title, seconds.toFixed(1), describe(result)])
    console.log(`${name}: ${title}: ${seconds.toFixed(1)} s, ${describe(result)}`)
    return result
  }
  await step('first sync', () => sync(source), describeSync)
  if (!values.unread) await step('until all are read', () => waitUntilRead(source), String)
  const clean = await sums(source)
  const before = new Date().toISOString()
  await encrypt(folder, attack)
  await step('sync', () => sync(source), describeSync)
  const changed = differences(clean, await sums(source))
  table.push([name, '', '', `${changed} documents changed`])
  if (changed > 0) throw new Error(`a stopped sync changed ${changed} documents`)
  await step('sync, accept_changes', () => sync(source, true), describeSync)
  await step(
    'rollback',
    () => rollBack(name, before),
    ({ restored, trashed, failed, peak, growth, cpu }) =>
      `${restored} restored, ${trashed} trashed, ${failed} failed, at most ${(peak / 1e6).toFixed(0)} MB (+${(growth / 1e6).toFixed(0)}); CPU ${cpu.map((each) => each.toFixed(1)).join(' + ')} s`,
  )
  const missing = await step(
    'download and compare',
    () => countLost(source, name),
    (count) => `${count} lost`,
  )
  lost += missing
  await step('next sync', () => sync(source), describeSync)
  lost += differences(clean, await sums(source))
}

function pathOf(file: number): string {
  return `${Math.floor(file / filesPerFolder)}/${file}.txt`
}

function cleanBytes(name: string, file: number): Buffer {
  return Buffer.from(`${name} ${file} ${'lorem ipsum dolor sit amet '.repeat(20 + (file % 280))}`)
}

/** Encrypts files like ransomware: random bytes, and a random name unless in place. */
async function encrypt(folder: string, { isInPlace }: Attack): Promise<void> {
  const key = randomBytes(32)
  for (let file = 0; file < files; file++) {
    const path = join(folder, pathOf(file))
    const nonce = randomBytes(16)
    const cipher = createCipheriv('aes-256-ctr', key, nonce)
    const bytes = Buffer.concat([cipher.update(await readFile(path)), cipher.final()])
    await writeFile(path, isInPlace(file) ? bytes : Buffer.concat([nonce, bytes]))
    if (!isInPlace(file)) await rename(path, join(dirname(path), `${randomBytes(8).toString('hex')}.locked`))
  }
  await handOver(folder)
}

async function sync({ id }: Source, accept_changes = false): Promise<SyncStatus> {
  const { job_id } = await dms.client.sources.sync(id, { accept_changes })
  for (;;) {
    await sleep(pollIntervalMs)
    const status = await dms.client.sources.syncStatus(id)
    const isOver = status.job_id === job_id && !['queued', 'running'].includes(status.state)
    if (isOver && (await dms.client.sources.get(id)).status !== 'syncing') return status
  }
}

function describeSync({ state, created, updated, removed, failed, error }: SyncStatus): string {
  return `${state}${error ? ` ${error.code}` : ''}: ${created} new, ${updated} changed, ${removed} removed, ${failed} failed`
}

async function waitUntilRead({ id }: Source): Promise<number> {
  for (;;) {
    const pages = await Promise.all(
      (['pending', 'processing'] as const).map((status) => dms.client.documents.page({ source_id: id, status, per_page: 1 })),
    )
    if (pages.every(({ data }) => data.length === 0)) return files
    await sleep(1000)
  }
}

/** Returns the checksum of each live document of the source by id. */
async function sums({ id }: Source): Promise<Map<string, string>> {
  const all = new Map<string, string>()
  for await (const document of dms.client.documents.list({ source_id: id })) all.set(document.id, document.sha256)
  return all
}

function differences(one: ReadonlyMap<string, string>, other: ReadonlyMap<string, string>): number {
  return [...one].filter(([id, sum]) => other.get(id) !== sum).length + [...other.keys()].filter((id) => !one.has(id)).length
}

async function rollBack(name: string, before: string) {
  const postgres = await database(dms.dataDir)
  const used = async () => [await cpuOf(processTree(dms.pid).map(({ pid }) => pid)), await cpuOf(postgres)]
  const cpuBefore = await used()
  const memory = () => processTree(dms.pid).reduce((sum, { command, resident }) => sum + (/postgres/.test(command) ? 0 : resident), 0)
  const atRest = memory()
  let peak = 0
  const timer = setInterval(() => {
    peak = Math.max(peak, memory())
  }, pollIntervalMs)
  const args = [executable, 'sources', 'rollback', name, '--before', before, '-y', '-o', 'json']
  const child = spawn(process.execPath, args, {
    env: { ...bareEnvironment({}), DMS_URL: dms.url, DMS_TOKEN: dms.token, DMS_INSECURE_HTTP: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [stdout, stderr] = ['', '']
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const [code] = await once(child, 'close')
  clearInterval(timer)
  if (code !== 0) throw new Error(`rollback ended with ${code}: ${stderr}`)
  const cpu = (await used()).map((seconds, index) => seconds - (cpuBefore[index] ?? 0))
  const { restored, trashed, failed } = JSON.parse(stdout) as { restored: number; trashed: number; failed: number }
  return { restored, trashed, failed, peak, growth: peak - atRest, cpu }
}

/** Downloads every document. Returns the number of files without a document that has their first bytes. */
async function countLost({ id }: Source, name: string): Promise<number> {
  const missing = new Set(Array.from({ length: files }, (_, file) => pathOf(file)))
  const documents = dms.client.documents.list({ source_id: id })[Symbol.asyncIterator]()
  const compare = async () => {
    for (;;) {
      const { value: document, done } = await documents.next()
      if (done) return
      const path = document.source_path ?? ''
      const bytes = Buffer.from(await (await dms.client.documents.download(document.id)).arrayBuffer())
      if (!bytes.equals(cleanBytes(name, Number(/(\d+)\.txt$/.exec(path)?.[1])))) continue
      missing.delete(path)
    }
  }
  await Promise.all(Array.from({ length: concurrency }, compare))
  return missing.size
}
