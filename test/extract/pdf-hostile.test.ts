/** PDFs made to loop, to grow or to crash their reader: each ends with its text or with an error code. */
import { expect, test } from 'vitest'
import { openFile, type Tools, toReadFailure } from '../../src/extract/extract.ts'
import { bytesSource } from '../../src/extract/opened-document.ts'
import { loadPdfium, type OpenPdfium } from '../../src/extract/readers/pdf/pdfium.ts'
import { type PdfSpec, pdf } from '../support/data/pdf-file.ts'

let pdfium: Promise<OpenPdfium> | undefined
let loadCount = 0
const tools: Tools = {
  limits: { maxPages: 10, maxPixels: 1_000_000, dpi: 150 },
  pdfium: () => {
    if (!pdfium) loadCount++
    pdfium ??= loadPdfium()
    return pdfium
  },
  dropPdfium: () => {
    pdfium = undefined
  },
}

/** Returns the texts of the pages that have one, or the code of the failure. */
async function outcome(bytes: Uint8Array): Promise<string[] | string> {
  const opened = await openFile(bytesSource(bytes, 'a.pdf'), tools)
  try {
    return (await opened.contents()).pages.map(({ text }) => text).filter((text) => text !== '')
  } catch (problem) {
    return toReadFailure(problem).code
  } finally {
    opened.close()
  }
}

const page = { text: ['words of the page'] }
const words = ['words of the page']
const stream = (entries: string, content: string): string => `<< ${entries} /Length ${content.length} >>\nstream\n${content}\nendstream`
const widget = '/Type /Annot /Subtype /Widget /FT /Tx /Rect [0 0 9 9]'

const cases: readonly (readonly [name: string, spec: PdfSpec, expected: string[] | string])[] = [
  [
    'a page tree that contains itself',
    { pages: [page], objects: { 2: '<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 90000 >>' } },
    'FILE_TOO_COMPLEX',
  ],
  [
    'a page tree that states two billion pages',
    { pages: [page], objects: { 2: '<< /Type /Pages /Kids [10 0 R] /Count 2147483647 >>' } },
    words,
  ],
  [
    'one note a hundred thousand times',
    {
      pages: [{ ...page, annots: '900 0 R '.repeat(100_000) }],
      objects: { 900: '<< /Type /Annot /Subtype /Text /Rect [0 0 9 9] /Contents (a note) >>' },
    },
    ['words of the page\na note'],
  ],
  [
    'fields that are their own parents',
    {
      pages: [{ ...page, annots: '900 0 R' }],
      objects: { 900: `<< ${widget} /T (a) /V (value) /Parent 900 0 R /Kids [900 0 R] >>` },
      catalog: '/AcroForm << /Fields [900 0 R] >>',
    },
    words,
  ],
  [
    'names of attachments in a circle',
    { pages: [page], objects: { 900: '<< /Kids [900 0 R 900 0 R] >>' }, catalog: '/Names << /EmbeddedFiles 900 0 R >>' },
    words,
  ],
  [
    'a form in a million elements',
    {
      pages: [page],
      objects: { 900: stream('', `<data>${'<a>'.repeat(100_000)}`) },
      catalog: '/AcroForm << /Fields [] /XFA 900 0 R >>',
    },
    words,
  ],
  ['numbers beyond all limits', { pages: [{ draw: 'BT /F1 1e308 Tf 1e38 0 0 1e38 1e38 1e38 Tm ET ', ...page }] }, words],
  ['an array without an end', { pages: [{ text: page.text, draw: `BT /F1 9 Tf ${'['.repeat(100_000)} ET ` }] }, []],
]

test.each(cases)('%s', async (_, spec, expected) => {
  expect(await outcome(pdf(spec))).toEqual(expected)
})

test('a broken PDFium instance does not affect the next file', async () => {
  const broken = Promise.resolve((() => {
    throw new WebAssembly.RuntimeError('unreachable')
  }) as OpenPdfium)
  pdfium = broken
  const before = loadCount
  expect(await outcome(pdf({ pages: [page] }))).toEqual(words)
  expect(loadCount).toBe(before + 1)
})
