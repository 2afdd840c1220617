/** Extracts small texts and files of unknown type in groups. Reading one takes a millisecond, and a separate transaction ten times as long. */
import type { App } from '../app.ts'
import { mapConcurrently } from '../concurrency.ts'
import { isSmallFile, lockDocuments, recordTexts, type SmallFile, startTexts } from '../documents/extraction/group.ts'
import { completeGroup, leaseGroup } from '../jobs/groups.ts'
import type { GroupHandler } from '../jobs/queue.ts'
import { type FileToRead, type Outline, ReadFailure } from '../ports/document-reader.ts'
import { nullIfNotStored } from '../ports/file-store.ts'
import { slicesOf } from '../slices.ts'
import { notifyCompleted } from './notify-owner.ts'

/** Files that a reader process gets with one message. A message and its answer take as long as reading a text. */
const filesPerMessage = 16

export const smallFiles = <K extends 'ocr' | 'extract'>(): GroupHandler<K> => ({
  lease: (app, job, lease) => leaseGroup(app.db, job, isSmallFile, lease),

  async run(app, jobs, signal) {
    const ids = jobs.flatMap(({ document_id }) => document_id ?? [])
    const started = await app.db.transaction().execute((trx) => startTexts(trx, ids))
    const outlines = await readOutlines(app, started, signal)
    const read = jobs.flatMap((job) => {
      const outline = outlines.get(job.document_id ?? '')
      return outline ? [{ job, outline, pages: outline.pages.length }] : []
    })
    if (read.length === 0) return new Map()
    return app.db.transaction().execute(async (trx) => {
      const documents = new Map((await lockDocuments(trx, [...outlines.keys()])).map((document) => [document.id, document]))
      const completed = await completeGroup(trx, read)
      const texts = read.flatMap(({ job, outline, pages }) => {
        const document = documents.get(job.document_id ?? '')
        return document && completed.has(job.id) ? [{ job, document, outline, pages }] : []
      })
      if (texts.length > 0) await recordTexts(app, trx, texts)
      const toNotify = texts.filter(({ job }) => job.kind === 'ocr').map(({ document }) => document)
      await notifyCompleted(app, trx, toNotify)
      return new Map(texts.map(({ job, pages }) => [job.id, { language: job.payload.language, pages }]))
    })
  },
})

/** Reads the files. Leaves out files that are unreadable or need OCR or another program. The job reads them alone, with their errors. */
async function readOutlines(app: App, files: readonly SmallFile[], signal: AbortSignal): Promise<Map<string, Outline>> {
  const outlines = new Map<string, Outline>()
  // Two at a time: while one is being read, the next one is opened.
  await mapConcurrently(slicesOf(files, filesPerMessage), 2, async (batch) => {
    const opened: { id: string; file: FileToRead; release(): Promise<void> }[] = []
    try {
      for (const { id, filename, mime_type, address } of batch) {
        const local = await app.files.openLocal(address).catch(nullIfNotStored)
        if (local) opened.push({ id, file: { path: local.path, filename, mimeType: mime_type }, release: local.release })
      }
      const read = await app.reader.outlines(
        opened.map(({ file }) => file),
        { signal },
      )
      for (const [index, outline] of read.entries())
        if (outline && !outline.missingPackage && !outline.pages.some(({ needsOcr }) => needsOcr)) outlines.set(opened[index]!.id, outline)
    } catch (error) {
      if (!(error instanceof ReadFailure)) throw error
    } finally {
      await Promise.all(opened.map(({ release }) => release()))
    }
  })
  return outlines
}
