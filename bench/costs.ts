/**
 * What does a document cost? Processor time and bytes of uploads, reading and indexing, each by itself, and of requests.
 *
 *   node bench/costs.ts [--texts 1000] [--pdfs 100] [--scans 6] [--requests 3000]
 *
 * texts: 12 kB each. pdfs: born-digital, 10 pages. scans: 2 dense pages at 300 dpi. A server without a worker takes the uploads; then
 * `dms worker --once` reads and indexes them. Processor time changes little on a busy machine. bench/scaling.ts computes from these figures.
 */
import { execFile } from 'node:child_process'
import { parseArgs, promisify } from 'node:util'
import { sql } from 'kysely'
import { joinEmbedded } from '../src/db/embedded/embedded.ts'
import { openDatabase } from '../src/db/pool.ts'
import { openLog } from '../src/log/log.ts'
import { scannedPdf } from '../test/support/data/page-image.ts'
import { pdf } from '../test/support/data/pdf-file.ts'
import { bareEnvironment, executable } from '../test/support/processes/run.ts'
import { startServed } from '../test/support/servers/served.ts'
import { cpuTime } from './ocr-programs.ts'
import { cpuOf, database as databaseProcesses } from './processor.ts'
import { report } from './report/figure.ts'
import { makeScans } from './scans.ts'
import { makeWords, seeded } from './search-corpus.ts'

const { values } = parseArgs({
  options: {
    texts: { type: 'string', default: '1000' },
    pdfs: { type: 'string', default: '100' },
    scans: { type: 'string', default: '6' },
    requests: { type: 'string', default: '3000' },
  },
})
const run = promisify(execFile)
const words = makeWords().slice(0, 30_000)
const random = seeded(11)
const [pagesOfPdf, pagesOfScan, uploadsAtOnce] = [10, 2, 8]

interface Upload {
  readonly name: string
  readonly type: string
  readonly bytes: Uint8Array
}

const served = await startServed({ env: { DMS_WORKER_EMBEDDED: 'false', DMS_STORAGE_MIN_FREE: '0', DMS_LOG_ACCESS: 'false' } })
const log = openLog({ level: 'error', format: 'json' })
const embedded = await joinEmbedded({ dataDir: served.dataDir, log })
const { db, close } = openDatabase({ address: embedded.connection, poolMax: 1, connectTimeoutMs: 5000, statementTimeoutMs: 0, log })
try {
  await worker()
  await measureKind('text of 12 kB', 1, texts())
  await measureKind('born-digital PDF of 10 pages', pagesOfPdf, pdfs())
  await measureKind('scan of 2 pages', pagesOfScan, await scans())
  await measureRequests()
} finally {
  await close()
  await embedded.release()
  await served.stop()
  await served.remove()
}

/** Uploads the files, processes them, and reports the cost of a document. */
async function measureKind(kind: string, pages: number, files: readonly Upload[]): Promise<void> {
  const before = { ...(await cpu()), ...(await bytes()) }
  await Promise.all(Array.from({ length: uploadsAtOnce }, (_, lane) => upload(files.filter((_, index) => index % uploadsAtOnce === lane))))
  const uploaded = await cpu()
  await worker()
  const after = { ...(await cpu()), ...(await bytes()) }
  const each = (measure: string, unit: string, amount: number) =>
    report({ measure: `${kind}: ${measure}`, unit, value: amount / files.length, better: 'lower' })
  each('upload, server', 'ms of CPU', uploaded.server - before.server)
  each('upload, PostgreSQL', 'ms of CPU', uploaded.postgres - before.postgres)
  each('reading and indexing, worker', 'ms of CPU', after.worker - uploaded.worker)
  each('reading and indexing, PostgreSQL', 'ms of CPU', after.postgres - uploaded.postgres)
  each('tables', 'kB', (after.tables - before.tables) / 1e3)
  each('search index', 'kB', (after.index - before.index) / 1e3)
  console.log(
    `${kind}: ${files.length} documents; a page costs the worker ${((after.worker - uploaded.worker) / files.length / pages).toFixed(1)} ms`,
  )
}

