import { describe, expect, test } from 'vitest'
import { openFile, type Tools, toReadFailure } from '../../src/extract/extract.ts'
import { bytesSource, type Limits } from '../../src/extract/opened-document.ts'
import { parsePdfDate, readInfo } from '../../src/extract/readers/pdf/pdf-metadata.ts'
import { loadPdfium, type OpenPdfium } from '../../src/extract/readers/pdf/pdfium.ts'
import { assessTextLayer, joinTexts } from '../../src/extract/text-layer.ts'
import { image, scan } from '../support/data/files.ts'
import { type PdfSpec, pdf } from '../support/data/pdf-file.ts'

let pdfium: Promise<OpenPdfium> | undefined
const tools = (limits: Partial<Limits> = {}): Tools => ({
  limits: { maxPages: 10, maxPixels: 20_000_000, dpi: 150, ...limits },
  pdfium: () => {
    pdfium ??= loadPdfium()
    return pdfium
  },
  dropPdfium: () => {
    pdfium = undefined
  },
})

const open = (bytes: Uint8Array, limits?: Partial<Limits>) => openFile(bytesSource(bytes, 'a.pdf'), tools(limits))

async function contents(bytes: Uint8Array, limits?: Partial<Limits>) {
  const opened = await open(bytes, limits)
  const found = await opened.contents()
  opened.close()
  return found
}

const failureOf = (bytes: Uint8Array) =>
  contents(bytes).then(
    () => 'none',
    (problem) => toReadFailure(problem).code,
  )

const sentence = 'The quick brown fox jumps over the lazy dog and runs away from the hunter.'
const picture = await scan(['scanned words'], { width: 600, height: 800 })
const jpeg = { bytes: await image(picture).jpeg().toBuffer(), width: 600, height: 800 }

describe('which pages need OCR', () => {
  test.each([
    ['real text', { text: [sentence] }, false],
    ['a short line and nothing else', { text: ['Page 1'] }, false],
    ['a blank page', {}, false],
    ['a frame without text', { draw: '10 10 500 700 re S ' }, false],
    ['a picture', { jpeg }, true],
    ['a picture with a caption', { jpeg, text: ['A caption of some forty letters, or more'] }, true],
    ['a small picture beside real text', { jpeg: { ...jpeg, share: 0.3 }, text: Array<string>(5).fill(sentence) }, false],
    [
      'letters turned into outlines',
      { draw: Array.from({ length: 40 }, (_, i) => `${i * 9} 0 m ${i * 9 + 5} 9 l ${i * 9 + 8} 0 l h f `).join('') },
      true,
    ],
  ])('%s: %s', async (_, page, needsOcr) => {
    expect((await contents(pdf({ pages: [page] }))).pages).toMatchObject([{ needsOcr, width: 595, height: 842 }])
  })

  test('a meaningless text layer is not shown, and the page gets OCR', () => {
    expect(assessTextLayer('\ufffd\ue000\ue001 ab \ue002\ue003')).toMatchObject({ isTrusted: false, text: 'ab' })
    expect(assessTextLayer(`${sentence} \ue002`)).toMatchObject({ isTrusted: true, hasGaps: false, text: `${sentence} •` })
  })

  test('a text layer with swapped bytes is repaired', () => {
    expect(assessTextLayer('\u4d00\u7500\u6c00\u7400\u6900 \u3100\u3200').text).toBe('Multi 12')
    expect(assessTextLayer('日本語の文書').text).toBe('日本語の文書')
  })

  test('at most as many pages as the limit, with a warning about the others', async () => {
    const found = await contents(pdf({ pages: Array(4).fill({ jpeg }) }), { maxPages: 2 })
    expect(found.pages.map((page) => page.needsOcr)).toEqual([true, true, false, false])
    expect(found.metadata).toMatchObject({ page_count: 4, pages_without_ocr: 2 })
  })
})

