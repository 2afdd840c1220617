/** Text of PDFs: words, glyphs without characters, annotations, forms, attached files. */
import { describe, expect, test } from 'vitest'
import { openFile, type Tools } from '../../src/extract/extract.ts'
import { bytesSource } from '../../src/extract/opened-document.ts'
import { loadPdfium, type OpenPdfium } from '../../src/extract/readers/pdf/pdfium.ts'
import { image, scan } from '../support/data/files.ts'
import { type PdfSpec, pdf } from '../support/data/pdf-file.ts'

let pdfium: Promise<OpenPdfium> | undefined
const tools: Tools = {
  limits: { maxPages: 10, maxPixels: 20_000_000, dpi: 150 },
  pdfium: () => {
    pdfium ??= loadPdfium()
    return pdfium
  },
  dropPdfium: () => {
    pdfium = undefined
  },
}

async function pagesOf(bytes: Uint8Array) {
  const opened = await openFile(bytesSource(bytes, 'a.pdf'), tools)
  const { pages } = await opened.contents()
  opened.close()
  return pages
}

const textOf = async (spec: PdfSpec): Promise<string> => (await pagesOf(pdf(spec)))[0]!.text
const drawn = (operators: string): Promise<string> => textOf({ pages: [{ draw: `BT /F1 12 Tf ${operators} ET\n` }] })
const stream = (entries: string, content: string): string => `<< ${entries} /Length ${content.length} >>\nstream\n${content}\nendstream`
const scannedPage = async () => ({
  bytes: await image(await scan(['scanned words'], { width: 600, height: 800 }))
    .jpeg()
    .toBuffer(),
  width: 600,
  height: 800,
})
const sentence = 'The quick brown fox jumps over the lazy dog and runs away from the hunter.'

describe('words', () => {
  test('of adjacent runs are separated', async () => {
    expect(await drawn('50 700 Td (0) Tj 40 0 Td (Page) Tj 40 2 Td (two) Tj')).toBe('0 Page two')
  })

  test('divided at a line end are joined; capitals, digits and known compounds keep the hyphen', async () => {
    const lines = ['an invol-', 'untary UTF-', '8 sign of Debian-', 'Security and', 'a well-known well-', 'known fact']
    expect(await textOf({ pages: [{ text: lines }] })).toBe(
      'an involuntary UTF-8 sign of Debian-Security and\na well-known well-known fact',
    )
  })

  test('have the accents that are drawn over their letters; separate accents stay', async () => {
    expect(await drawn('50 700 Td (And) Tj 22 0 Td (\\264) Tj -1 0 Td (en) Tj')).toBe('Andén')
    expect(await drawn('50 700 Td (l\\264amore) Tj')).toBe('l´amore')
  })

  test('contain superscripts and subscripts, and footnote marks stand beside them', async () => {
    // Widths of Helvetica, as a page of TeX has them: the script begins where the letters end.
    const script = (x: number, rise: number, letters: string) => `/F1 6 Tf 1 0 0 1 ${x} ${700 + rise} Tm (${letters}) Tj /F1 12 Tf`
    const text = (x: number, letters: string) => `1 0 0 1 ${x} 700 Tm (${letters}) Tj`
    expect(await drawn(`${text(50, 'km')} ${script(66, 6, '2')} ${text(73, 'of land')}`)).toBe('km2 of land')
    expect(await drawn(`${text(50, 'CO')} ${script(68, -3, '2')} ${text(75, 'emissions')}`)).toBe('CO2 emissions')
    expect(await drawn(`${text(50, 'words')} ${script(82.7, 6, '12')} ${text(93, 'that')}`)).toBe('words 12 that')
    expect(await drawn(`${script(50, 6, '3')} ${text(53.4, 'Notes begin here')}`)).toBe('3 Notes begin here')
  })

  test('with a middle dot have one box', async () => {
    const opened = await openFile(bytesSource(pdf({ pages: [{ text: ['el col\xb7legi nou'] }] }), 'a.pdf'), tools)
    expect((await opened.words!(1)).map(([word]) => word)).toEqual(['el', 'col\xb7legi', 'nou'])
    opened.close()
  })

  test('in two columns are read column by column', async () => {
    const column = (x: number, words: string) => words.split(' ').map((word, i) => `1 0 0 1 ${x} ${700 - i * 14} Tm (${word}) Tj`)
    expect(await drawn([...column(50, 'left one two'), ...column(300, 'right one two')].join(' '))).toMatch(/left\s+one\s+two\s+right/)
  })
})

