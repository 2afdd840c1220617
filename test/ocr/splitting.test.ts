import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { sql } from 'kysely'
import sharp from 'sharp'
import { expect, test } from 'vitest'
import { prepareZXingModule, writeBarcode } from 'zxing-wasm/writer'
import type { Client } from '../../src/client/client.ts'
import type { DocumentView } from '../../src/documents/view.ts'
import { openLog } from '../../src/log/log.ts'
import { ReadFailure } from '../../src/ports/document-reader.ts'
import type { FileStore } from '../../src/ports/file-store.ts'
import { startWorker } from '../../src/worker/worker.ts'
import { startApp, upload } from '../support/app.ts'
import { tiff } from '../support/data/files.ts'
import { type PdfPageSpec, pdf } from '../support/data/pdf-file.ts'
import { makeFolder } from '../support/data/source-folder.ts'

const wasm = readFileSync(createRequire(import.meta.url).resolve('zxing-wasm/writer/zxing_writer.wasm'))
prepareZXingModule({ overrides: { wasmBinary: wasm.buffer as ArrayBuffer } })

const page = (word: string): PdfPageSpec => ({ text: [`The ${word} page has enough letters to need no OCR at all.`] })
const blank: PdfPageSpec = { draw: '0.9 g 0 0 595 842 re f' }

/** A page with a barcode, drawn as squares of four points. */
async function sheet(text: string, format: 'QRCode' | 'Code128', more: PdfPageSpec = {}): Promise<PdfPageSpec> {
  const { symbol } = await writeBarcode(text, { format, scale: 1 })
  const squares = Array.from(symbol.data, (value, at) =>
    value === 0 ? `${100 + (at % symbol.width) * 4} ${600 - Math.floor(at / symbol.width) * 4} 4 4 re` : '',
  )
  return { draw: `${squares.filter(Boolean).join(' ')} f `, ...more }
}

const bytesOf = async (client: Client, id: string) => Buffer.from(await (await client.documents.download(id)).arrayBuffer())

const partsOf = async (client: Client, id: string): Promise<DocumentView[]> => {
  const { data } = await client.documents.page({ sort: 'title', order: 'asc' })
  const parts = data.filter(({ split_from }) => split_from === id)
  return Promise.all(parts.map((part) => client.documents.get(part.id)))
}

test('split=barcode: separator sheets and serial numbers begin documents; sheets and their blank backs are dropped', async () => {
  const { asAda, runJobs } = await startApp()
  const label = await asAda.labels.create({ name: 'post', color: '#336699' })
  const pages = [
    ...[page('first'), page('second'), await sheet('PATCH-T', 'Code128'), blank],
    ...[page('third'), await sheet('DMS-SPLIT', 'QRCode'), page('fourth'), await sheet('ASN00042', 'QRCode', page('fifth')), page('sixth')],
  ]
  // With a serial number they have more than 64 KiB.
  const metadata = { box: 7, note: 'x'.repeat(65_510) }
  const { id } = await upload(asAda, 'stack.pdf', pdf({ pages }), { split: 'barcode', labels: label.id, metadata })
  await runJobs(['ocr'])
  const parts = await partsOf(asAda, id)
  const words = parts.map(({ content = '' }) => content.match(/first|second|third|fourth|fifth|sixth/g))
  expect(words).toEqual([['first', 'second'], ['third'], ['fourth'], ['fifth', 'sixth']])
  expect(parts.map(({ title, filename, page_count }) => [title, filename, page_count])).toEqual([
    ['stack (1 of 4)', 'stack-1.pdf', 2],
    ['stack (2 of 4)', 'stack-2.pdf', 1],
    ['stack (3 of 4)', 'stack-3.pdf', 1],
    ['stack (4 of 4)', 'stack-4.pdf', 2],
  ])
  expect(parts.map(({ metadata }) => [metadata.asn, metadata.box])).toEqual([
    [undefined, 7],
    [undefined, 7],
    [undefined, 7],
    [42, 7],
  ])
  expect(parts.every(({ labels, status }) => labels[0] === 'post' && status === 'completed')).toBe(true)
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'completed', metadata: { split_into: 4 }, split_from: null })
})

