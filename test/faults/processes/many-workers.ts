/** F06: one, two and four workers share an equal number of jobs. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Fault, type FaultContext, type FaultResult, openFaultRun } from '../fault.ts'
import type { Installation, RunningProcess } from '../installation.ts'
import { fakeTesseract, picture } from './tesseract.ts'

/** minimum ratio of two workers to one, for jobs that mostly wait for tesseract */
const leastSpeedUp = 1.3
const uploadsAtOnce = 10

export const manyWorkers: Fault = { id: 'F06', name: 'one, two and four workers on the same number of jobs', isExclusive: true, run }

async function run({ installation, isShort }: FaultContext): Promise<FaultResult> {
  const jobs = isShort ? 12 : 500
  const tesseract = await fakeTesseract(installation.folder)
  await tesseract.behave('takes a moment')
  const env = { ...tesseract.env, DMS_WORKER_CONCURRENCY: '1' }
  const server = await installation.start({ env: { ...env, DMS_WORKER_EMBEDDED: 'false' } })
  const faultRun = await openFaultRun(installation)
  const { caller, expect, notes } = faultRun
  const rates: number[] = []
  const counts = isShort ? [1, 2] : [1, 2, 4]
  for (const count of counts) {
    const ids: string[] = []
    const toldBefore = await countTold(installation)
    const uploadOne = async (at: number) => (await caller.upload(await picture(), `${count}-${at}.png`)).id ?? ''
    while (ids.length < jobs)
      ids.push(
        ...(await Promise.all(Array.from({ length: Math.min(uploadsAtOnce, jobs - ids.length) }, (_, at) => uploadOne(ids.length + at)))),
      )
    const list = ids.map((id) => `'${id}'`).join()
    const done = async () =>
      (
        await installation.query<{ count: number; seconds: number }>(`select count(*)::int as count,
          extract(epoch from max(finished_at) - min(started_at))::float as seconds
          from jobs where document_id in (${list}) and kind = 'ocr' and status = 'completed'`)
      )[0]
    const workers: RunningProcess[] = await Promise.all(Array.from({ length: count }, () => installation.startWorker({ env })))
    for (const end = performance.now() + 600_000; ((await done())?.count ?? 0) < jobs && performance.now() < end; ) await sleep(200)
    const { count: completed = 0, seconds = 0 } = (await done()) ?? {}
    expect(completed === jobs, `${count} workers: ${completed} of ${jobs} jobs are done`)
    rates.push(completed / seconds)
    const mismatches = await installation.query<{ id: string }>(
      `select id from jobs where document_id in (${list}) and kind = 'ocr' and attempts <> 1`,
    )
    expect(mismatches.length === 0, `${count} workers: ${mismatches.length} jobs were begun more than once`)
    const result = (await countTold(installation)) - toldBefore
    expect(result === jobs, `${count} workers: notifications of ${result} of ${jobs} jobs`)
    for (const worker of workers) expect((await worker.stop()) === 0, `${count} workers: one does not stop well`)
  }
  const [one = 0, two = 0, four] = rates
  // A few jobs do not show the speed.
  if (!isShort) expect(two / one >= leastSpeedUp, `two workers do ${(two / one).toFixed(2)} times as much as one`)
  const ratios = [two / one, ...(four === undefined ? [] : [four / one])].map((ratio) => ratio.toFixed(2))
  notes.push(`${one.toFixed(1)} jobs/s with one worker; ${counts.slice(1).join(' and ')} workers: ${ratios.join(' and ')} times as many`)
  await server.kill()
  const last = await installation.start()
  const result = await faultRun.finish(`${jobs * counts.length} jobs, ${counts.join(', ')} workers`)
  await last.kill()
  return result
}

/** Returns the number of jobs with a notification. Jobs of one batch share a notification with a count. */
async function countTold(installation: Installation): Promise<number> {
  const [row] = await installation.query<{ count: number }>(
    `select coalesce(sum(coalesce((data ->> 'count')::int, 1)), 0)::int as count from notifications where type = 'ocr_completed'`,
  )
  return row?.count ?? 0
}
