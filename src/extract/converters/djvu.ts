/** Reader of DjVu files by the programs of DjVuLibre: the text layer, and images of pages without one. */
import { dirname, join } from 'node:path'
import sharp from 'sharp'
import { ReadFailure } from '../../ports/document-reader.ts'
import type { Box, ByteSource, Limits, OpenedDocument } from '../opened-document.ts'
import { decode, maxTextLength, normalizeWhitespace } from '../readers/decode.ts'
import { encodeThumbnail } from '../readers/image.ts'
import { runProgram, withCopy } from './run-program.ts'

const maxPages = 20_000
const maxDumpBytes = 64 * 1024 * 1024
/** End of a page in the output of `print-pure-txt`, even of a page without text. */
const pageEnd = '\f'

/** `ddjvu` is the path of the program; the others of its package are in the same folder. */
export async function openDjvu(source: ByteSource, ddjvu: string, { limits }: { readonly limits: Limits }): Promise<OpenedDocument> {
  const run = (name: string, args: readonly string[], maxBytes: number) =>
    withCopy(source, 'djvu', (path) => runProgram(join(dirname(ddjvu), name), [...args, path], maxBytes))
  const pages = listPages((await run('djvudump', [], maxDumpBytes)).toString())
  if (pages.length === 0) throw new ReadFailure('FILE_CORRUPT', 'The DjVu file has no pages, or they are in other files.')
  if (pages.length > maxPages) throw new ReadFailure('FILE_TOO_COMPLEX', `The file has ${pages.length} pages; ${maxPages} are allowed.`)

  /** Renders a page as a Netpbm image without its header. */
  async function render(number: number, format: 'pgm' | 'ppm', box: Box) {
    if (box.width * box.height > limits.maxPixels)
      throw new ReadFailure('FILE_TOO_COMPLEX', `The page has ${box.width} × ${box.height} pixels.`)
    const args = [`-format=${format}`, `-page=${number}`, `-size=${box.width}x${box.height}`]
    const image = await run('ddjvu', args, limits.maxPixels * 3 + 100)
    const [header = '', width, height] = /^P[56]\s+(\d+)\s+(\d+)\s+255\s/.exec(image.subarray(0, 100).toString('latin1')) ?? []
    if (header === '') throw new ReadFailure('FILE_CORRUPT', 'The page cannot be rendered.')
    return { pixels: image.subarray(header.length), width: Number(width), height: Number(height) }
  }

  return {
    async contents() {
      const texts = decode(await run('djvused', ['-u', '-e', 'print-pure-txt'], maxTextLength * 4)).split(pageEnd)
      let ocrPages = 0
      const outline = pages.map(({ width, height }, i) => {
        const text = normalizeWhitespace(texts[i] ?? '')
        const needsOcr = text === '' && ++ocrPages <= limits.maxPages
        return { page: i + 1, text, needsOcr, width, height }
      })
      const skipped = Math.max(0, ocrPages - limits.maxPages)
      return { metadata: { page_count: pages.length, ...(skipped > 0 && { pages_without_ocr: skipped }) }, pages: outline }
    },
    async picture(number) {
      const page = pages[number - 1]
      if (!page) return null
      const { pixels, width, height } = await render(number, 'pgm', page)
      return { gray: pixels, width, height, dpi: page.dpi, text: '', isTrusted: true, page }
    },
    async thumbnail(box, type) {
      const { pixels, width, height } = await render(1, 'ppm', box)
      return encodeThumbnail(sharp(pixels, { raw: { width, height, channels: 3 } }), box, type)
    },
    close() {},
  }
}

/** Reads the sizes in pixels and resolutions of pages from the output of djvudump. */
const listPages = (dump: string) =>
  Array.from(dump.matchAll(/^ *INFO \[\d+\] +DjVu (\d+)x(\d+), v\d+, (\d+) dpi/gm), ([, width, height, dpi]) => ({
    width: Number(width),
    height: Number(height),
    dpi: Number(dpi),
  }))