test('parts are under the retention and the holds of the original, and have no date if the user wants none', async () => {
  const { asAda, asAdmin, runJobs } = await startApp()
  const retain_until = new Date(Date.now() + 86_400_000).toISOString()
  const dated = (word: string): PdfPageSpec => ({
    text: ['Berlin, 5 March 2024', `The ${word} page has enough letters to need no OCR at all.`],
  })
  const { id } = await upload(asAda, 'stack.pdf', pdf({ pages: [dated('first'), blank, dated('second')] }), { split: 'blank' })
  const [active, released] = await Promise.all(['Case', 'Old case'].map((name) => asAdmin.holds.create({ name })))
  for (const hold of [active!, released!]) await asAdmin.holds.add(hold.id, [id])
  await asAdmin.holds.release(released!.id)
  await asAda.documents.update(id, { retain_until, document_date: null })
  await runJobs(['ocr'])
  const parts = await partsOf(asAda, id)
  expect(parts.map((part) => [part.retain_until, part.document_date])).toEqual([
    [retain_until, null],
    [retain_until, null],
  ])
  expect([await asAdmin.holds.get(active!.id), await asAdmin.holds.get(released!.id)]).toMatchObject([
    { document_count: 3 },
    { document_count: 1 },
  ])
  await asAda.documents.delete(parts[0]!.id)
  await expect(asAda.documents.delete(parts[0]!.id, { permanent: true })).rejects.toMatchObject({
    code: 'RETENTION',
    details: { holds: ['Case'] },
  })
})

test('split=blank: blank pages separate documents, also several and those at the ends; other PDFs stay whole', async () => {
  const { asAda, runJobs } = await startApp()
  const stack = pdf({ pages: [blank, page('first'), blank, blank, page('second'), page('third'), blank] })
  const { id } = await upload(asAda, `${'stack'.repeat(50)}.pdf`, stack, { split: 'blank', title: 'x'.repeat(1000) })
  const { id: whole } = await upload(asAda, 'whole.pdf', pdf({ pages: [page('first'), page('second'), blank] }), { split: 'blank' })
  const { id: unasked } = await upload(asAda, 'unasked.pdf', stack, { on_duplicate: 'allow' })
  await runJobs(['ocr'])
  const parts = await partsOf(asAda, id)
  expect(parts.map(({ page_count }) => page_count)).toEqual([1, 2])
  expect(parts.map(({ filename }) => filename.slice(-6))).toEqual(['-1.pdf', '-2.pdf'])
  for (const { id, title } of parts) expect((await asAda.documents.update(id, { title })).title).toBe(title)
  for (const other of [whole, unasked]) {
    expect(await partsOf(asAda, other)).toEqual([])
    expect((await asAda.documents.get(other)).metadata).not.toHaveProperty('split_into')
  }
})

test('split=blank: dust that a scanner has read as punctuation leaves a page blank; a page number does not', async () => {
  const { asAda, runJobs } = await startApp()
  const invisible = (text: string): PdfPageSpec => ({ draw: `BT 3 Tr /F1 10 Tf 100 100 Td (${text}) Tj ET` })
  const pages = [page('first'), invisible(". ' - ~"), page('second'), invisible('- 3 -')]
  const { id } = await upload(asAda, 'stack.pdf', pdf({ pages }), { split: 'blank' })
  await runJobs(['ocr'])
  expect((await partsOf(asAda, id)).map(({ page_count }) => page_count)).toEqual([1, 2])
})

test('split=blank: a TIFF becomes TIFFs with the same pixels', async () => {
  const { asAda, runJobs } = await startApp()
  const size = { width: 60, height: 80 }
  const [first, second] = [30, 45].map((row) => ({ ...size, gray: Buffer.alloc(4800, 255).fill(0, row * 60, (row + 3) * 60) }))
  const stack = tiff([first!, { ...size, gray: Buffer.alloc(4800, 250) }, second!])
  const { id } = await upload(asAda, 'fax.tif', stack, { split: 'blank', ocr_enabled: false })
  await runJobs(['ocr'])
  const { data } = await asAda.documents.page({ split_from: id, sort: 'title', order: 'asc' })
  const pixels = await Promise.all(
    data.map(async (part) =>
      sharp(await bytesOf(asAda, part.id))
        .toColourspace('b-w')
        .raw()
        .toBuffer(),
    ),
  )
  expect(pixels.map((gray, index) => gray.equals([first!, second!][index]!.gray))).toEqual([true, true])
  expect(data.map(({ filename, mime_type }) => [filename, mime_type])).toEqual([
    ['fax-1.tif', 'image/tiff'],
    ['fax-2.tif', 'image/tiff'],
  ])
})

test('split=barcode: one document with a serial number stays whole and gets the number', async () => {
  const { asAda, runJobs } = await startApp()
  const pages = [await sheet('ASN 7', 'Code128', page('first')), page('second')]
  const { id } = await upload(asAda, 'one.pdf', pdf({ pages }), { split: 'barcode' })
  await runJobs(['ocr'])
  expect(await asAda.documents.get(id)).toMatchObject({ metadata: { asn: 7 }, page_count: 2, warnings: [] })
  expect(await partsOf(asAda, id)).toEqual([])
})

