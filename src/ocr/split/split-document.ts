/** Splits the file of a document into documents when it is read for the first time. */
import type { Trx } from '../../db/pool.ts'
import { recordParts, recordUnsplit } from '../../documents/splits.ts'
import * as holds from '../../holds/holds.ts'
import { type Outline, type PageMark, ReadFailure } from '../../ports/document-reader.ts'
import type { StagedFile } from '../../ports/file-store.ts'
import { slicesOf } from '../../slices.ts'
import type { DocumentToRead } from '../ocr-pages-job.ts'
import { type PlannedPart, planParts } from './plan-parts.ts'

/** Pages whose marks one request to the reader returns. */
const pagesPerRequest = 10
/** Maximum number of parts of a file. */
const maxParts = 500

/**
 * Splits a document at the marks of its pages if its upload or source requires it. Returns whether it was split. `commit` runs a transaction under
 * the lease of the job, which creates all parts at once. A file that cannot be split stays whole, with a warning.
 */
export async function splitDocument(
  reading: DocumentToRead,
  outline: Outline,
  commit: (work: (trx: Trx) => Promise<void>) => Promise<void>,
): Promise<boolean> {
  const { app, document, job } = reading
  const { split: mode } = document
  if (mode === null) return false
  const staged: StagedFile[] = []
  try {
    const parts = planParts(await readMarks(reading, outline, { withBarcodes: mode === 'barcode' }), mode)
    if (parts.length > maxParts)
      throw new ReadFailure('FILE_TOO_COMPLEX', `It would become ${parts.length} documents; ${maxParts} are allowed.`)
    if (parts.length < 2) {
      await commit((trx) => recordUnsplit(app, trx, document.id, parts[0]?.serialNumber ?? null, null))
      return false
    }
    for (const part of parts) staged.push(await stagePart(reading, part))
    const stagedParts = parts.map(({ serialNumber }, index) => ({ serialNumber, staged: staged[index] as StagedFile }))
    await commit(async (trx) => holds.inherit(app, trx, document.id, await recordParts(app, trx, document.id, stagedParts)))
    for (const file of staged) await file.confirm()
    return true
  } catch (error) {
    if (!(error instanceof ReadFailure) || (error.isRetryable && job.attempts < job.max_attempts)) throw error
    const warning = { code: 'not_split', message: `The file was not split: ${error.message}` }
    await commit((trx) => recordUnsplit(app, trx, document.id, null, warning))
    return false
  } finally {
    for (const file of staged) await file.discard()
  }
}

async function readMarks(
  { app, file, signal }: DocumentToRead,
  { pages, metadata }: Outline,
  { withBarcodes }: { withBarcodes: boolean },
): Promise<PageMark[]> {
  // Attached files follow the pages of the file itself. Those of a TIFF beyond the limit are not listed.
  const count = Number(metadata.page_count)
  const numbers = pages.map(({ page }) => page).filter((page) => page <= count)
  const max = app.config.ocr.max_pages
  if (count > max) throw new ReadFailure('FILE_TOO_COMPLEX', `It has ${count} pages; ocr.max_pages is ${max}.`)
  const marks: PageMark[] = []
  for (const some of slicesOf(numbers, pagesPerRequest)) marks.push(...(await app.reader.marks(file, some, { withBarcodes, signal })))
  return marks
}

/** Copies the pages of a part to a staged file. The memory of the reader limits its size. */
const stagePart = ({ app, file, signal }: DocumentToRead, { pages }: PlannedPart): Promise<StagedFile> =>
  app.reader.copyPages(file, pages, (bytes) => app.files.stage(bytes, Number.MAX_SAFE_INTEGER), { signal })
