/** Scanned pages in office documents become pages for OCR; logos and illustrations do not. */
import { randomBytes } from 'node:crypto'
import sharp from 'sharp'
import { expect, test } from 'vitest'
import { docx, openDocument, paragraph, zip } from '../support/data/office-files.ts'
import { readBytes, readImages } from '../support/read-bytes.ts'

/** A picture of noise, which compresses badly. */
const noise = (width: number, height: number): Promise<Buffer> =>
  sharp(randomBytes(width * height), { raw: { width, height, channels: 1 } })
    .jpeg({ quality: 30 })
    .toBuffer()
const portrait = await noise(600, 1000)
const landscape = await noise(1200, 700)
const logo = await noise(400, 400)

test('docx: large pictures are pages for OCR, in the order of the text, where there is hardly any text', async () => {
  const file = docx(
    `${paragraph('Enclosure')}<w:drawing><a:blip r:embed="media/b.jpeg"/></w:drawing><w:drawing><a:blip r:embed="media/a.jpeg"/></w:drawing>`,
    { 'media/a.jpeg': ['image', ''], 'media/b.jpeg': ['image', ''], 'media/logo.jpeg': ['image', ''] },
    { 'word/media/a.jpeg': portrait, 'word/media/b.jpeg': landscape, 'word/media/logo.jpeg': logo },
  )
  const { text, pages } = await readBytes(file, 'a.docx')
  expect(text.split('\n')[0]).toBe('Enclosure')
  expect(pages.map(({ needsOcr, width }) => [needsOcr, width])).toEqual([
    [false, null],
    [true, 1200],
    [true, 600],
  ])
  expect(await readImages(file, 'a.docx')).toMatchObject([{ width: 1200 }, { width: 600 }])
})

test('docx: pictures beside a text are illustrations; odt and pptx as docx', async () => {
  const words = 'an ordinary report with many words '.repeat(20)
  const report = docx(paragraph(words), {}, { 'word/media/a.jpeg': portrait, 'word/media/b.jpeg': landscape })
  expect((await readBytes(report, 'a.docx')).pages).toHaveLength(1)
  const slides = zip({
    '[Content_Types].xml': '<Types/>',
    'ppt/presentation.xml': '<p:presentation/>',
    'ppt/media/image10.jpeg': portrait,
    'ppt/media/image9.jpeg': landscape,
  })
  expect((await readBytes(slides, 'a.pptx')).pages.map(({ width }) => width)).toEqual([null, 1200, 600])
  const frame = (name: string) => `<draw:frame><draw:image xlink:href="Pictures/${name}"/></draw:frame>`
  const odt = openDocument('text', `<office:text>${frame('z.jpeg')}${frame('a.jpeg')}</office:text>`, undefined, {
    'Pictures/a.jpeg': portrait,
    'Pictures/z.jpeg': landscape,
    'Pictures/broken.jpeg': Buffer.alloc(20_000),
  })
  expect((await readBytes(odt, 'a.odt')).pages.map(({ width }) => width)).toEqual([null, 1200, 600])
})
