/** Jobs that extract the text of a document: first the outline, then page by page the pages that need OCR, shared with helper jobs. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import * as extraction from '../documents/extraction/result.ts'
import * as leases from '../jobs/leases.ts'
import type { Handler, Job, JobFailure, JobProblem } from '../jobs/queue.ts'
import * as jobs from '../jobs/queue.ts'
import { ReadFailure, type ReadFailureCode } from '../ports/document-reader.ts'
import { notifyCompleted, notifyFailed } from './notify-owner.ts'
import { type DocumentToRead, readPages, withOpenFile } from './ocr-pages-job.ts'
import { smallFiles } from './small-files.ts'
import { splitDocument } from './split/split-document.ts'

type ExtractionJob = Job<'ocr' | 'extract'>

/** Maximum number of helper jobs of a document. More would not make it faster. */
const maxHelpers = 16
const helperPollMs = 100

/** Extracts the text layer, and recognizes the pages without one. */
export const ocr: Handler<'ocr'> = {
  run: (app, job, signal) => run(app, job, signal, { withOcr: app.ocr !== null }),
  failed,
  released,
  group: smallFiles(),
}

/** Extracts the text layer only. */
export const extract: Handler<'extract'> = {
  run: (app, job, signal) => run(app, job, signal, { withOcr: false }),
  failed,
  released,
  group: smallFiles(),
}

async function run(
  app: App,
  job: ExtractionJob,
  signal: AbortSignal,
  { withOcr }: { withOcr: boolean },
): Promise<((trx: Trx) => Promise<jobs.LogFields>) | undefined> {
  const document = await extraction.findReadable(app.db, job.document_id ?? '')
  if (!document) return undefined
  await withLease(app, job, (trx) => extraction.startExtraction(app, trx, document))
  await withOpenFile({ app, job, document, signal }, async (reading) => {
    if (!(await extraction.hasOutline(app.db, document.id))) {
      const outline = await app.reader.outline(reading.file, { signal })
      const isSplit = await splitDocument(reading, outline, (work) => withLease(app, job, work))
      const options = { withOcr: withOcr && document.ocr_enabled && !isSplit }
      await withLease(app, job, (trx) => extraction.recordOutline(app, trx, document.id, outline, options))
    }
    await readAllPages(reading, job)
  })
  return async (trx) => {
    const { pages, confidence } = await extraction.finishExtraction(app, trx, document.id, null)
    await notifyOwner(app, trx, job, null)
    return { language: job.payload.language, pages, ...(confidence === null ? {} : { confidence: Number(confidence.toFixed(3)) }) }
  }
}

/** Reads the remaining pages and waits for the pages of helpers. Throws ReadFailure if a page failed. */
async function readAllPages(reading: DocumentToRead, job: ExtractionJob): Promise<void> {
  const { app, document, signal } = reading
  const count = () => extraction.countPages(app.db, document.id)
  const { free } = await count()
  if (free === 0) return
  // A page that kills its worker must not kill the workers of helpers too.
  if (job.losses === 0) await enqueueHelpers(app, job, document.id, Math.min(maxHelpers, free - 1))
  const reportProgress = async () => {
    const { done, total } = await extraction.publishProgress(app, document.id)
    await leases.setProgress(app.db, job, done, total)
  }
  const startMs = performance.now()
  const onPage = async () => {
    await reportProgress()
    if (performance.now() - startMs < app.config.ocr.turn || !(await leases.shouldYield(app.db, job))) return
    if ((await count()).free > 0) throw new leases.Yielded()
  }
  await reportProgress()
  for (;;) {
    await readPages(reading, onPage)
    const { free, claimed } = await count()
    if (free > 0) continue
    if (claimed === 0) break
    if (await leases.hasRunningHelpers(app.db, job)) await sleep(helperPollMs, undefined, { signal })
    // The helpers of these pages have died or lost their leases.
    else await extraction.releaseAllPages(app.db, document.id)
  }
  await reportProgress()
  const failed = await extraction.findFailedPage(app.db, document.id)
  if (!failed) return
  const code = failed.error_code as ReadFailureCode
  throw new ReadFailure(code, `Page ${failed.page}: ${failed.error_message}`, { isRetryable: code === 'READ_CRASHED' })
}

/** Enqueues helper jobs, which other slots and hosts can run. A helper that starts too late finds no free page and ends. */
async function enqueueHelpers(app: App, job: ExtractionJob, documentId: string, count: number): Promise<void> {
  const options = { documentId, parentId: job.id, priority: jobs.priorityName(job.priority), runAt: job.created_at, maxAttempts: 1 }
  await withLease(app, job, async (trx) => {
    for (let helper = 0; helper < count; helper++)
      await jobs.enqueue(trx, 'pages', { language: job.payload.language }, { ...options, dedupeKey: `pages:${job.id}:${helper}` })
  })
}

/** Runs a transaction that commits only while the job holds its lease. Throws LeaseLost. */
async function withLease(app: App, job: Job, work: (trx: Trx) => Promise<void>): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    await leases.lockLease(trx, job, app.config.worker.lease)
    await work(trx)
  })
}

async function failed(app: App, trx: Trx, job: ExtractionJob, failure: JobFailure): Promise<void> {
  const id = job.document_id ?? ''
  if (!failure.isFinal) return extraction.resetToPending(app, trx, id)
  await extraction.finishExtraction(app, trx, id, failure)
  await notifyOwner(app, trx, job, failure)
}

async function released(app: App, trx: Trx, job: ExtractionJob): Promise<void> {
  await extraction.resetToPending(app, trx, job.document_id ?? '')
}

/** Notifies the owner of the final result of OCR; `problem` null: success. Jobs without OCR notify nobody. */
async function notifyOwner(app: App, trx: Trx, job: ExtractionJob, problem: JobProblem | null): Promise<void> {
  if (job.kind !== 'ocr') return
  const document = await extraction.findReadable(trx, job.document_id ?? '')
  if (!document) return
  if (problem === null) await notifyCompleted(app, trx, [document])
  else await notifyFailed(app, trx, document, problem)
}
