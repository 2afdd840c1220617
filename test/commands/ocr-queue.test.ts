import { describe, expect, test } from 'vitest'
import { formatAge } from '../../src/cli/arguments/flag-values.ts'
import { upload } from '../support/app.ts'
import { cliTransports, readBatch, startCli } from '../support/cli-transports.ts'
import { registerIdleWorker } from '../support/idle-worker.ts'
import { runHere } from '../support/processes/run-here.ts'

const nowhere = '01900000-0000-7000-8000-000000000000'

/** Starts a dms with two pending documents of ada. OCR of the second one fails. */
async function start(transport: (typeof cliTransports)[number]) {
  const started = await startCli(transport)
  const { asAda } = started
  const good = await upload(asAda, 'good.txt', 'fine')
  const bad = await upload(asAda, 'bad.pdf', '%PDF-1.7\nnot one')
  const jobOf = async (documentId: string) => {
    for await (const job of asAda.ocrQueue.list()) if (job.document_id === documentId) return job
    throw new Error('no job')
  }
  return {
    ...started,
    good,
    bad,
    jobOf,
    jobs: { good: await jobOf(good.id), bad: await jobOf(bad.id) },
  }
}

describe.each(cliTransports)('%s:', (transport) => {
  test('status: the default subcommand, as a line and as JSON; 3 above a limit', async () => {
    const { dms } = await start(transport)
    expect(await dms(['ocr', 'queue'])).toMatchObject({
      code: 0,
      stderr: '',
      stdout: expect.stringMatching(/^2\t0\t0\t0\t0\.0\t20\S+Z\tno\n$/),
    })
    const json = await dms(['ocr', 'queue', 'status', '--json', '--max-pending', '1'])
    expect(json.code).toBe(3)
    expect(JSON.parse(json.stdout)).toMatchObject({ pending: 2, processing: 0, failed: 0 })
    expect((await dms(['ocr', 'queue', '--max-pending', '2', '--max-failed', '0'])).code).toBe(0)
  })

  test('list: in the order of execution; filters by status, priority and age', async () => {
    const { dms, jobs, good } = await start(transport)
    const unset = { code: 2, stdout: '', stderr: expect.stringContaining('--status: no status given') }
    expect(await dms(['ocr', 'queue', 'list', '--status', '', '-o', 'id'])).toMatchObject(unset)
    const { code, stdout } = await dms(['ocr', 'queue', 'list', '-o', 'csv', '--limit', '1'])
    expect(code).toBe(0)
    const [head, row] = stdout.split('\n')
    expect(head).toBe('JOB,DOCUMENT,TITLE,STATUS,PRIORITY,ATTEMPTS,AGE,ERROR')
    expect(row?.split(',')).toEqual([jobs.good.id, good.id, 'good', 'pending', 'normal', '0', expect.stringMatching(/^\d+[sm]$/), ''])
    const ages = [59, 60, 7199, 172_799, 172_800].map((seconds) =>
      formatAge('2026-01-01T00:00:00Z', new Date(Date.UTC(2026, 0, 1, 0, 0, seconds))),
    )
    expect(ages).toEqual(['59s', '1m', '1h', '47h', '2d'])
    expect((await dms(['ocr', 'queue', 'ls', '-o', 'id'])).stdout).toBe(`${jobs.good.id}\n${jobs.bad.id}\n`)
    expect((await dms(['ocr', 'queue', 'list', '--priority', 'high', '--json'])).stdout).toBe('[]\n')
    expect((await dms(['ocr', 'queue', 'list', '--older-than', '1h', '--json'])).stdout).toBe('[]\n')
    expect((await dms(['ocr', 'queue', 'list', '--status', 'lost'])).code).toBe(2)
  })

  test('prioritise: changes pending jobs; 6 for an unknown job, 7 for one that is not pending', async () => {
    const { dms, jobs, jobOf, bad, runJobs } = await start(transport)
    const moved = await dms(['ocr', 'queue', 'prioritise', jobs.bad.id, '--priority', 'high', '-o', 'jsonl'])
    expect(moved.code).toBe(0)
    expect(readBatch(moved.stdout).items).toMatchObject([{ action: 'updated', id: jobs.bad.id, document_id: bad.id, priority: 'high' }])
    expect(await jobOf(bad.id)).toMatchObject({ priority: 'high' })
    expect((await dms(['ocr', 'queue', 'prioritize', nowhere, '--priority', 'low'])).code).toBe(6)
    await runJobs()
    expect((await dms(['ocr', 'queue', 'prioritise', jobs.good.id, '--priority', 'low'])).code).toBe(7)
  })

  test('cancel: given jobs without a question, all pending ones after one; retry --failed queues them again', async () => {
    const { dms, jobs, asAda, good, bad } = await start(transport)
    expect((await dms(['ocr', 'queue', 'cancel', jobs.good.id])).code).toBe(0)
    expect(await asAda.documents.get(good.id)).toMatchObject({ status: 'failed', error: { code: 'OCR_CANCELLED' } })
    expect((await dms(['ocr', 'queue', 'cancel', jobs.good.id])).code).toBe(7)
    expect(await dms(['ocr', 'queue', 'cancel', '--pending'])).toMatchObject({ code: 2, stderr: expect.stringContaining('pass --yes') })
    const dry = await dms(['ocr', 'queue', 'cancel', '--pending', '-n', '--json'])
    expect(JSON.parse(dry.stdout)).toMatchObject({ dry_run: true, items: [{ action: 'cancelled', id: jobs.bad.id }] })
    expect((await dms(['ocr', 'queue', 'cancel', '--pending', '-y'])).code).toBe(0)

    const back = JSON.parse((await dms(['ocr', 'queue', 'retry', '--failed', '--json'])).stdout)
    expect(back).toMatchObject({ queued: 2, failed: 0 })
    expect(back.items.map((item: { document_id: string }) => item.document_id).sort()).toEqual([good.id, bad.id].sort())
    expect(await asAda.documents.get(good.id)).toMatchObject({ status: 'pending', error: null })
  })

  test('retry: by job or document, with another language; 6 for unknown ids, 2 without any', async () => {
    const { dms, jobs, asAda, good, bad, runJobs } = await start(transport)
    await runJobs()
    const args = ['ocr', 'queue', 'retry', jobs.good.id, '--document', bad.id, '--language', 'deu', '--priority', 'high', '-o', 'jsonl']
    const { code, stdout } = await dms(args)
    expect(code).toBe(0)
    const { items } = readBatch(stdout)
    expect(items).toMatchObject([
      { action: 'queued', key: jobs.good.id, document_id: good.id },
      { action: 'queued', key: bad.id, document_id: bad.id },
    ])
    expect(await asAda.ocrQueue.get(String(items[0]?.id))).toMatchObject({ status: 'pending', language: 'deu', priority: 'high' })
    expect((await dms(['ocr', 'queue', 'retry', nowhere])).code).toBe(6)
    expect((await dms(['ocr', 'queue', 'retry', jobs.good.id, '--language', 'xxx'])).code).toBe(2)
  })

  test('wait: 8 after --timeout, 3 if a job failed meanwhile, 0 for an empty queue', async () => {
    const { dms, env, app, runJobs } = await start(transport)
    await registerIdleWorker(app)
    const late = await dms(['ocr', 'queue', 'wait', '--timeout', '1s'])
    expect(late).toMatchObject({ code: 8, stderr: expect.stringContaining('2 OCR jobs are unfinished') })
    await app.db.deleteFrom('workers').execute()
    const others = env.DMS_URL ? setTimeout(() => void runJobs(), 500) : undefined
    const read = await dms(['ocr', 'queue', 'wait', '--json'])
    clearTimeout(others)
    expect(read.code).toBe(3)
    expect(JSON.parse(read.stdout)).toMatchObject({ pending: 0, processing: 0, failed: 1, completed_today: 1 })
    expect((await dms(['ocr', 'queue', 'wait'])).code).toBe(0)
  })

  test('pause, resume and recover need an admin; wait warns about a paused queue', async () => {
    const { dms, app, admin, envOf, good } = await start(transport)
    expect(await dms(['ocr', 'queue', 'pause'])).toMatchObject({ code: 5, stdout: '' })
    const env = await envOf(admin)
    expect(JSON.parse((await dms(['ocr', 'queue', 'pause', '--json'], { env })).stdout)).toMatchObject({ paused: true, pending: 2 })
    await registerIdleWorker(app)
    const late = await dms(['ocr', 'queue', 'wait', '--timeout', '1s'])
    expect(late).toMatchObject({ code: 8, stderr: expect.stringContaining('is paused') })
    expect((await dms(['ocr', 'queue', 'resume', '--fields', 'paused'], { env })).stdout).toBe('no\n')
    await app.db.deleteFrom('jobs').where('document_id', '=', good.id).execute()
    const { items, summary } = readBatch((await dms(['ocr', 'queue', 'recover', '-o', 'jsonl'], { env })).stdout)
    expect(items).toEqual([{ type: 'item', action: 'queued', key: good.id, id: expect.any(String), document_id: good.id }])
    expect(summary).toMatchObject({ command: 'ocr queue recover', total: 1, exit_code: 0 })
  })
})

test.each([
  [['ocr', 'queue', 'bogus']],
  [['ocr', 'queue', 'retry']],
  [['ocr', 'queue', 'cancel']],
  [['ocr', 'queue', 'prioritise', nowhere]],
  [['ocr', 'queue', 'prioritise', nowhere, '--priority', 'soon']],
  [['ocr', 'queue', 'status', '--max-failed', 'x']],
  [['ocr', 'queue', 'status', '--watch', 'often']],
])('2 for %j', async (args) => {
  expect(await runHere(args, { env: { DMS_URL: 'http://127.0.0.1:9' } })).toMatchObject({ code: 2, stdout: '' })
})