describe('joining the text of the file and of OCR', () => {
  test('keeps all of the first text, and the new words of the second', () => {
    expect(joinTexts('Invoice 42\nTotal 7 EUR', 'INVOICE 42\nscanned stamp\n — \ntotal 7 eur paid')).toBe(
      'Invoice 42\nTotal 7 EUR\nscanned stamp\ntotal 7 eur paid',
    )
  })
  test('is the one text if the other is empty', () => {
    expect(joinTexts('', 'only ocr')).toBe('only ocr')
    expect(joinTexts('only text', '')).toBe('only text')
  })
})

test('text, metadata, sizes and attachments', async () => {
  const file = pdf({
    pages: [{ text: [sentence, 'Second (line)'] }, { text: ['landscape'], rotate: 90 }],
    info: { Title: 'Report', Author: 'Ada', CreationDate: "D:20240229120000+01'00'" },
    attachment: { filename: 'note.txt', content: 'attached words' },
  })
  const { pages, metadata } = await contents(file)
  expect(metadata).toEqual({ title: 'Report', author: 'Ada', created: '2024-02-29T11:00:00.000Z', page_count: 2 })
  expect(pages).toMatchObject([
    { page: 1, text: `${sentence}\nSecond (line)`, width: 595, height: 842 },
    { page: 2, text: 'landscape', width: 842, height: 595 },
    { page: 3, text: 'note.txt\nattached words', needsOcr: false, width: null },
  ])
})

test('a PDF without CreationDate has the CreateDate of its own XMP metadata, not that of a picture in it', async () => {
  const xmp = `<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description
    rdf:about="" xmlns:xmp="http://ns.adobe.com/xap/1.0/"><xmp:CreateDate>2024-02-29T00:30:00+02:00</xmp:CreateDate></rdf:Description></rdf:RDF></x:xmpmeta>`
  const objects = { 900: `<< /Type /Metadata /Subtype /XML /Length ${xmp.length} >>\nstream\n${xmp}\nendstream` }
  const pages = [{ text: [sentence] }]
  const read = (spec: Partial<PdfSpec>) => contents(pdf({ pages, objects, ...spec }))
  expect(await read({ catalog: '/Metadata 900 0 R', info: { Title: 'Report' } })).toMatchObject({
    metadata: { title: 'Report', created: '2024-02-28T22:30:00.000Z' },
    date: '2024-02-29',
  })
  expect((await read({ catalog: '/Metadata 900 0 R', info: { CreationDate: 'D:20230101' } })).date).toBe('2023-01-01')
  expect((await read({})).date).toBe(undefined)
})

test.each([
  ['D:20240229', '2024-02-29T00:00:00.000Z'],
  ['2024', '2024-01-01T00:00:00.000Z'],
  ["D:20240229120000-05'30'", '2024-02-29T17:30:00.000Z'],
  ['2024-02-29T12:00:00+01:00', '2024-02-29T11:00:00.000Z'],
  ["D:20240229120000Z00'00'", '2024-02-29T12:00:00.000Z'],
  ['2024/02/29', null],
  ['D:20249999', null],
  ['yesterday', null],
  [7, null],
])('the date %s is %s', (value, date) => {
  expect(parsePdfDate(value)).toBe(date)
})

test('the day of creation is that of its time zone; a year or month alone is no day', () => {
  const dayOf = (CreationDate: string) => readInfo((key) => (key === 'CreationDate' ? CreationDate : undefined)).date
  expect(["D:20240229003000+02'00'", '2024-02-29', 'D:202402', 'D:2024', '2024/02/29'].map(dayOf)).toEqual([
    ...['2024-02-29', '2024-02-29', '2024-02', '2024', undefined],
  ])
})