/** A font of squares in which only letters have characters: themselves, or those that `character` returns. */
function squares(characters: string, mapped: string, character = (letter: string) => letter): Record<number, string> {
  const codes = [...characters].map((letter) => letter.charCodeAt(0))
  const hex = (letter: string, digits: number) => letter.charCodeAt(0).toString(16).padStart(digits, '0')
  const pairs = [...mapped].map((letter) => `<${hex(letter, 2)}> <${hex(character(letter), 4)}>`)
  const cmap = `/CIDInit /ProcSet findresource begin 12 dict begin begincmap /CMapName /X def /CMapType 2 def
1 begincodespacerange <00> <ff> endcodespacerange
${pairs.length} beginbfchar ${pairs.join('\n')} endbfchar endcmap end end`
  const names = codes.map((code) => `${code} /glyph.${code}`)
  return {
    900: `<< /Type /Font /Subtype /Type3 /FontBBox [0 0 1000 1000] /FontMatrix [0.001 0 0 0.001 0 0] /CharProcs << ${codes.map((code) => `/glyph.${code} ${code <= 32 ? 902 : 901} 0 R`).join(' ')} >> /Encoding << /Type /Encoding /Differences [${names.join(' ')}] >> /FirstChar 0 /LastChar 255 /Widths [${Array(256).fill(600).join(' ')}] /Resources << >> /ToUnicode 903 0 R >>`,
    901: stream('', '600 0 0 0 500 500 d1 0 0 500 500 re f'),
    902: stream('', '600 0 0 0 0 0 d1'),
    903: stream('', cmap),
  }
}

describe('glyphs without characters', () => {
  const letters = 'abcdefghijklmnopqrstuvwxyz .'
  const text = 'amount of the invoice in the contract of the tenant is '
  const page = (end: string) => ({
    pages: [{ draw: `BT /F2 10 Tf 20 700 Td (${text}${text}) Tj 0 -20 Td (${text}${text}${end}) Tj ET\n` }],
    fonts: '/F2 900 0 R',
    objects: squares(`${letters}0123456789`, letters),
  })

  test('make the page an OCR page, however few they are', async () => {
    const [found] = await pagesOf(pdf(page('410 euro')))
    expect(found).toMatchObject({ needsOcr: true, text: expect.stringContaining('amount of the invoice') })
    expect(found!.text).not.toMatch(/[\ufffd\d]/)
    expect(await pagesOf(pdf(page('four euro')))).toMatchObject([{ needsOcr: false }])
  })

  test('are spaces between words if they have no ink, also with the codes of control characters', async () => {
    for (const space of ['\\003', '\\040']) {
      const draw = `BT /F2 10 Tf 20 700 Td (${text}${text}) Tj 0 -20 Td (four${space}euro) Tj ET\n`
      const objects = squares(`${letters.replace(' ', '')} \u0003`, letters.replace(' ', ''))
      const [found] = await pagesOf(pdf({ pages: [{ draw }], fonts: '/F2 900 0 R', objects }))
      expect.soft(found).toMatchObject({ needsOcr: false, text: expect.stringMatching(/four euro$/) })
    }
  })

  test('that stand alone are symbols', async () => {
    const [found] = await pagesOf(pdf(page('1 euro 1')))
    expect(found).toMatchObject({ needsOcr: false, text: expect.stringMatching(/is • euro •$/) })
  })
})

test('Chinese that is set with spaces is read without them', async () => {
  const chinese = (letter: string) =>
    letter === ' ' ? ' ' : '\u5173\u4e8e\u7ea2\u519b\u4f5c\u6218\u539f\u5219'[letter.charCodeAt(0) - 97]!
  const page = { draw: 'BT /F2 10 Tf 20 700 Td (a b c d e f) Tj 0 -20 Td (ab cd gh) Tj ET\n' }
  const [found] = await pagesOf(pdf({ pages: [page], fonts: '/F2 900 0 R', objects: squares('abcdefgh ', 'abcdefgh ', chinese) }))
  expect(found?.text.split('\n')).toEqual(['\u5173\u4e8e\u7ea2\u519b\u4f5c\u6218', '\u5173\u4e8e \u7ea2\u519b \u539f\u5219'])
})

