/** Documents of Apple, XPS and StarOffice in ZIP archives, and names of parts. */
import { expect, test } from 'vitest'
import { detectType } from '../../src/extract/detect.ts'
import { typeByExtension } from '../../src/extract/mime-types.ts'
import { image, scan } from '../support/data/files.ts'
import { paragraph, zip } from '../support/data/office-files.ts'
import { pdf } from '../support/data/pdf-file.ts'
import { failureOf, readBytes, readImages } from '../support/read-bytes.ts'

const docxType = typeByExtension.docx
const preview = await image(await scan(['hello'], { width: 300, height: 60 }))
  .jpeg()
  .toBuffer()
const main = '<sf:p>first <sf:span>words</sf:span><sf:br/>next line</sf:p><sf:ct sfa:s="a cell"/><sl:other>hidden</sl:other>'
const page = (...runs: string[]) =>
  `\ufeff<FixedPage>${runs.map((run) => `<Glyphs FontRenderingEmSize="10" ${run}/>`).join('')}</FixedPage>`
const files = {
  pages09: zip({ 'index.xml': `<sl:document>${main}</sl:document>`, 'QuickLook/Thumbnail.jpg': preview }),
  pagesPdf: zip({ 'index.xml': main, 'QuickLook/Preview.pdf': pdf({ pages: [{ text: ['one'] }, { text: ['two'] }] }) }),
  keynote: zip({ 'Index/Document.iwa': 'x', 'Index/Slide-1.iwa': 'x', 'preview.jpg': preview, 'preview-micro.jpg': preview }),
  xps: zip({
    '[Content_Types].xml': '<Types/>',
    'Documents/1/Pages/10.fpage': page('OriginX="0" OriginY="10" UnicodeString="{}{last}"'),
    'Documents/1/Pages/2.fpage': Buffer.from(
      page(
        'OriginX="0" OriginY="10" UnicodeString="Har" Indices="1,50;2,50;3,50"',
        'OriginX="15" OriginY="10" UnicodeString="bour" Indices=",50;,50;,50;,50"',
        'OriginX="40" OriginY="10" UnicodeString="fees"',
        'OriginX="0" OriginY="30" UnicodeString="second line"',
      ),
      'utf16le',
    ),
  }),
  sxw: zip({ 'content.xml': '<office:document-content><office:body><text:p>old words</text:p></office:body></office:document-content>' }),
}

test.each<[what: string, bytes: Buffer, name: string, type: string, lines: string[]]>([
  ['Pages of 2009', files.pages09, 'a.pages', 'application/vnd.apple.pages', ['first words', 'next line', 'a cell']],
  ['Pages with a preview of all pages', files.pagesPdf, 'a.pages', 'application/vnd.apple.pages', ['one', '---', 'two']],
  [
    'XPS: pages in their order, runs joined to words and lines',
    files.xps,
    'a',
    'application/vnd.ms-xpsdocument',
    ['Harbour fees', 'second line', '{last}'],
  ],
  ['StarOffice 6', files.sxw, 'a.sxw', 'application/vnd.sun.xml.writer', ['old words']],
])('%s', async (_, bytes, name, type, lines) => {
  const { mimeType, hasReader, text } = await readBytes(bytes, name)
  expect([mimeType, hasReader, text.split(/\n+/)]).toEqual([type, true, lines])
})

test('Keynote since 2013: the largest preview is for OCR', async () => {
  expect(await readBytes(files.keynote, 'unnamed')).toMatchObject({ mimeType: 'application/vnd.apple.keynote', hasReader: true })
  expect(await readImages(files.keynote, 'a.key')).toEqual([expect.objectContaining({ width: 300, height: 60 })])
})

test.each<[what: string, rename: (name: string) => string]>([
  ['with backslashes', (name) => name.replaceAll('/', '\\')],
  ['in capitals', (name) => name.toUpperCase()],
])('parts of Open XML with names %s', async (_, rename) => {
  const relation = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships'
  const parts = {
    '[Content_Types].xml': '<Types/>',
    '_rels/.rels': `<Relationships><Relationship Id="a" Type="${relation}/officeDocument" Target="word/document.xml"/></Relationships>`,
    'word/_rels/document.xml.rels': `<Relationships><Relationship Id="b" Type="${relation}/header" Target="h.xml"/></Relationships>`,
    'word/document.xml': `<w:document><w:body>${paragraph('body')}</w:body></w:document>`,
    'word/h.xml': `<w:hdr>${paragraph('header')}</w:hdr>`,
    'word/embeddings/note.txt': 'a note',
  }
  const bytes = zip(Object.fromEntries(Object.entries(parts).map(([name, content]) => [rename(name), content])))
  const { mimeType, text } = await readBytes(bytes, 'unnamed')
  expect([mimeType, text.toLowerCase().split(/\n+/)]).toEqual([docxType, ['header', 'body', 'note.txt', 'a note']])
  expect(await detectType(bytes, 'unnamed')).toBe(docxType)
})

test('a binary file that only has the name is not read', async () => {
  expect(await readBytes(Buffer.from('00010203fffe9988', 'hex'), 'id.key')).toMatchObject({ hasReader: false, text: '' })
})

test('XPS: a run to the left of the one before it on a line is another word', async () => {
  const hebrew = [
    'OriginX="40" OriginY="30" BidiLevel="1" UnicodeString="של"',
    'OriginX="30" OriginY="30" BidiLevel="1" UnicodeString="ום"',
  ]
  const content = page('OriginX="40" OriginY="10" UnicodeString="fees"', 'OriginX="0" OriginY="10" UnicodeString="harbour"', ...hebrew)
  expect((await readBytes(zip({ '[Content_Types].xml': '<Types/>', 'Pages/1.fpage': content }), 'a.xps')).text).toBe('fees harbour\nשלום')
})

test.each(Object.entries(files))('%s, cut anywhere or with flipped bits, ends', async (_, bytes) => {
  const ends = ['none', 'FILE_CORRUPT', 'FILE_TOO_COMPLEX', 'FILE_ENCRYPTED']
  for (let at = 1; at < bytes.length; at += 1 + Math.floor(bytes.length / 25)) {
    expect(ends).toContain(await failureOf(bytes.subarray(0, at), 'a.pages'))
    const flipped = Buffer.from(bytes)
    flipped[at] = (flipped[at] ?? 0) ^ 0x55
    expect(ends).toContain(await failureOf(flipped, 'a.pages'))
  }
})

test('a package of an unknown type is read as an archive, and keeps its type', async () => {
  const section = '<hs:sec><hp:p><hp:run><hp:t>계약서</hp:t></hp:run></hp:p></hs:sec>'
  const bytes = zip({ mimetype: 'application/hwp+zip', 'Contents/section0.xml': section })
  const { mimeType, hasReader, text } = await readBytes(bytes, 'a.hwpx')
  expect({ mimeType, hasReader, text }).toEqual({
    mimeType: 'application/hwp+zip',
    hasReader: true,
    text: 'mimetype\napplication/hwp+zip\n\nContents/section0.xml\n계약서',
  })
})
