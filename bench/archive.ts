/**
 * What does an archive of many small documents cost? One folder goes through `dms documents upload -r`, the search index, and the commands that
 * an operator runs on all documents.
 *
 *   node bench/archive.ts [--documents 2000] [--bytes 2000] [--folder FOLDER]
 *
 * Upload, list and export run over HTTP as the first admin, with the default settings; backup, verification and check on the server's machine.
 * Memory is the most that the command, and the server with its worker and reader processes (without PostgreSQL), held at once.
 */
import { spawn } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { availableParallelism, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { processTree } from '../test/support/processes/process-tree.ts'
import { bareEnvironment, executable } from '../test/support/processes/run.ts'
import { startServed } from '../test/support/servers/served.ts'
import { report } from './report/figure.ts'
import { makeWords, seeded } from './search-corpus.ts'

const { values } = parseArgs({
  options: {
    documents: { type: 'string', default: '2000' },
    bytes: { type: 'string', default: '2000' },
    folder: { type: 'string', default: tmpdir() },
  },
})
const documents = Number(values.documents)
const bytes = Number(values.bytes)
const filesPerFolder = 1000
const sampleIntervalMs = 250

const root = await mkdtemp(join(values.folder, 'dms-bench-archive-'))
// Under root the database runs as another user, who must be able to enter the folder.
await chmod(root, 0o711)
const [scans, exported, archive] = ['scans', 'exported', 'backup.tar'].map((name) => join(root, name)) as [string, string, string]
const server = await startServed({ below: root, env: { DMS_API_CALLS_PER_MINUTE: '100' } })
const table = new Table({ head: [`${documents} × ${bytes} bytes`, 'seconds', 'documents/s', 'MB, command', 'MB, server'] })
const remote = { DMS_URL: server.url, DMS_TOKEN: server.token, XDG_STATE_HOME: join(root, 'state') }
const local = ['--data-dir', server.dataDir]
try {
  await writeFiles()
  const start = performance.now()
  await command('upload -r', ['documents', 'upload', '-r', scans, '--concurrency', '8', '-q'], remote)
  await addRow('until all are found', start, null, waitUntilFound)
  await command('upload -r, again', ['documents', 'upload', '-r', scans, '-q'], remote)
  await command('list --all', ['documents', 'list', '--all', '-o', 'jsonl'], remote)
  await command('export to a folder', ['documents', 'export', '--to', exported, '-q'], remote)
  await command('export again', ['documents', 'export', '--to', exported, '-q'], remote)
  await command('export to tar', ['documents', 'export', '--to', join(root, 'all.tar'), '-q'], remote)
  await command('backup create', [...local, 'backup', 'create', '--to', archive, '-q'])
  await command('backup verify', [...local, 'backup', 'verify', archive, '-q'])
  await command('check --sample 100%', [...local, 'check', '--sample', '100%', '-q'])
  await command('search verify', [...local, 'search', 'verify', '--sample', '100', '-q'])
  console.log(table.toString())
  const files = (await readdir(exported)).length - 1
  const archiveMegabytes = (await stat(archive)).size / 1e6
  console.log(
    `${files} files exported, backup of ${archiveMegabytes.toFixed(0)} MB; ${availableParallelism()} cores, load ${loadavg()[0]?.toFixed(1)}`,
  )
  if (files !== documents) process.exitCode = 1
} finally {
  await server.stop()
  await server.remove()
  await rm(root, { recursive: true, force: true })
}

/** Writes text files with distinct content, a thousand in each folder. */
async function writeFiles(): Promise<void> {
  const random = seeded(7)
  const words = makeWords().slice(0, 30_000)
  for (let made = 0; made < documents; made++) {
    const folder = join(scans, String(Math.floor(made / filesPerFolder)))
    if (made % filesPerFolder === 0) await mkdir(folder, { recursive: true })
    let text = `document ${made}\n`
    while (text.length < bytes) text += `${words[Math.floor(random() * words.length)]} `
    await writeFile(join(folder, `${made}.txt`), text)
  }
}

/** Waits until every document is processed and indexed. */
async function waitUntilFound(): Promise<void> {
  const isOver = async (query: string) => (await server.client.call<{ data: unknown[] }>('GET', query)).data.length === 0
  while (!(await isOver('/api/documents?status=pending,processing&per_page=1'))) await sleep(sampleIntervalMs)
  for (;;) {
    const { pagination } = await server.client.call<{ pagination: { total: number } }>('GET', '/api/search?q=document&per_page=1')
    if (pagination.total >= Math.min(documents, 1000)) break
    await sleep(sampleIntervalMs)
  }
  while ((await exitOf(['search', 'status', '--check', ...local])) !== 0) await sleep(sampleIntervalMs)
}

async function exitOf(args: readonly string[]): Promise<number | null> {
  return (await start(args, {}).exited).code
}

/** Starts `dms` and discards its output. */
function start(args: readonly string[], env: Record<string, string>) {
  const child = spawn(process.execPath, [executable, ...args], { env: bareEnvironment(env), stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout.resume()
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = `${errors}${text}`.slice(-2000)
  })
  const exited = new Promise<{ code: number | null; errors: string }>((resolve) => child.once('close', (code) => resolve({ code, errors })))
  return { pid: child.pid ?? 0, exited }
}

async function command(name: string, args: readonly string[], env: Record<string, string> = {}): Promise<void> {
  const startMs = performance.now()
  const { pid, exited } = start(args, env)
  await addRow(name, startMs, pid, async () => {
    const { code, errors } = await exited
    if (code !== 0) throw new Error(`dms ${args.join(' ')} ended with ${code}: ${errors}`)
  })
}

/** Runs the work and adds its row: the time since `startMs` and the peak memory. */
async function addRow(name: string, startMs: number, pid: number | null, work: () => Promise<void>): Promise<void> {
  const peaks = { command: 0, server: 0 }
  const sample = () => {
    if (pid !== null) peaks.command = Math.max(peaks.command, memoryOf(pid))
    peaks.server = Math.max(peaks.server, memoryOf(server.pid))
  }
  const timer = setInterval(sample, sampleIntervalMs)
  try {
    await work()
  } finally {
    clearInterval(timer)
  }
  const seconds = (performance.now() - startMs) / 1000
  const megabytes = (of: number) => (of === 0 ? '' : (of / 1e6).toFixed(0))
  table.push([name, seconds.toFixed(1), (documents / seconds).toFixed(0), megabytes(peaks.command), megabytes(peaks.server)])
  report({ measure: name, unit: 'documents/s', value: documents / seconds, better: 'higher' })
  console.log(`${name}: ${seconds.toFixed(1)} s`)
}

function memoryOf(pid: number): number {
  const processes = processTree(pid).filter(({ command }) => !/postgres/.test(command))
  return processes.reduce((sum, { resident }) => sum + resident, 0)
}
