/** Renditions through the API: from the request to the file, its end, and who sees it. */
import { hash } from 'node:crypto'
import { Readable } from 'node:stream'
import { PDFDocument } from '@cantoo/pdf-lib'
import { sql } from 'kysely'
import sharp from 'sharp'
import { expect, test } from 'vitest'
import type { Client } from '../../../src/client/client.ts'
import { ReadFailure } from '../../../src/ports/document-reader.ts'
import { startWorker } from '../../../src/worker/worker.ts'
import { startApp, upload } from '../../support/app.ts'
import { fakeReader } from '../../support/fake-reader.ts'
import { storeFiles } from '../../support/servers/server.ts'

type App = Awaited<ReturnType<typeof startApp>>['app']

const picture = (colour: string): Promise<Uint8Array> =>
  sharp({ create: { width: 60, height: 40, channels: 3, background: colour } })
    .png()
    .toBuffer()

const failure = (work: Promise<unknown>) =>
  work.then(
    () => 'nothing',
    ({ status, code }: { status: number; code: string }) => `${status} ${code}`,
  )
const statesOf = async (client: Client, id: string) =>
  (await client.documents.renditions(id)).map(({ number, state }) => `${number} ${state}`)

/** Runs the jobs of the queue `ocr` with a reader that finds no words. `pdfa` replaces its conversion. */
async function work(app: App, pdfa = fakeReader(1).pdfa) {
  const worker = await startWorker({ ...app, reader: { ...fakeReader(1), pdfa } }, { queues: ['ocr'], concurrency: 1, name: 'here/1' })
  await worker.idle()
  await worker.stop(60_000)
}

test('202 POST, 202 download with Retry-After, then the PDF under its own name; 200 POST for an existing one', async () => {
  const { app, asAda, runJobs } = await startApp({ 'ocr.engine': 'tesseract-js' })
  const { id } = await upload(asAda, 'scan.png', await picture('red'), { title: 'Red & blue', ocr_enabled: false })
  await runJobs()
  expect(await failure(asAda.documents.download(id, { rendition: 'pdfa' }))).toBe('404 RENDITION_NOT_FOUND')
  expect(await asAda.documents.makeRendition(id, 'pdfa')).toMatchObject({ document_id: id, number: 1, state: 'pending', sha256: null })
  const waiting = await asAda.documents.download(id, { rendition: 'pdfa' })
  expect([waiting.status, waiting.headers.get('retry-after')]).toEqual([202, '5'])
  await runJobs()
  const answer = await asAda.documents.download(id, { rendition: 'pdfa' })
  expect(answer.headers.get('content-disposition')).toContain('scan.pdf')
  expect(answer.headers.get('content-type')).toBe('application/pdf')
  const pdf = await PDFDocument.load(await answer.arrayBuffer(), { updateMetadata: false })
  expect([pdf.getPageCount(), pdf.getTitle()]).toEqual([1, 'Red & blue'])
  const again = await asAda.send('POST', `/api/documents/${id}/renditions`, { kind: 'pdfa' })
  expect([again.status, ((await again.json()) as { state: string }).state]).toEqual([200, 'completed'])
  const { rows } = await sql<{
    type: string
  }>`select data ->> 'state' as type from events where type = 'rendition_updated' order by at`.execute(app.db)
  expect(rows.map(({ type }) => type)).toEqual(['pending', 'completed'])
})

test('409 RENDITION_UNAVAILABLE with the reason for a file without pages; another request tries again', async () => {
  const { asAda, runJobs } = await startApp()
  const { id } = await upload(asAda, 'note.txt', 'a note')
  await asAda.documents.makeRendition(id, 'pdfa')
  await runJobs()
  const [refused] = await asAda.documents.renditions(id)
  expect(refused).toMatchObject({ state: 'refused', error_code: 'NOT_CONVERTIBLE', error_message: expect.stringContaining('text/plain') })
  expect(await failure(asAda.documents.download(id, { rendition: 'pdfa' }))).toBe('409 RENDITION_UNAVAILABLE')
  expect((await asAda.documents.makeRendition(id, 'pdfa')).state).toBe('pending')
})

test('failed after the last attempt of a reader that crashes; nothing stays in the store', async () => {
  const { app, asAda, later } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await work(app)
  const before = (await storeFiles(app.config.data_dir)).named.length
  await asAda.documents.makeRendition(id, 'pdfa')
  for (let attempt = 1; attempt <= 3; attempt++) {
    expect(await statesOf(asAda, id)).toEqual(['1 pending'])
    await work(app, async () => {
      throw new ReadFailure('READ_CRASHED', undefined, { isRetryable: true })
    })
    await later(3_600_000)
  }
  expect(await statesOf(asAda, id)).toEqual(['1 failed'])
  expect((await storeFiles(app.config.data_dir)).named.length).toBe(before)
})

test('a conversion that loses its lease stores nothing', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await work(app)
  const before = (await storeFiles(app.config.data_dir)).named.length
  await asAda.documents.makeRendition(id, 'pdfa')
  await work(app, async (...args) => {
    await asAda.documents.delete(id)
    return fakeReader(1).pdfa(...args)
  })
  expect(await statesOf(asAda, id)).toEqual(['1 pending'])
  expect((await storeFiles(app.config.data_dir)).named.length).toBe(before)
})

