/** F02: the server is killed while it receives ten files in one request. */
import { randomBytes } from 'node:crypto'
import { sha256Of } from '../caller.ts'
import { type Fault, type FaultContext, type FaultResult, needsTracing, openFaultRun } from '../fault.ts'
import { type CrashPoint, crashAt, nameOf, oneFileThread, randomPoints } from './crash-points.ts'

/** a server without a worker; F04 covers the calls of a worker */
const env = { ...oneFileThread, DMS_WORKER_EMBEDDED: 'false' }
/** calls of such a request with their maximum number per thread */
const calls = { openat: 40, writev: 30, write: 30, fsync: 30, rename: 10, unlink: 20 }
const sample: readonly CrashPoint[] = [
  { call: 'fsync', at: 4, moment: 'after' },
  { call: 'rename', at: 5, moment: 'after' },
  { call: 'unlink', at: 2, moment: 'before' },
]

export const killedBatches: Fault = {
  id: 'F02',
  name: 'kill -9 during a bulk upload of ten',
  isLong: true,
  skipReason: needsTracing,
  run,
}

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  let server = await installation.start({ env })
  const faultRun = await openFaultRun(installation)
  const { caller, ledger, expect, notes } = faultRun
  const partial = { none: 0, some: 0, all: 0 }

  const send = async (files: readonly Buffer[]) => {
    const form = new FormData()
    // A client without an answer repeats the request and gets the stored documents.
    form.append('on_duplicate', 'return')
    for (const [at, bytes] of files.entries()) form.append('files', new Blob([bytes as BlobPart]), `${at}.bin`)
    const answer = await caller.call('POST', '/api/documents/bulk-upload', { what: 'bulk upload', body: form })
    const report = answer.status === 201 ? (JSON.parse(answer.body.toString()) as Report) : null
    for (const { filename, status, id } of report?.documents ?? []) {
      const bytes = files[Number.parseInt(filename, 10)]
      if (status !== 'uploaded' || !id || !bytes) continue
      ledger.acknowledged += Number(!ledger.uploads.has(id))
      ledger.uploads.set(id, { sha256: sha256Of(bytes), size: bytes.length, word: null })
    }
    return { status: answer.status, report }
  }

  /** Returns whether the server was killed. */
  const killAt = async (point: CrashPoint): Promise<boolean> => {
    const files = Array.from({ length: 10 }, () => randomBytes(100_000))
    let first: Awaited<ReturnType<typeof send>> | undefined
    const isDead = await crashAt(server, point, async () => {
      first = await send(files)
      return first.status !== 0
    })
    if (!isDead) return false
    server = await installation.start({ env })
    const sums = files.map((bytes) => `'${sha256Of(bytes)}'`).join()
    const [row] = await installation.query<{ count: number }>(`select count(*)::int as count from documents where sha256 in (${sums})`)
    const stored = row?.count ?? 0
    partial[stored === 0 ? 'none' : stored === 10 ? 'all' : 'some']++
    if (first?.report)
      expect(first.report.uploaded === stored, `${nameOf(point)}: ${first.report.uploaded} acknowledged, ${stored} are there`)
    const again = await send(files)
    expect(
      again.report?.uploaded === 10,
      `${nameOf(point)}: the second try was answered with ${again.status}, ${again.report?.uploaded} of 10`,
    )
    return true
  }

  let points = 0
  try {
    for (const point of isShort ? sample : randomPoints(calls, 200)) points += Number(await killAt(point))
    notes.push(`after the kill none of the ten was there ${partial.none} times, all ${partial.all} times, some ${partial.some} times`)
    ledger.problems.clear()
    await server.kill()
    server = await installation.start()
    return await faultRun.finish(`${points} crash points`)
  } finally {
    await server.kill()
  }
}

interface Report {
  uploaded: number
  failed: number
  documents: { filename: string; status: string; id?: string }[]
}
