/** OCR page by page: each is claimed, read, and kept before the next, so that a crash costs one page. */
import type { App } from '../app.ts'
import * as reading from '../documents/extraction-result.ts'
import { type FileToRead, ReadFailure } from '../ports/document-reader.ts'

/** Reads pages of a document until none is free; `done` is told after each. A page that cannot be read is kept as failed, and the next is taken. */
export async function readPages(
  app: App,
  documentId: string,
  file: FileToRead,
  language: string,
  signal: AbortSignal,
  done: () => Promise<void>,
): Promise<void> {
  // A claim outlives the longest that a page may take, so that it only ends early when its holder died.
  const lease = app.config.ocr.page_timeout * 2 + 10_000
  for (let claim = await reading.claimPage(app.db, documentId, lease); claim; claim = await reading.claimPage(app.db, documentId, lease)) {
    const started = performance.now()
    try {
      const page = await app.reader.page(file, claim.page, language, { signal })
      await reading.recordPage(app.db, claim, page, (performance.now() - started) / 1000)
    } catch (error) {
      if (!(error instanceof ReadFailure)) {
        await reading.releasePage(app.db, claim)
        throw error
      }
      await reading.failPage(app.db, claim, error.code, error.message)
    }
    await done()
  }
}
