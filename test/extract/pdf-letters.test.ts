/** Letters of PDFs as PDFium returns them, and as a reader sees them. */
import { expect, test } from 'vitest'
import { pdf } from '../support/data/pdf-file.ts'
import { readBytes } from '../support/read-bytes.ts'

const textOf = async (bytes: Uint8Array): Promise<string> => (await readBytes(bytes, 'a.pdf')).text
const drawn = (operators: string): Promise<string> => textOf(pdf({ pages: [{ draw: `BT /F1 12 Tf ${operators} ET\n` }] }))

test('letters that are drawn twice with different fonts, for a shadow, are read once; double letters stay', async () => {
  const positions: [number, string][] = [
    [50, 'B'],
    [58, 'i'],
    [60.7, 'l'],
    [63.4, 'l'],
    [66.1, '2'],
    [72.8, '0'],
    [79.5, '0'],
  ]
  const letters = (right: number) => positions.map(([x, letter]) => `1 0 0 1 ${x + right} 700 Tm (${letter}) Tj`).join(' ')
  const objects = { 900: '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>' }
  const page = { draw: `BT /F1 12 Tf ${letters(0)} /F2 12 Tf ${letters(0.4)} ET\n` }
  expect(await textOf(pdf({ pages: [page], objects, fonts: '/F2 900 0 R' }))).toBe('Bill200')
  expect(await drawn('50 700 Td (Balloon 2001) Tj')).toBe('Balloon 2001')
  const ligature = 'begincmap 1 begincodespacerange <00> <FF> endcodespacerange 1 beginbfchar <41> <00660066> endbfchar endcmap'
  const ligatures = {
    900: '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 901 0 R >>',
    901: `<< /Length ${ligature.length} >>\nstream\n${ligature}\nendstream`,
  }
  const effect = { draw: 'BT /F2 12 Tf 50 700 Td (eAect) Tj ET\n' }
  expect(await textOf(pdf({ pages: [effect], objects: ligatures, fonts: '/F2 900 0 R' }))).toBe('effect')
})
