/** F05: a worker is frozen during a job, another one takes over, and then the first one continues. */
import { setTimeout as sleep } from 'node:timers/promises'
import { processTree, signal } from '../../support/processes/process-tree.ts'
import { type Fault, type Given, openTrial, type Told, type Trial } from '../fault.ts'
import type { Place } from '../place.ts'
import { fakeTesseract, picture } from './tesseract.ts'

export const frozenWorker: Fault = { id: 'F05', name: 'worker frozen until its job was given away', run }

async function run({ place, isShort }: Given): Promise<Told> {
  const rounds = isShort ? 1 : 10
  const tesseract = await fakeTesseract(place.folder)
  const env = { ...tesseract.env, DMS_WORKER_LEASE: '2s' }
  const server = await place.start({ env: { ...env, DMS_WORKER_EMBEDDED: 'false' } })
  const trial = await openTrial(place)
  const { expect, caller } = trial
  const worker = () => place.startWorker({ env })
  let stale = 0
  for (let round = 0; round < rounds; round++) {
    await tesseract.behave('slow')
    const first = await worker()
    const { id } = await caller.upload(await picture(), 'scan.png')
    await until(trial, 'the first worker has the job', async () => (await jobOf(place, id)).worker?.includes(`/${first.pid}`) ?? false)
    await sleep(1000)
    const frozen = processTree(first.pid).map(({ pid }) => pid)
    for (const pid of frozen) signal(pid, 'SIGSTOP')
    await tesseract.behave('good')
    const second = await worker()
    await until(trial, 'the second worker has ended the job', async () => (await jobOf(place, id)).status === 'completed')
    const before = JSON.stringify(await jobOf(place, id))
    for (const pid of frozen) signal(pid, 'SIGCONT')
    await sleep(5000)
    if (JSON.stringify(await jobOf(place, id)) !== before) stale++
    expect(first.isUp(), 'the worker that was frozen ended')
    await second.kill()
    // It is good for work again.
    const { id: next } = await caller.upload(await picture(), 'scan.png')
    await until(trial, 'the first worker works again', async () => (await jobOf(place, next)).status === 'completed')
    expect((await first.stop()) === 0, 'the worker that was frozen does not stop well')
  }
  expect(stale === 0, `${stale} late writes were taken`)
  trial.notes.push(`late writes taken: ${stale}`)
  const told = await trial.conclude(`${rounds} frozen`, { patience: 20_000 })
  await server.kill()
  return told
}

interface JobRow {
  status: string
  worker: string | null
}

async function jobOf({ query }: Place, id: string | null): Promise<JobRow> {
  const [row] = await query<JobRow>(`select j.status, j.worker, j.fence, j.attempts, j.finished_at, d.revision, d.content, d.updated_at
    from documents d join jobs j on j.document_id = d.id where d.id = '${id}' and j.kind = 'ocr'`)
  return row ?? { status: 'none', worker: null }
}

async function until({ expect }: Trial, what: string, isTrue: () => Promise<boolean>): Promise<void> {
  for (const end = performance.now() + 60_000; performance.now() < end; await sleep(100)) if (await isTrue()) return
  expect(false, `not within a minute: ${what}`)
}
