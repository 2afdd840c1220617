/** Letters of PDFs as PDFium returns them, and as a reader sees them. */
import { expect, test } from 'vitest'
import { pdf } from '../support/data/pdf-file.ts'
import { readBytes } from '../support/read-bytes.ts'

const stream = (entries: string, content: string): string => `<< ${entries} /Length ${content.length} >>\nstream\n${content}\nendstream`
const textOf = async (bytes: Uint8Array): Promise<string> => (await readBytes(bytes, 'a.pdf')).text
const drawn = (operators: string): Promise<string> => textOf(pdf({ pages: [{ draw: `BT /F1 12 Tf ${operators} ET\n` }] }))

test('an accent that is drawn behind the word is over its letter, and the word ends behind it', async () => {
  expect(await drawn('50 700 Td (Andenken) Tj 21.6 0 Td (\\264) Tj 40 0 Td (an) Tj')).toBe('Andénken an')
})

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

test('Thai that Word writes with a space for a part of a vowel is read without it', async () => {
  const map = `/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def 1 begincodespacerange <00> <FF> endcodespacerange
4 beginbfchar <41> <0E04> <42> <0020> <43> <0E33> <44> <0E41> endbfchar endcmap end end`
  const objects = {
    900: '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /ToUnicode 901 0 R >>',
    901: stream('', map),
  }
  const page = { draw: 'BT /F2 12 Tf 50 700 Td (ABCABD) Tj ET\n' }
  expect(await textOf(pdf({ pages: [page], objects, fonts: '/F2 900 0 R' }))).toBe('คำค แ')
})