test('Chinese in vertical lines of single characters is read line by line', async () => {
  const chinese = (letter: string) => '\u5173\u4e8e\u7ea2\u519b\u4f5c\u6218\u539f\u5219'[letter.charCodeAt(0) - 97]!
  const line = (x: number, words: string, step: number) =>
    [...words].map((letter, i) => `1 0 0 1 ${x} ${700 - i * step} Tm (${letter}) Tj`).join(' ')
  const read = async (step: number) => {
    const draw = `BT /F2 10 Tf ${line(100, 'abcdef', step)} ${line(80, 'gh', step)} ET\n`
    const [found] = await pagesOf(pdf({ pages: [{ draw }], fonts: '/F2 900 0 R', objects: squares('abcdefgh', 'abcdefgh', chinese) }))
    return found?.text.split(/\s+/)
  }
  expect(await read(11)).toEqual(['\u5173\u4e8e\u7ea2\u519b\u4f5c\u6218', '\u539f\u5219'])
  // Rows of a table are farther apart.
  expect(await read(25)).toHaveLength(8)
})

const appearance = (words: string): string =>
  stream('/Type /XObject /Subtype /Form /BBox [0 0 200 20] /Resources << /Font << /F1 3 0 R >> >>', `BT /F1 10 Tf 2 5 Td (${words}) Tj ET`)

describe('annotations', () => {
  const annots = '900 0 R 902 0 R 903 0 R 905 0 R 906 0 R 908 0 R 909 0 R'
  const objects = {
    900: '<< /Type /Annot /Subtype /Stamp /Rect [50 600 250 620] /AP << /N 901 0 R >> >>',
    901: appearance('PAID stamp'),
    902: '<< /Type /Annot /Subtype /Text /Rect [50 560 70 580] /T (Igal) /Contents (a note of the reader) >>',
    903: '<< /Type /Annot /Subtype /FreeText /Rect [50 520 250 540] /Contents (typed by hand) /AP << /N 904 0 R >> >>',
    904: appearance('typed by hand'),
    905: '<< /Type /Annot /Subtype /Widget /FT /Tx /T (name) /V (Grace Hopper) /Rect [50 480 250 500] >>',
    906: '<< /Type /Annot /Subtype /Widget /FT /Tx /T (city) /V (Paris) /Rect [50 440 250 460] /AP << /N 907 0 R >> >>',
    907: appearance('Paris'),
    908: '<< /Type /Annot /Subtype /Widget /FT /Tx /Ff 8192 /T (password) /V (open sesame) /Rect [50 400 250 420] >>',
    909: '<< /Type /Annot /Subtype /Widget /FT /Tx /F 2 /T (offices) /V (list of a script) /Rect [50 360 250 380] >>',
  }
  const spec = { pages: [{ text: [sentence], annots }], objects, catalog: '/AcroForm << /Fields [905 0 R 906 0 R 908 0 R 909 0 R] >>' }
  const words = ['PAID stamp', 'a note of the reader', 'Igal', 'typed by hand', 'Grace Hopper', 'Paris']

  test('are read once each, as shown or as stored; passwords and hidden fields are not', async () => {
    const text = await textOf(spec)
    expect(text.startsWith(sentence)).toBe(true)
    for (const word of words) expect.soft([word, text.split(word).length - 1]).toEqual([word, 1])
    expect(text).not.toMatch(/sesame|script/)
  })

  test('are read on a page that inherits its fonts', async () => {
    const fonts = '/Resources << /Font << /F1 3 0 R  >>   >>'
    const whole = pdf(spec).toString('latin1')
    expect(whole).toContain(fonts)
    const inherited = whole.replace(fonts, ' '.repeat(fonts.length)).replace('/Type /Pages', `/Type /Pages ${fonts}`)
    const [page] = await pagesOf(Buffer.from(inherited, 'latin1'))
    expect(page!.text.startsWith(sentence)).toBe(true)
    expect(page!.text).toContain('Grace Hopper')
  })

  test('attach files to pages', async () => {
    const attaching = {
      900: '<< /Type /Annot /Subtype /FileAttachment /Rect [50 600 70 620] /FS 901 0 R >>',
      901: '<< /Type /Filespec /F (pinned.txt) /UF (pinned.txt) /EF << /F 902 0 R >> >>',
      902: stream('/Type /EmbeddedFile', 'words of a pinned file'),
    }
    const pages = await pagesOf(pdf({ pages: [{ text: [sentence], annots: '900 0 R' }], objects: attaching }))
    expect(pages.map(({ text }) => text)).toEqual([sentence, 'pinned.txt\nwords of a pinned file'])
  })

  test('attach scans to pages, which get OCR', async () => {
    const bytes = pdf({ pages: [{ jpeg: await scannedPage() }, { text: [sentence] }] })
    const attaching = {
      900: '<< /Type /Annot /Subtype /FileAttachment /Rect [50 600 70 620] /FS 901 0 R >>',
      901: '<< /Type /Filespec /F (scan.pdf) /EF << /F 902 0 R >> >>',
      902: stream('/Type /EmbeddedFile', bytes.toString('latin1')),
    }
    const file = pdf({ pages: [{ text: [sentence], annots: '900 0 R' }], objects: attaching })
    expect(await pagesOf(file)).toMatchObject([
      { page: 1, needsOcr: false },
      { page: 2, text: `scan.pdf\n${sentence}`, needsOcr: false },
      { page: 3, text: '', needsOcr: true },
    ])
    const opened = await openFile(bytesSource(file, 'a.pdf'), tools)
    expect(await opened.picture(3)).toMatchObject({ width: 600, height: 800 })
    opened.close()
  })

  test('attach scans beyond the limit of pages, which are counted', async () => {
    const scanned = { jpeg: await scannedPage() }
    const attaching = {
      900: '<< /Type /Annot /Subtype /FileAttachment /Rect [50 600 70 620] /FS 901 0 R >>',
      901: '<< /Type /Filespec /F (scan.pdf) /EF << /F 902 0 R >> >>',
      902: stream('/Type /EmbeddedFile', pdf({ pages: [scanned, scanned, scanned] }).toString('latin1')),
    }
    const file = pdf({ pages: [{ text: [sentence], annots: '900 0 R' }, scanned], objects: attaching })
    const opened = await openFile(bytesSource(file, 'a.pdf'), { ...tools, limits: { ...tools.limits, maxPages: 2 } })
    const { pages, metadata } = await opened.contents()
    expect([pages.filter(({ needsOcr }) => needsOcr).length, metadata.pages_without_ocr]).toEqual([2, 2])
    opened.close()
  })
})

