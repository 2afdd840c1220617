import { createHash, randomBytes } from 'node:crypto'
import { chmod, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import sharp from 'sharp'
import { expect, onTestFinished, test } from 'vitest'
import { joinEmbedded } from '../../src/db/embedded/embedded.ts'
import { openLog } from '../../src/log/log.ts'
import { pageImage, scannedPdf } from '../support/data/page-image.ts'
import { type Killable, password, postgresOf, processesIn, startKillable } from '../support/processes/killable.ts'
import { filePart, multipartBody, multipartType, storeFiles } from '../support/servers/server.ts'

/** Acknowledged documents: id -> SHA-256. */
type Ledger = Map<string, string>

const rounds = 4
/** Rounds in which the database is killed too. */
const withDatabase = [1, 3]
const environment = { DMS_WORKER_CONCURRENCY: '2', DMS_OCR_MAX_ATTEMPTS: '50' }

test('kill -9 during uploads and OCR: every acknowledged document has its bytes and is read once', {
  timeout: 240_000,
}, async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'dms-kill-'))
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }))
  await chmod(dataDir, 0o711)
  const scans = await drawScans()
  const ledger: Ledger = new Map()
  let token = ''

  for (let round = 0; round < rounds; round++) {
    const server = await startKillable(dataDir, environment)
    token ||= await signIn(server)
    const stop = new AbortController()
    const clients = Array.from({ length: 4 }, () => uploadUntil(stop.signal, server, token, scans, ledger))
    await sleep(400 + Math.random() * 2000)
    if (withDatabase.includes(round)) process.kill(await postgresOf(dataDir), 'SIGKILL')
    // Sometimes the server lives on for a moment without its database.
    if (round === withDatabase[0]) await sleep(Math.random() * 1500)
    await server.kill()
    stop.abort()
    await Promise.all(clients)
    await expect.poll(() => processesIn(join(dataDir, 'tmp')), { message: 'readers end with their server' }).toEqual([])
  }
  expect(ledger.size).toBeGreaterThan(rounds)

  // The flag is above the setting: what is left is read here.
  const server = await startKillable(dataDir, { ...environment, DMS_WORKER_EMBEDDED: 'false' }, ['--with-worker'])
  const postgres = await joinEmbedded({ dataDir, log: openLog({ level: 'silent', format: 'json' }) })
  const client = new pg.Client(postgres.connection)
  await client.connect()
  const query = async <T>(text: string): Promise<T[]> => (await client.query(text)).rows as T[]

  await expect
    .poll(() => query(`select id from documents where status in ('pending', 'processing')`), { timeout: 90_000, interval: 250 })
    .toEqual([])
  await expect.poll(() => query(`select kind from jobs where status in ('pending', 'processing')`), { timeout: 20_000 }).toEqual([])

  for (const [id, sha256] of ledger) {
    const response = await fetch(`${server.url}/api/documents/${id}/download`, { headers: { authorization: `Bearer ${token}` } })
    const bytes = Buffer.from(await response.arrayBuffer())
    expect([id, response.status, createHash('sha256').update(bytes).digest('hex')]).toEqual([id, 200, sha256])
  }
  const documents = await query<{
    id: string
    sha256: string
    status: string
    jobs: number
    read: number
    left: number
    pages: number
    page_count: number
  }>(`
    select d.id, d.sha256, d.status, d.page_count,
      (select count(*)::int from jobs j where j.document_id = d.id and j.status = 'completed') as jobs,
      (select count(*)::int from events e where e.data ->> 'document_id' = d.id::text and e.type = 'ocr_progress' and (e.data ->> 'progress')::int = 100) as read,
      (select count(*)::int from document_pages p where p.document_id = d.id) as pages,
      (select count(*)::int from document_pages p where p.document_id = d.id and p.source is null) as left
    from documents d`)
  expect(documents.filter(({ id }) => ledger.has(id))).toHaveLength(ledger.size)
  for (const { id, status, jobs, read, left, pages, page_count } of documents) {
    expect({ id, status, jobs, read, left, pages }).toEqual({ id, status: 'completed', jobs: 1, read: 1, left: 0, pages: page_count })
  }
  const stored = (await query<{ sha256: string }>('select sha256 from stored_files order by sha256')).map(({ sha256 }) => sha256)
  const used = [...new Set(documents.map(({ sha256 }) => sha256))].sort()
  expect(stored).toEqual(used)
  expect(await storeFiles(dataDir)).toEqual({ named: used, staged: [] })
  expect(await query(`select document_id from search_entries where document_id not in (select id from documents)`)).toEqual([])

  await client.end()
  expect(await server.stop()).toBe(0)
  await postgres.release()
  const left = await readdir(join(dataDir, 'tmp'), { recursive: true, withFileTypes: true })
  expect(left.filter((entry) => entry.isFile())).toEqual([])
})

