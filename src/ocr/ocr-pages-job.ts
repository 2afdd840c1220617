/** OCR of pages. Each page is claimed, read and stored before the next, so that a crash costs one page. Helper jobs share the pages of long documents. */
import type { App } from '../app.ts'
import * as extraction from '../documents/extraction/result.ts'
import { warnIncomplete } from '../documents/extraction/warnings.ts'
import { withAddress } from '../documents/stored-files.ts'
import * as leases from '../jobs/leases.ts'
import type { Handler, Job } from '../jobs/queue.ts'
import { type FileToRead, maxWallFactor, ReadFailure } from '../ports/document-reader.ts'

/** A document whose file is open for a job. */
export interface DocumentToRead {
  readonly app: App
  readonly job: Job<'ocr' | 'extract' | 'pages'>
  readonly document: extraction.ReadableDocument
  readonly file: FileToRead
  readonly signal: AbortSignal
}

/** Calls `use` while the file of the document is open. */
export async function withOpenFile(context: Omit<DocumentToRead, 'file'>, use: (reading: DocumentToRead) => Promise<void>): Promise<void> {
  const { app, document } = context
  const { path, release } = await withAddress(app.db, document.sha256, (address) => app.files.openLocal(address))
  try {
    await use({ ...context, file: { path, filename: document.filename, mimeType: document.mime_type } })
  } finally {
    await release()
  }
}

/** Reads pages until none is free, and calls `onPage` after each. Records an unreadable page as failed and continues. */
export async function readPages({ app, job, document, file, signal }: DocumentToRead, onPage: () => Promise<void>): Promise<void> {
  // Longer than a page may take: a claim expires only if its worker died.
  const leaseMs = app.config.ocr.page_timeout * maxWallFactor * 2 + 10_000
  for (;;) {
    const claim = await extraction.claimPage(app.db, document.id, leaseMs)
    if (!claim) return
    const startMs = performance.now()
    try {
      const page = await app.reader.page(file, claim.page, job.payload.language, { signal })
      if (page.isIncomplete) await warnIncomplete(app.db, claim)
      await extraction.recordPage(app.db, claim, page, (performance.now() - startMs) / 1000)
    } catch (error) {
      if (!(error instanceof ReadFailure)) {
        await extraction.releasePage(app.db, claim)
        throw error
      }
      await extraction.failPage(app.db, claim, error.code, error.message)
    }
    await onPage()
  }
}

/** Handler of helper jobs: reads pages of a document until none is free. */
export const pages: Handler<'pages'> = {
  async run(app, job, signal) {
    const document = await extraction.findReadable(app.db, job.document_id ?? '')
    // In any other status the OCR job does not run: it has ended, or its claims were cleared.
    if (document?.status !== 'processing') return undefined
    await withOpenFile({ app, job, document, signal }, async (reading) => {
      const startMs = performance.now()
      await readPages(reading, async () => {
        const { done, total } = await extraction.publishProgress(app, document.id)
        await leases.setParentProgress(app.db, job, done, total)
        if (performance.now() - startMs >= app.config.ocr.turn && (await leases.shouldYield(app.db, job))) throw new leases.Yielded()
      })
    })
    return undefined
  },
}