test('a rendition that was requested before the trash is made after it; a refused one is not repeated', async () => {
  const { app, asAda, runJobs } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const { id: note } = await upload(asAda, 'note.txt', 'a note')
  await asAda.documents.makeRendition(note, 'pdfa')
  await runJobs()
  await asAda.documents.makeRendition(id, 'pdfa')
  for (const each of [id, note]) await asAda.documents.delete(each)
  await work(app)
  for (const each of [id, note]) await asAda.documents.undelete(each)
  expect([await statesOf(asAda, id), await statesOf(asAda, note)]).toEqual([['1 pending'], ['1 refused']])
  await work(app)
  expect(await statesOf(asAda, id)).toEqual(['1 completed'])
})

test('documents.pdfa = "always": a version whose rendition was not made before it was replaced gets it when it is restored', async () => {
  const { app, asAda } = await startApp({ 'documents.pdfa': 'always' })
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await work(app, async () => {
    throw new ReadFailure('READ_CRASHED', undefined, { isRetryable: true })
  })
  await asAda.documents.replace(id, { filename: 'a.pdf', size: 8, open: () => [Buffer.from('%PDF-1.5')] })
  await work(app)
  await asAda.documents.restore(id, 1)
  expect(await statesOf(asAda, id)).toEqual(['3 pending', '2 completed'])
  await work(app)
  expect(await statesOf(asAda, id)).toEqual(['3 completed', '2 completed'])
})

test('documents.pdfa = "ocr": created after OCR; another OCR replaces it and purges the old file', async () => {
  const { app, asAda, runJobs } = await startApp({ 'documents.pdfa': 'ocr' })
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  const { id: note } = await upload(asAda, 'b.pdf', '%PDF-1.5', { ocr_enabled: false })
  await work(app)
  expect([await statesOf(asAda, id), await statesOf(asAda, note)]).toEqual([['1 completed'], []])
  await asAda.documents.retryOcr(id)
  expect(await statesOf(asAda, id)).toEqual(['1 pending'])
  await work(app, (_file, _texts, _info, use) =>
    use(
      (async function* () {
        yield Buffer.from('%PDF-1.7 again')
      })(),
    ),
  )
  await runJobs()
  expect(await (await asAda.documents.download(id, { rendition: 'pdfa' })).text()).toBe('%PDF-1.7 again')
  expect((await storeFiles(app.config.data_dir)).named).toHaveLength(3)
})

test('a requested rendition waits for OCR that is repeated before it is made', async () => {
  const { app, asAda } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await work(app)
  await asAda.documents.makeRendition(id, 'pdfa')
  await asAda.documents.retryOcr(id)
  const jobs = () => app.db.selectFrom('jobs').select('kind').where('document_id', '=', id).where('status', '=', 'pending').execute()
  expect((await jobs()).map(({ kind }) => kind).filter((kind) => kind !== 'index')).toEqual(['ocr'])
  await work(app)
  expect(await statesOf(asAda, id)).toEqual(['1 completed'])
})

test('each version has its own; a restored version has that of its source; purged with the document', async () => {
  const { app, asAda, runJobs } = await startApp({ 'documents.pdfa': 'always' })
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await work(app)
  await asAda.documents.replace(id, { filename: 'a.pdf', size: 8, open: () => [Buffer.from('%PDF-1.5')] })
  expect(await failure(asAda.documents.download(id, { rendition: 'pdfa' }))).toBe('404 RENDITION_NOT_FOUND')
  await work(app)
  await asAda.documents.restore(id, 1)
  expect(await statesOf(asAda, id)).toEqual(['3 completed', '2 completed', '1 completed'])
  await asAda.documents.deleteVersion(id, 1)
  await runJobs()
  expect((await storeFiles(app.config.data_dir)).named).toHaveLength(3)
  expect(await (await asAda.documents.download(id, { rendition: 'pdfa' })).text()).toBe('%PDF-1.7')
  await asAda.documents.delete(id, { permanent: true })
  await runJobs()
  expect((await storeFiles(app.config.data_dir)).named).toEqual([])
})

test('204 DELETE of a version purges its file and its rendition', async () => {
  const { app, asAda, runJobs } = await startApp({ 'documents.pdfa': 'always' })
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await work(app, (_file, _texts, _info, use) => use(Readable.from([Buffer.from('%PDF-1.7 first')])))
  await asAda.documents.replace(id, { filename: 'a.pdf', size: 8, open: () => [Buffer.from('%PDF-1.5')] })
  await work(app)
  expect((await storeFiles(app.config.data_dir)).named).toHaveLength(4)
  await asAda.documents.deleteVersion(id, 1)
  await runJobs()
  expect((await storeFiles(app.config.data_dir)).named).toEqual(['%PDF-1.5', '%PDF-1.7'].map((bytes) => hash('sha256', bytes)).sort())
})

test('404 for documents of others; renditions make --missing requests those of documents without one', async () => {
  const { app, asAda, asBob } = await startApp()
  const { id } = await upload(asAda, 'a.pdf', '%PDF-1.4')
  await upload(asAda, 'b.pdf', '%PDF-1.5')
  expect(await failure(asBob.documents.makeRendition(id, 'pdfa'))).toBe('404 DOCUMENT_NOT_FOUND')
  expect(await failure(asBob.documents.renditions(id))).toBe('404 DOCUMENT_NOT_FOUND')
  expect(await asBob.renditions.makeMissing('pdfa')).toEqual({ queued: 0 })
  expect(await asAda.renditions.status()).toMatchObject([{ missing: 2 }])
  expect(await asAda.renditions.makeMissing('pdfa')).toEqual({ queued: 2 })
  await work(app)
  expect(await asAda.renditions.status()).toEqual([{ kind: 'pdfa', pending: 0, completed: 2, failed: 0, refused: 0, missing: 0 }])
  expect(await asBob.renditions.status()).toMatchObject([{ completed: 0 }])
})