test('SIGTERM during an upload and OCR: the upload is answered, the job returned, exit 0', {
  timeout: 120_000,
}, async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'dms-term-'))
  onTestFinished(() => rm(dataDir, { recursive: true, force: true }))
  await chmod(dataDir, 0o711)
  const scans = await drawScans()
  const server = await startKillable(dataDir, { ...environment, DMS_SHUTDOWN_TIMEOUT: '20s' })
  const token = await signIn(server)
  const send = (body: BodyInit) =>
    fetch(`${server.url}/api/documents/upload`, {
      method: 'POST',
      body,
      duplex: 'half',
      headers: { authorization: `Bearer ${token}`, 'content-type': multipartType },
    } as RequestInit)
  for (let count = 0; count < 6; count++)
    expect((await send(multipartBody([filePart(scans[1] ?? '', `${count}.pdf`)]) as BodyInit)).status).toBe(201)

  const body = multipartBody([filePart('slowly')])
  async function* slowly() {
    for (let at = 0; at < body.length; at += 20) {
      yield body.subarray(at, at + 20)
      await sleep(100)
    }
  }
  const answer = send(Readable.toWeb(Readable.from(slowly())) as unknown as BodyInit)
  let isAnswered = false
  void answer.finally(() => (isAnswered = true))
  const isReceived = async () => (await readdir(join(dataDir, 'files', '.tmp'))).some((name) => name.endsWith('.part'))
  while (!isAnswered && !(await isReceived())) await sleep(10)
  const stopped = server.stop()
  expect((await answer).status).toBe(201)
  expect(await stopped).toBe(0)
  expect(await processesIn(join(dataDir, 'tmp'))).toEqual([])

  const postgres = await joinEmbedded({ dataDir, log: openLog({ level: 'silent', format: 'json' }) })
  const client = new pg.Client(postgres.connection)
  await client.connect()
  const { rows } = await client.query(`select status, attempts from jobs where kind = 'ocr'`)
  expect(rows).toHaveLength(7)
  for (const { status, attempts } of rows)
    expect([
      { status: 'pending', attempts: 0 },
      { status: 'completed', attempts: 1 },
    ]).toContainEqual({ status, attempts })
  expect((await client.query(`select id from documents where status = 'processing'`)).rows).toEqual([])
  expect((await client.query('select name from workers')).rows).toEqual([])
  await client.end()
  await postgres.release()
})

async function signIn({ url }: Killable): Promise<string> {
  const response = await fetch(`${url}/api/auth/login`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ username: 'admin', password }),
  })
  return ((await response.json()) as { token: string }).token
}

/** Uploads files of all kinds, one after the other, until it is stopped or the server is unreachable. */
async function uploadUntil(signal: AbortSignal, { url }: Killable, token: string, scans: readonly Buffer[], ledger: Ledger): Promise<void> {
  for (let count = 0; !signal.aborted; count++) {
    const bytes = pickFile(scans)
    const form = new FormData()
    form.set('file', new Blob([bytes as BlobPart]), `file ${count}`)
    try {
      const response = await fetch(`${url}/api/documents/upload`, {
        method: 'POST',
        body: form,
        headers: { authorization: `Bearer ${token}` },
      })
      const answer = (await response.json()) as { id: string }
      if (response.status === 201) ledger.set(answer.id, createHash('sha256').update(bytes).digest('hex'))
    } catch {
      return
    }
    await sleep(100)
  }
}

function pickFile(scans: readonly Buffer[]): Buffer {
  const dice = Math.random()
  if (dice < 0.25) return scans[Math.floor(Math.random() * scans.length)] as Buffer
  if (dice < 0.4) return randomBytes(3_000_000)
  return Buffer.from(`a note ${randomBytes(20).toString('hex')}`)
}

/** A picture of a line of text, and a scan of three pages. */
async function drawScans(): Promise<Buffer[]> {
  const layout = { width: 220, height: 60, margin: 10, size: 14, dpi: 150 }
  const pages = await Promise.all(['first page', 'second page', 'third page'].map((line) => pageImage([line], layout)))
  const raw = pages.map(({ gray, width, height }) => ({ width, height, picture: sharp(gray, { raw: { width, height, channels: 1 } }) }))
  const jpegs = await Promise.all(
    raw.map(async ({ picture, width, height }) => ({ jpeg: await picture.clone().jpeg().toBuffer(), width, height, dpi: 150 })),
  )
  return [await (raw[0] as (typeof raw)[number]).picture.png().toBuffer(), scannedPdf(jpegs)]
}