test('text beside the displayed page is not read, also in forms and on pages with an inherited media box', async () => {
  const line = (words: string, y: number) => `BT /F1 12 Tf 50 ${y} Td (${words}) Tj ET`
  const objects = {
    900: stream('/Type /XObject /Subtype /Form /BBox [0 700 600 842] /Resources << /Font << /F1 3 0 R >> >>', line('slug', 800)),
  }
  const draw = `${line('file.indd 1', 820)} ${line('shown', 400)} /X Do ${line('across the edge', 698)}\n`
  const file = pdf({ pages: [{ draw }], objects, resources: '/XObject << /X 900 0 R >>' }).toString('latin1')
  const cropped = file.replace('/Rotate 0 /Annots []', '/CropBox [0 0 595 700]')
  const box = '/MediaBox [0 0 595 842]'
  for (const source of [cropped, cropped.replace(box, '').replace('/Type /Pages', `/Type /Pages ${box}`)]) {
    const [page] = await pagesOf(Buffer.from(source, 'latin1'))
    expect.soft(page!.text.split('\n')).toEqual(['shown', 'across the edge'])
  }
  expect((await pagesOf(Buffer.from(file, 'latin1')))[0]!.text).toContain('slug')
  expect(await textOf({ pages: [{ draw: `${line('the next page', 900)} ${line('shown', 400)}\n` }] })).toBe('shown')
})

test('labels and values of XFA forms are read', async () => {
  const template =
    '<template><field><caption><value><text>Family name</text></value></caption></field><script>var hidden</script></template>'
  const datasets = '<xfa:datasets xmlns:xfa="x"><xfa:data><form><name>Lovelace</name></form></xfa:data></xfa:datasets>'
  const objects = { 900: stream('', template), 901: stream('', datasets) }
  const catalog = '/AcroForm << /Fields [] /XFA [(template) 900 0 R (datasets) 901 0 R] >>'
  expect(await textOf({ pages: [{ text: ['Please wait'] }], objects, catalog })).toBe('Please wait\nFamily name\nLovelace')
})

test('a file that PDFium refuses is read by another library', async () => {
  const file = pdf({ pages: [{ text: [sentence] }], info: { Title: 'Report' } })
  file.write('%PDE', 0, 'latin1')
  const opened = await openFile(bytesSource(Buffer.concat([Buffer.from('%PDF-\n'), Buffer.alloc(2000, 10), file]), 'a.pdf'), tools)
  expect(await opened.contents()).toMatchObject({ metadata: { title: 'Report', page_count: 1 }, pages: [{ text: sentence }] })
  opened.close()
})
