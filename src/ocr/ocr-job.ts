/** The job that reads a document: outline first, then the pages that need OCR, one after the other and shared with helpers. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { App } from '../app.ts'
import type { Trx } from '../db/pool.ts'
import * as reading from '../documents/extraction-result.ts'
import { withAddress } from '../documents/stored-files.ts'
import * as claims from '../jobs/leases.ts'
import type { Handler, Job } from '../jobs/queue.ts'
import * as jobs from '../jobs/queue.ts'
import type { FileToRead } from '../ports/document-reader.ts'
import { ReadFailure, type ReadFailureCode } from '../ports/document-reader.ts'
import { tellOwner } from './notify-owner.ts'
import { readPages } from './ocr-pages.ts'

/** More helpers than this do not make one document faster: the cores are elsewhere needed too. */
const maxHelpers = 16

/** Reads with OCR where pages need it. */
export const ocr: Handler<'ocr'> = { run: (app, job, signal) => read(app, job, signal, true), failed, released }

/** Reads only what the file itself carries. */
export const extract: Handler<'extract'> = { run: (app, job, signal) => read(app, job, signal, false), failed, released }

async function read(
  app: App,
  job: Job<'ocr' | 'extract'>,
  signal: AbortSignal,
  withOcr: boolean,
): Promise<((trx: Trx) => Promise<jobs.LogFields>) | undefined> {
  const document = await reading.findReadable(app.db, job.document_id ?? '')
  if (!document) return undefined
  await fenced(app, job, (trx) => reading.startExtraction(app, trx, document))
  const { path, release } = await withAddress(app.db, document.sha256, (address) => app.files.openLocal(address))
  try {
    const file = { path, filename: document.filename, mimeType: document.mime_type }
    if (!(await reading.hasOutline(app.db, document.id))) await takeOutline(app, job, document.id, file, signal, withOcr)
    await readRest(app, job, document, file, signal)
  } finally {
    await release()
  }
  return async (trx) => {
    const { pages, confidence } = await reading.finishExtraction(app, trx, document.id, null)
    await tellOwner(app, trx, job, null)
    return { language: job.payload.language, pages, ...(confidence === null ? {} : { confidence: Number(confidence.toFixed(3)) }) }
  }
}

async function takeOutline(app: App, job: Job, id: string, file: FileToRead, signal: AbortSignal, withOcr: boolean): Promise<void> {
  const outline = await app.reader.outline(file, { signal })
  await fenced(app, job, (trx) => reading.recordOutline(app, trx, id, outline, withOcr && app.ocr !== null))
}

async function readRest(
  app: App,
  job: Job<'ocr' | 'extract'>,
  document: reading.ReadableDocument,
  file: FileToRead,
  signal: AbortSignal,
): Promise<void> {
  const { free } = await reading.countPages(app.db, document.id)
  if (free === 0) return
  await callHelpers(app, job, document.id, free)
  const tell = () => tellProgress(app, job, document)
  await tell()
  const started = performance.now()
  const done = async () => {
    await tell()
    if (performance.now() - started < app.config.ocr.turn || !(await claims.shouldYield(app.db, job))) return
    if ((await reading.countPages(app.db, document.id)).free > 0) throw new claims.Yielded()
  }
  await readPages(app, document.id, file, job.payload.language, signal, done)
  await othersDone(app, job, document, file, signal, tell, done)
  const failed = await reading.findFailedPage(app.db, document.id)
  if (failed)
    throw new ReadFailure(
      failed.error_code as ReadFailureCode,
      `Page ${failed.page}: ${failed.error_message}`,
      failed.error_code === 'READ_CRASHED',
    )
}

/** Other slots, here and on other hosts, can take pages too; whoever comes late finds none and goes. */
async function callHelpers(app: App, job: Job<'ocr' | 'extract'>, documentId: string, pages: number): Promise<void> {
  const helpers = Math.min(maxHelpers, pages - 1)
  const options = { documentId, parentId: job.id, priority: jobs.priorityName(job.priority), runAt: job.created_at, maxAttempts: 1 }
  await fenced(app, job, async (trx) => {
    for (let helper = 0; helper < helpers; helper++)
      await jobs.enqueue(trx, 'pages', { language: job.payload.language }, { ...options, dedupeKey: `pages:${job.id}:${helper}` })
  })
}

/** Waits for pages that helpers still have, and takes over those of helpers that fell silent. */
async function othersDone(
  app: App,
  job: Job<'ocr' | 'extract'>,
  document: reading.ReadableDocument,
  file: FileToRead,
  signal: AbortSignal,
  tell: () => Promise<void>,
  done: () => Promise<void>,
): Promise<void> {
  for (;;) {
    const { free, claimed } = await reading.countPages(app.db, document.id)
    if (free > 0) await readPages(app, document.id, file, job.payload.language, signal, done)
    else if (claimed === 0) return tell()
    // A helper that was lost, with its worker or its claim, leaves pages that look taken.
    else if (!(await claims.hasRunningHelpers(app.db, job))) await reading.releaseAllPages(app.db, document.id)
    else await sleep(100, undefined, { signal })
  }
}

async function tellProgress(app: App, job: Job, document: reading.ReadableDocument): Promise<void> {
  const { done, total } = await reading.publishProgress(app, document)
  await claims.setProgress(app.db, job, done, total)
}

/** A transaction that counts only while the job is ours. */
async function fenced(app: App, job: Job, work: (trx: Trx) => Promise<void>): Promise<void> {
  await app.db.transaction().execute(async (trx) => {
    await claims.lockLease(trx, job, app.config.worker.lease)
    await work(trx)
  })
}

async function failed(app: App, trx: Trx, job: Job<'ocr' | 'extract'>, problem: jobs.JobProblem, final: boolean): Promise<void> {
  const id = job.document_id ?? ''
  if (!final) return reading.resetToPending(app, trx, id)
  await reading.finishExtraction(app, trx, id, problem)
  await tellOwner(app, trx, job, problem)
}

async function released(app: App, trx: Trx, job: Job<'ocr' | 'extract'>): Promise<void> {
  await reading.resetToPending(app, trx, job.document_id ?? '')
}
