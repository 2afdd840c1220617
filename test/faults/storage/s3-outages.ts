/** F42: documents are uploaded, read, purged and checked in S3, while S3 misbehaves and is killed, and the server is killed. */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { run as runDms } from '../../support/processes/run.ts'
import { sha256Of } from '../caller.ts'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'
import { needsS3, openS3Store } from './s3-store.ts'

export const s3Outages: Fault = {
  id: 'F42',
  name: 'uploads, downloads, purges, OCR jobs and `check` on S3, which misbehaves and is killed, as is the server',
  isLong: true,
  skipReason: needsS3,
  run,
}

/** After `uploads` of a round the load only reads and purges: `check` reads every file, and its time must not depend on the speed of the machine. */
const amounts = {
  short: { rounds: 1, clients: 2, roundMs: 8000, hangs: 0, uploads: 300 },
  whole: { rounds: 6, clients: 4, roundMs: 20_000, hangs: 4, uploads: 250 },
}
/** Time without S3, longer than its requests are retried. */
const outageMs = 15_000
/** More than one part of a multipart upload. */
const largeBytes = 9_000_000
/** An upload has its 503 within a minute after S3 has ceased to answer. */
const answerTimeoutMs = 90_000
/** Exit statuses of `check`: no problem, and S3 out of reach. */
const expectedExits = [0, 69]

async function run({ isShort, openInstallation }: FaultContext): Promise<FaultResult> {
  const { rounds, clients, roundMs, hangs, uploads } = isShort ? amounts.short : amounts.whole
  const installation = await openInstallation()
  const store = await openS3Store(installation)
  const env = store.env('s3')
  let server = await installation.start({ env })
  const faultRun = await openFaultRun(installation, answerTimeoutMs)
  const { caller, ledger, expect, notes } = faultRun
  for (let at = 0; at < 5; at++) await caller.uploadText()

  store.setMisbehaviour(() => store.drawMisbehaviour(hangs))
  const stop = new AbortController()
  installation.atEnd(() => stop.abort())
  let [downloads, brokenOff, checks, maxUploads] = [0, 0, 0, uploads]
  const load = Promise.all([...Array.from({ length: clients }, uploadAndDownload), purge(), breakOff()])

  for (let round = 0; round < rounds; round++) {
    await sleep(roundMs)
    store.setDown(true)
    await sleep(outageMs)
    store.setDown(false)
    await sleep(roundMs / 2)
    await check(expectedExits)
    await server.kill()
    server = await installation.start({ env })
    maxUploads += uploads
  }
  stop.abort()
  await load
  store.setMisbehaviour(() => null)
  // A worker removes at its start what a killed process had begun.
  await server.stop()
  server = await installation.start({ env })
  notes.push(
    `${downloads} downloads compared, ${brokenOff} uploads broken off, ${checks} checks, requests to S3: ${store.describeMisbehaviour()}`,
  )
  const result = await faultRun.finish(`${rounds} kills, ${rounds} outages of S3, ${store.countMisbehaviour()} bad answers of S3`, {
    timeoutMs: 120_000,
    list: store.list,
  })
  await check([0])
  await server.stop()
  await installation.remove()
  return { ...result, problems: [...new Set([...result.problems, ...faultRun.problems])] }

  async function uploadAndDownload(): Promise<void> {
    while (!stop.signal.aborted) {
      const dice = Math.random()
      const ids = [...ledger.uploads.keys()]
      const id = ids[Math.floor(Math.random() * ids.length)]
      const mayUpload = ids.length < maxUploads
      if ((mayUpload && dice < 0.2) || !id) await caller.uploadText()
      else if (mayUpload && dice < 0.4) await caller.uploadBytes(dice < 0.25 ? largeBytes : 20_000)
      else await compareDownload(id)
      await sleep(50)
    }
  }

  /** Downloads a document and compares its bytes. */
  async function compareDownload(id: string): Promise<void> {
    const { status, body } = await caller.download(id)
    // A connection may be lost after the head of the answer.
    if (ledger.deleted.has(id) || status === 0 || status === 503) return
    if (body.length < (ledger.uploads.get(id)?.size ?? 0) && status === 200) return
    downloads++
    expect(status === 200 && sha256Of(body) === ledger.uploads.get(id)?.sha256, `${id} is answered with ${status} or other bytes`)
  }

  async function purge(): Promise<void> {
    while (!stop.signal.aborted) {
      const id = [...ledger.uploads.keys()].findLast((each) => !ledger.deleted.has(each))
      if (id) await caller.purge(id)
      await sleep(1500)
    }
  }

  /** Breaks uploads off after their first part. */
  async function breakOff(): Promise<void> {
    while (!stop.signal.aborted) {
      await sleep(3000)
      const head = '--b\r\ncontent-disposition: form-data; name="file"; filename="broken.bin"\r\n\r\n'
      async function* body() {
        yield Buffer.from(head)
        yield randomBytes(largeBytes)
        await sleep(200)
        throw new Error('broken off')
      }
      await fetch(new URL('/api/documents/upload', installation.url), {
        method: 'POST',
        headers: { authorization: `Bearer ${caller.token()}`, 'content-type': 'multipart/form-data; boundary=b' },
        body: body() as never,
        duplex: 'half',
      } as RequestInit).catch(() => {})
      brokenOff++
    }
  }

  async function check(exits: readonly number[]): Promise<void> {
    const { code, stdout, stderr } = await runDms(['check', '--data-dir', installation.dataDir], {
      env: { DMS_STORAGE_MIN_FREE: '0', ...env },
      timeout: 300_000,
    })
    checks++
    expect(exits.includes(code ?? -1), `check ended with ${code}: ${stdout.slice(-300)} ${stderr.slice(-300)}`)
  }
}
