/** F05: a worker is frozen during a job, another one takes over, and then the first one continues. */
import { setTimeout as sleep } from 'node:timers/promises'
import { processTree, signal } from '../../support/processes/process-tree.ts'
import { type Fault, type FaultContext, type FaultResult, type FaultRun, openFaultRun } from '../fault.ts'
import type { Installation } from '../installation.ts'
import { fakeTesseract, picture } from './tesseract.ts'

export const frozenWorker: Fault = { id: 'F05', name: 'worker frozen until its job was given away', run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const rounds = isShort ? 1 : 10
  const tesseract = await fakeTesseract(installation.folder)
  const env = { ...tesseract.env, DMS_WORKER_LEASE: '2s' }
  const server = await installation.start({ env: { ...env, DMS_WORKER_EMBEDDED: 'false' } })
  const faultRun = await openFaultRun(installation)
  const { expect, caller } = faultRun
  const worker = () => installation.startWorker({ env })
  let stale = 0
  for (let round = 0; round < rounds; round++) {
    await tesseract.behave('slow')
    const first = await worker()
    const { id } = await caller.upload(await picture(), 'scan.png')
    await until(
      faultRun,
      'the first worker has the job',
      async () => (await jobOf(installation, id)).worker?.includes(`/${first.pid}`) ?? false,
    )
    await sleep(1000)
    const frozen = processTree(first.pid).map(({ pid }) => pid)
    for (const pid of frozen) signal(pid, 'SIGSTOP')
    await tesseract.behave('good')
    const second = await worker()
    await until(faultRun, 'the second worker has ended the job', async () => (await jobOf(installation, id)).status === 'completed')
    const before = JSON.stringify(await jobOf(installation, id))
    for (const pid of frozen) signal(pid, 'SIGCONT')
    await until(faultRun, 'the first worker knows that its job was given away', async () =>
      first.output.some((line) => line.includes('"msg":"job taken away"')),
    )
    await sleep(1000)
    if (JSON.stringify(await jobOf(installation, id)) !== before) stale++
    expect(first.isRunning(), 'the worker that was frozen ended')
    await second.kill()
    // The continued worker runs jobs again.
    const { id: next } = await caller.upload(await picture(), 'scan.png')
    await until(faultRun, 'the first worker works again', async () => (await jobOf(installation, next)).status === 'completed')
    expect((await first.stop()) === 0, 'the worker that was frozen does not stop well')
  }
  expect(stale === 0, `${stale} late writes were taken`)
  faultRun.notes.push(`late writes taken: ${stale}`)
  // The index job of the last document may still be pending.
  const last = await worker()
  const result = await faultRun.finish(`${rounds} frozen`)
  await last.kill()
  await server.kill()
  return result
}

interface JobRow {
  status: string
  worker: string | null
}

async function jobOf({ query }: Installation, id: string | null): Promise<JobRow> {
  const [row] = await query<JobRow>(`select j.status, j.worker, j.fence, j.attempts, j.finished_at, d.revision, d.content, d.updated_at
    from documents d join jobs j on j.document_id = d.id where d.id = '${id}' and j.kind = 'ocr'`)
  return row ?? { status: 'none', worker: null }
}

async function until({ expect }: FaultRun, what: string, isTrue: () => Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 60_000; performance.now() < end; await sleep(100)) if (await isTrue()) return
  expect(false, `not within a minute: ${what}`)
}
