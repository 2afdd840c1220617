/** F41: files move between folder and bucket under load, while S3 misbehaves and the migration and the server are killed. */
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { run as runDms } from '../../support/processes/run.ts'
import { sha256Of } from '../caller.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'
import { needsS3, openS3Store } from './s3-store.ts'

export const killedStorageMigrations: Fault = {
  id: 'F41',
  name: 'kill -9 of storage migrate and server, while files move to S3 and back under load, and S3 misbehaves',
  isLong: true,
  skipReason: needsS3,
  run,
}

/** `uploads` before the first migration, and at most as many in each round: the time of a migration must not depend on the speed of the machine. */
const amounts = {
  short: { uploads: 20, clients: 1, rounds: 2, kills: 1, hangs: 0, outages: 0, checks: 20 },
  whole: { uploads: 300, clients: 3, rounds: 6, kills: 3, hangs: 6, outages: 2, checks: 150 },
}
/** S3 answers every request with 503. */
const outageMs = 15_000
/** Files that have moved when an outage begins. A purge may have removed some of them. */
const minMoved = 5
/** More than one part of a multipart upload. */
const largeBytes = 9_000_000
/** A request has its 503 within a minute after S3 has ceased to answer. */
const answerTimeoutMs = 90_000
const migrationTimeoutMs = 300_000
const cleanupTimeoutMs = 120_000
const address = /^[0-9a-f]{64}(\.[0-9a-z]{8,32})?$/