describe('pictures of pages', () => {
  test('a JPEG that fills the page is used unchanged', async () => {
    const opened = await open(pdf({ pages: [{ jpeg, width: 300, height: 400 }] }))
    expect(await opened.picture(1)).toMatchObject({ width: 600, height: 800, dpi: 144, page: { width: 300, height: 400 } })
    opened.close()
  })

  test.each([
    ['turned', { jpeg, rotate: 90 }, 1754],
    ['with text over it', { jpeg, text: ['stamp'] }, 1240],
    ['smaller than the page', { jpeg: { ...jpeg, share: 0.5 } }, 1240],
  ])('a JPEG %s is rendered with its page', async (_, page, width) => {
    const opened = await open(pdf({ pages: [page] }))
    const found = (await opened.picture(1))!
    expect(Math.abs(found.width - width)).toBeLessThan(2)
    expect(found.dpi).toBe(150)
    expect(found.gray.reduce((darkest, value) => Math.min(darkest, value))).toBeLessThan(100)
    opened.close()
  })

  test.each([
    ['inverted by its Decode array', '/DeviceGray /Decode [1 0]'],
    ['in a colour space of ink', '[/Separation /Black /DeviceGray << /FunctionType 2 /Domain [0 1] /C0 [1] /C1 [0] /N 1 >>]'],
  ])('a JPEG %s is read as it is shown', async (_, space) => {
    const file = pdf({ pages: [{ jpeg, width: 300, height: 400 }] })
    const changed = Buffer.from(file.toString('latin1').replace('/ColorSpace /DeviceGray', `/ColorSpace ${space}`), 'latin1')
    const opened = await open(changed)
    const { gray } = (await opened.picture(1))!
    expect(gray.reduce((sum, value) => sum + value, 0) / gray.length).toBeLessThan(40)
    opened.close()
  })

  test('never have more pixels than the limit, however large the page claims to be', async () => {
    const opened = await open(pdf({ pages: [{ width: 14_400, height: 14_400, draw: '0 0 99 99 re f ' }] }), { maxPixels: 250_000 })
    const { gray, width, height } = (await opened.picture(1))!
    expect(gray.length).toBe(width * height)
    expect(width * height).toBeLessThanOrEqual(250_000)
    opened.close()
  })

  test('a JPEG with more pixels than the limit is rendered smaller', async () => {
    const opened = await open(pdf({ pages: [{ jpeg, width: 300, height: 400 }] }), { maxPixels: 100_000 })
    expect((await opened.picture(1))!.gray.length).toBeLessThanOrEqual(100_000)
    opened.close()
  })
})

describe('damage', () => {
  test('a missing page affects no other page', async () => {
    const { pages, metadata } = await contents(pdf({ pages: [{ text: [sentence] }], brokenPage: true }))
    expect(pages).toMatchObject([{ text: sentence }, { text: '', needsOcr: false }])
    expect(metadata).toMatchObject({ pages_damaged: 1 })
  })

  test('a missing cross-reference table is rebuilt', async () => {
    const file = pdf({ pages: [{ text: [sentence] }] })
    const { pages } = await contents(Buffer.from(file.toString('latin1').replace(/startxref\n\d+/, 'startxref\n7'), 'latin1'))
    expect(pages[0]!.text).toBe(sentence)
  })

  const locked = pdf({ pages: [{ text: ['x'] }], locked: true })
  const lockedByCertificate = locked
    .toString('latin1')
    .replace('/Filter /Standard /V 1 ', '/Filter /Adobe.PubSec /SubFilter /adbe.pkcs7.s4 /V 1 ')
  test.each([
    ['FILE_ENCRYPTED', locked],
    ['FILE_ENCRYPTED', Buffer.from(lockedByCertificate, 'latin1')],
    ['FILE_CORRUPT', Buffer.from('%PDF-1.4\nnothing')],
    ['FILE_CORRUPT', pdf({ pages: [] })],
    ['FILE_CORRUPT', pdf({ pages: [], brokenPage: true })],
  ])('%s', async (code, file) => {
    expect(await failureOf(file)).toBe(code)
  })
})