/** Reports the cost of read requests of one client. */
async function measureRequests(): Promise<void> {
  const { data } = await served.client.call<{ data: { id: string }[] }>('GET', '/api/documents?per_page=20')
  const searches = () => `/api/search?q=${words[150 + Math.floor(random() * 3000)]}`
  const requests: Record<string, () => string> = {
    'one document': () => `/api/documents/${data[Math.floor(random() * data.length)]?.id}`,
    'list of 20': () => '/api/documents?per_page=20',
    search: searches,
  }
  for (const [name, path] of Object.entries(requests)) {
    const before = await cpu()
    for (let request = 0; request < Number(values.requests); request++) await served.client.call('GET', path())
    const after = await cpu()
    for (const [place, amount] of [
      ['server', after.server - before.server],
      ['PostgreSQL', after.postgres - before.postgres],
    ] as const)
      report({ measure: `${name}, ${place}`, unit: 'ms of CPU', value: amount / Number(values.requests), better: 'lower' })
  }
}

async function upload(files: readonly Upload[]): Promise<void> {
  for (const { name, type, bytes } of files) {
    const form = new FormData()
    form.set('file', new Blob([Buffer.from(bytes)], { type }), name)
    form.set('language', 'eng')
    const headers = { authorization: `Bearer ${served.token}` }
    const response = await fetch(`${served.url}/api/documents/upload`, { method: 'POST', headers, body: form })
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`)
    await response.arrayBuffer()
  }
}

/** Runs every job that can run now. */
async function worker(): Promise<void> {
  const args = [executable, 'worker', '--once', '-q', '--data-dir', served.dataDir]
  await run(process.execPath, args, { env: bareEnvironment({ DMS_LOG_LEVEL: 'error' }) })
  const { rows } = await sql<{
    open: number
  }>`select count(*)::int as open from live_documents where status in ('pending', 'processing')`.execute(db)
  if (rows[0]?.open !== 0) throw new Error(`${rows[0]?.open} documents were not read`)
}

/** Returns the milliseconds of processor time of the server, of PostgreSQL, and of ended workers with their readers. */
async function cpu(): Promise<{ server: number; postgres: number; worker: number }> {
  const [server, postgres] = [await cpuOf([served.pid]), await cpuOf(await databaseProcesses(served.dataDir))]
  // The server is a child of this process as well.
  return { server: server * 1e3, postgres: postgres * 1e3, worker: (await cpuTime()) - server * 1e3 }
}

/** Bytes of the tables and their indexes, and of the search index. */
async function bytes(): Promise<{ tables: number; index: number }> {
  const { rows } = await sql<{ tables: number; index: number }>`
    select coalesce(sum(pg_total_relation_size(oid)) filter (where relname not like 'search%'), 0)::float8 as tables,
      coalesce(sum(pg_total_relation_size(oid)) filter (where relname like 'search%'), 0)::float8 as index
    from pg_class where relkind in ('r', 'm') and relnamespace = 'public'::regnamespace`.execute(db)
  return rows[0] ?? { tables: 0, index: 0 }
}

/** Words with the frequencies of a natural language: the rank of each is drawn by Zipf's law. */
function text(length: number): string[] {
  return Array.from({ length }, () => words[Math.floor(words.length ** random()) - 1] ?? 'the')
}

function texts(): Upload[] {
  return Array.from({ length: Number(values.texts) }, (_, nth) => ({
    name: `text-${nth}.txt`,
    type: 'text/plain',
    bytes: Buffer.from(`number ${nth}\n${text(1800).join(' ').slice(0, 12_000)}`),
  }))
}

function pdfs(): Upload[] {
  const line = () => text(11).join(' ').slice(0, 90)
  const page = () => ({ text: Array.from({ length: 45 }, line), leading: 16 })
  return Array.from({ length: Number(values.pdfs) }, (_, nth) => ({
    name: `paper-${nth}.pdf`,
    type: 'application/pdf',
    bytes: pdf({ pages: Array.from({ length: pagesOfPdf }, page) }),
  }))
}

async function scans(): Promise<Upload[]> {
  const count = Number(values.scans)
  const pages = await makeScans(count * pagesOfScan, 'clean')
  return Array.from({ length: count }, (_, nth) => ({
    name: `scan-${nth}.pdf`,
    type: 'application/pdf',
    bytes: scannedPdf(pages.slice(nth * pagesOfScan, (nth + 1) * pagesOfScan)),
  }))
}
