/** The job that helps another one: it takes pages of a long document until none is left. */

import * as reading from '../documents/extraction-result.ts'
import { withAddress } from '../documents/stored-files.ts'
import * as claims from '../jobs/leases.ts'
import type { Handler } from '../jobs/queue.ts'
import { readPages } from './ocr-pages.ts'

export const pages: Handler<'pages'> = {
  async run(app, job, signal) {
    const document = await reading.findReadable(app.db, job.document_id ?? '')
    // Anything but `processing` means that the reader itself is not at it: its claims are void, or it is done.
    if (document?.status !== 'processing') return undefined
    const { path, release } = await withAddress(app.db, document.sha256, (address) => app.files.openLocal(address))
    try {
      const file = { path, filename: document.filename, mimeType: document.mime_type }
      const started = performance.now()
      await readPages(app, document.id, file, job.payload.language, signal, async () => {
        const { done, total } = await reading.publishProgress(app, document)
        await claims.setParentProgress(app.db, job, done, total)
        if (performance.now() - started >= app.config.ocr.turn && (await claims.shouldYield(app.db, job))) throw new claims.Yielded()
      })
    } finally {
      await release()
    }
    return undefined
  },
}