async function run({ isShort, openInstallation }: FaultContext): Promise<FaultResult> {
  const { uploads, clients, rounds, kills, hangs, outages, checks } = isShort ? amounts.short : amounts.whole
  const installation = await openInstallation()
  const store = await openS3Store(installation)
  let kind: 'disk' | 's3' = 'disk'
  let server = await installation.start({ env: store.env(kind) })
  const faultRun = await openFaultRun(installation, answerTimeoutMs)
  const { caller, ledger, expect, notes } = faultRun
  for (let at = 0; at < uploads; at++)
    await (at % 10 === 0 ? caller.uploadBytes(at % 30 === 0 ? largeBytes : 300_000) : caller.uploadText())

  let isOutage = false
  store.setMisbehaviour(() => (isOutage ? 'fail' : store.drawMisbehaviour(hangs)))
  const stop = new AbortController()
  installation.atEnd(() => stop.abort())
  let [downloads, maxUploads] = [0, 2 * uploads]
  const load = Promise.all([...Array.from({ length: clients }, () => uploadAndDownload()), purge()])

  let killed = 0
  let wholeMs = 4000
  const migrate = (timeout = migrationTimeoutMs) =>
    runDms(['storage', 'migrate', '--to', kind, '--json', '--data-dir', installation.dataDir], {
      env: { DMS_STORAGE_MIN_FREE: '0', ...store.env(kind) },
      timeout,
    })
  for (let round = 0; round < rounds; round++) {
    kind = kind === 'disk' ? 's3' : 'disk'
    // The server still writes to the other store.
    for (let kill = 0; kill < kills; kill++)
      killed += Number((await migrate(Math.round(wholeMs * (0.4 + 0.55 * Math.random())))).signal === 'SIGKILL')
    await server.kill()
    killed++
    server = await installation.start({ env: store.env(kind) })
    const startedAt = performance.now()
    const migration = migrate()
    const [{ code, stderr }] = await Promise.all([migration, round < outages ? failWhileMoving(migration) : null])
    if (round >= outages) wholeMs = performance.now() - startedAt
    expect(code === 0, `storage migrate --to ${kind} ended with ${code}: ${stderr.slice(-300)}`)
    for (const id of [...ledger.uploads.keys()].slice(0, checks)) await compareDownload(id)
    maxUploads += uploads
  }
  stop.abort()
  await load
  store.setMisbehaviour(() => null)
  // A worker removes within a minute what a server that was killed had begun. No migration moves it.
  const listBoth = async () => {
    expect((await migrate()).code === 0, 'the last migration failed')
    const [inFolder, { sizes: inBucket }] = [await listFolder(), await store.list()]
    return kind === 's3' ? { full: inBucket, empty: inFolder } : { full: inFolder, empty: inBucket }
  }
  let { full, empty } = await listBoth()
  for (const end = performance.now() + cleanupTimeoutMs; empty.size > 0 && performance.now() < end; await sleep(1000))
    ({ full, empty } = await listBoth())
  expect(empty.size === 0, `${empty.size} files are left in the old store`)
  // A worker removes at its start what a killed process had begun.
  await server.stop()
  server = await installation.start({ env: store.env(kind) })
  notes.push(`${full.size} files at the end, ${downloads} downloads compared, requests to S3: ${store.describeMisbehaviour()}`)
  const result = await faultRun.finish(`${killed} kills, ${rounds} migrations, ${store.countMisbehaviour()} bad answers of S3`, {
    timeoutMs: 120_000,
    async list() {
      const { sizes, abandoned } = await store.list()
      return { sizes: new Map([...(await listFolder()), ...sizes]), abandoned }
    },
  })
  await server.stop()
  await installation.remove()
  return result

  /** Begins an outage when files move: a migration that finds S3 out of reach at its start ends at once. */
  async function failWhileMoving(migration: Promise<unknown>): Promise<void> {
    const sums = new Set([...ledger.uploads.values()].map(({ sha256 }) => sha256))
    const before = await listFolder()
    const countMoved = async (): Promise<number> => {
      const names = await listFolder()
      if (kind === 's3') return [...before.keys()].filter((name) => !names.has(name)).length
      return [...names.keys()].filter((name) => !before.has(name) && sums.has(name.slice(0, 64))).length
    }
    let isRunning = true
    void migration.finally(() => (isRunning = false))
    while (isRunning && (await countMoved()) < minMoved) await sleep(100)
    isOutage = isRunning
    await sleep(outageMs)
    isOutage = false
  }

  async function uploadAndDownload(): Promise<void> {
    while (!stop.signal.aborted) {
      const dice = Math.random()
      const ids = [...ledger.uploads.keys()]
      const id = ids[Math.floor(Math.random() * ids.length)]
      const mayUpload = ids.length < maxUploads
      if ((mayUpload && dice < 0.15) || !id) await caller.uploadText()
      else if (mayUpload && dice < 0.4) await caller.uploadBytes(dice < 0.18 ? largeBytes : 20_000)
      else await compareDownload(id)
      await sleep(50)
    }
  }

  /** Downloads a document, again after a failure of S3 or a kill, and compares its bytes. */
  async function compareDownload(id: string): Promise<void> {
    for (const end = performance.now() + answerTimeoutMs; !ledger.deleted.has(id); await sleep(500)) {
      const { status, body } = await caller.download(id)
      if (ledger.deleted.has(id)) return
      if ((status === 0 || status === 503) && performance.now() < end) continue
      downloads++
      const log = status === 500 ? server.output.findLast((line) => line.includes('request failed')) : ''
      return expect(status === 200 && sha256Of(body) === ledger.uploads.get(id)?.sha256, `${id}: ${status} or other bytes. ${log}`)
    }
  }

  /** Purges documents while their files move. */
  async function purge(): Promise<void> {
    while (!stop.signal.aborted) {
      const id = [...ledger.uploads.keys()].findLast((each) => !ledger.deleted.has(each))
      if (id) await caller.purge(id)
      await sleep(1000)
    }
  }

  async function listFolder(): Promise<Map<string, number>> {
    const entries = await readdir(join(installation.dataDir, 'files'), { recursive: true, withFileTypes: true })
    const found = new Map<string, number>()
    for (const { name, parentPath } of entries.filter((entry) => entry.isFile() && address.test(entry.name))) {
      const stats = await stat(join(parentPath, name)).catch(() => null)
      if (stats) found.set(name, stats.size)
    }
    return found
  }
}