test('a PDF with too many pages stays whole, with the warning not_split; reading it again does not split it', async () => {
  const { asAda, runJobs } = await startApp({ 'ocr.max_pages': 2 })
  const { id } = await upload(asAda, 'long.pdf', pdf({ pages: [page('first'), blank, page('second')] }), { split: 'blank' })
  await runJobs(['ocr'])
  const { warnings, status } = await asAda.documents.get(id)
  expect(status).toBe('completed')
  expect(warnings).toEqual([{ code: 'not_split', message: expect.stringContaining('ocr.max_pages is 2') }])
  await asAda.documents.retryOcr(id)
  await runJobs(['ocr'])
  expect(await partsOf(asAda, id)).toEqual([])
})

test('a TIFF with too many pages stays whole, with the warning not_split', async () => {
  const { asAda, runJobs } = await startApp({ 'ocr.max_pages': 3 })
  const size = { width: 60, height: 80 }
  const [ink, empty] = [30, 0].map((row) => ({ ...size, gray: Buffer.alloc(4800, 255).fill(0, row * 60, row * 63) }))
  const { id } = await upload(asAda, 'fax.tif', tiff([ink!, empty!, ink!, ink!]), { split: 'blank', ocr_enabled: false })
  await runJobs(['ocr'])
  const { warnings } = await asAda.documents.get(id)
  expect(warnings).toEqual([{ code: 'not_split', message: expect.stringContaining('It has 4 pages; ocr.max_pages is 3') }])
  expect(await partsOf(asAda, id)).toEqual([])
})

test('a failure after the parts are stored: the next attempt adds none, and the original has no OCR', async () => {
  const { app, asAda, later } = await startApp()
  const { id } = await upload(asAda, 'stack.pdf', pdf({ pages: [page('first'), blank, page('second')] }), { split: 'blank' })
  let failures = 1
  const files: FileStore = {
    ...app.files,
    stage: async (...of) => {
      const staged = await app.files.stage(...of)
      return { ...staged, confirm: () => (failures-- > 0 ? Promise.reject(new Error('gone')) : staged.confirm()) }
    },
  }
  const work = async () => {
    const worker = await startWorker(
      { ...app, files, log: openLog({ level: 'silent', format: 'json' }) },
      { queues: ['ocr'], concurrency: 1 },
    )
    await worker.idle()
    await worker.stop(10_000)
  }
  await work()
  await later(60_000)
  await work()
  const { data } = await asAda.documents.page({ split_from: id })
  expect(data).toHaveLength(2)
  expect(await asAda.documents.get(id)).toMatchObject({ status: 'completed', text_source: 'text_layer', metadata: { split_into: 2 } })
})

test('a source splits its files; null: as configured', async () => {
  const { root, put } = await makeFolder()
  const { asAdmin, runJobs } = await startApp({ 'sources.local_roots': root, 'ocr.split': 'blank' })
  await put('stack.pdf', pdf({ pages: [page('first'), blank, page('second')] }))
  const { id } = await asAdmin.sources.create({ name: 'scans', type: 'local_folder', url: root, split: 'none' })
  await asAdmin.sources.sync(id)
  await runJobs(['sync', 'ocr'])
  expect((await asAdmin.documents.page()).data).toHaveLength(1)
  expect(await asAdmin.sources.update(id, { split: null })).toMatchObject({ split: null })
  await put('other.pdf', pdf({ pages: [page('third'), blank, page('fourth')] }))
  await asAdmin.sources.sync(id)
  await runJobs(['sync', 'ocr'])
  expect((await asAdmin.documents.page()).data).toHaveLength(4)
})

test('400 for an unknown split', async () => {
  const { asAda } = await startApp()
  await expect(upload(asAda, 'a.pdf', pdf({ pages: [page('x')] }), { split: 'sometimes' as 'none' })).rejects.toMatchObject({ status: 400 })
})

test('a reader that crashes once costs an attempt, not the splitting', async () => {
  const { app, asAda, runJobs } = await startApp()
  const { marks } = app.reader
  let isFirst = true
  Object.assign(app.reader, {
    marks: async (...all: Parameters<typeof marks>) => {
      if (!isFirst) return marks(...all)
      isFirst = false
      throw new ReadFailure('READ_CRASHED', 'The reader was killed.', { isRetryable: true })
    },
  })
  const pages = [page('first'), await sheet('DMS-SPLIT', 'QRCode'), page('second')]
  const { id } = await upload(asAda, 'stack.pdf', pdf({ pages }), { split: 'barcode' })
  await runJobs(['ocr'])
  await app.db.updateTable('jobs').set({ run_at: sql`now()` }).where('status', '=', 'pending').execute()
  await runJobs(['ocr'])
  expect((await partsOf(asAda, id)).map(({ title }) => title)).toEqual(['stack (1 of 2)', 'stack (2 of 2)'])
  expect(isFirst).toBe(false)
})
