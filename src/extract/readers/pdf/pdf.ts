/** PDF: text where there is text, pictures of the pages where there is none. */
import sharp from 'sharp'
import { type OutlinePage, ReadFailure } from '../../../ports/document-reader.ts'
import {
  type Box,
  type ByteSource,
  bytesSource,
  type Contents,
  type Limits,
  type OpenedDocument,
  type Picture,
} from '../../opened-document.ts'
import { assessTextLayer, requiresOcr } from '../../text-layer.ts'
import { encodeThumbnail, toGray } from '../image.ts'
import { openTexts, type PdfText, type PdfTexts } from './pdf-text.ts'
import type { OpenPictures, PdfPage, PdfPictures, Survey } from './pdfium.ts'

/** A page tree may claim any number of pages. */
const mostPages = 20_000
const pointsPerInch = 72
/** Cards and labels are rendered larger than their size on paper asks. */
const leastSide = 1000

export interface PdfTools {
  readonly limits: Limits
  pdfium(): Promise<OpenPictures>
  /** Forgets a PDFium that failed inside; the next pdfium() loads a new one. */
  dropPdfium(): void
  /** Opens a file inside the file; null where it is too deep. */
  openPart(part: ByteSource): Promise<OpenedDocument | null>
}

/** Opens a PDF. Its methods throw ReadFailure FILE_CORRUPT, FILE_ENCRYPTED, FILE_TOO_COMPLEX, READ_CRASHED. */
export function openPdf(source: ByteSource, tools: PdfTools): OpenedDocument {
  let texts: Promise<PdfTexts> | undefined
  let pictures: Promise<PdfPictures> | undefined

  const openedTexts = (): Promise<PdfTexts> => {
    texts ??= openTexts(source.read())
    return texts
  }
  const openedPictures = (): Promise<PdfPictures> => {
    pictures ??= tools.pdfium().then((open) => open(source.read()))
    return pictures
  }

  /** Works on a page, counted from 1. An instance of PDFium that aborts is replaced once: many failures are of its past, not of this file. */
  async function onPage<T>(number: number, work: (page: PdfPage) => T, isAgain = false): Promise<T> {
    try {
      const page = (await openedPictures()).page(number - 1)
      const result = work(page)
      page.close()
      return result
    } catch (problem) {
      if (problem instanceof ReadFailure) throw problem
      pictures = undefined
      tools.dropPdfium()
      if (isAgain) throw new ReadFailure('READ_CRASHED', `Drawing page ${number} failed: ${problem}`)
      return onPage(number, work, true)
    }
  }

  /** What is on a page besides the layer; null where it cannot be drawn, so that OCR would not help either. */
  const look = (number: number): Promise<Survey | null> => onPage(number, (page) => page.survey()).catch(() => null)

  async function pagesOf(document: PdfTexts): Promise<{ pages: OutlinePage[]; skipped: number; damaged: number }> {
    const pages: OutlinePage[] = []
    let damaged = 0
    let wanting = 0
    for (let number = 1; number <= document.pageCount; number++) {
      const found = await document.page(number).catch(() => null)
      const layer = assessTextLayer(found?.text ?? '')
      const drawn = layer.isConclusive ? null : await look(number)
      const wants = drawn !== null && requiresOcr(layer, drawn)
      if (wants) wanting++
      else if (layer.text === '' && (!found || !drawn)) damaged++
      const needsOcr = wants && wanting <= tools.limits.maxPages
      pages.push({ page: number, text: layer.text, needsOcr, width: found?.width ?? null, height: found?.height ?? null })
    }
    return { pages, skipped: Math.max(0, wanting - tools.limits.maxPages), damaged }
  }

  async function attached(document: PdfTexts): Promise<OutlinePage[]> {
    const parts: OutlinePage[] = []
    for (const part of await document.attachments()) {
      const text = `${part.filename}\n${await textOfPart(bytesSource(part.bytes, part.filename), tools).catch(() => '')}`.trim()
      parts.push({ page: document.pageCount + parts.length + 1, text, needsOcr: false, width: null, height: null })
    }
    return parts
  }

  return {
    async contents(): Promise<Contents> {
      const document = await openedTexts()
      if (document.pageCount > mostPages)
        throw new ReadFailure('FILE_TOO_COMPLEX', `The PDF claims ${document.pageCount} pages; ${mostPages} are allowed.`)
      const { pages, skipped, damaged } = await pagesOf(document)
      if (damaged === pages.length) throw new ReadFailure('FILE_CORRUPT', 'No page of the PDF can be read.')
      const gaps = { ...(skipped > 0 && { pages_without_ocr: skipped }), ...(damaged > 0 && { pages_damaged: damaged }) }
      const metadata = { ...(await document.metadata()), ...gaps }
      return { metadata, pages: [...pages, ...(await attached(document))] }
    },

    async picture(number): Promise<Picture | null> {
      const found = await openedTexts()
        .then((document) => document.page(number))
        .catch((): PdfText | null => null)
      const layer = assessTextLayer(found?.text ?? '')
      const { jpeg, ...size } = await onPage(number, (page) => ({ jpeg: page.jpeg(), width: page.width, height: page.height }))
      const direct = jpeg && (await toGray(sharp(jpeg, { limitInputPixels: tools.limits.maxPixels, failOn: 'none' })).catch(() => null))
      const picture = direct
        ? { ...direct, dpi: Math.round((direct.width / size.width) * pointsPerInch) }
        : await onPage(number, (page) => renderGray(page, tools.limits))
      return { ...picture, text: layer.text, isTrusted: layer.isTrusted, page: size }
    },

    async thumbnail(box, type) {
      const { pixels, width, height } = await onPage(1, (page) => {
        const size = within(page, box)
        return { ...size, pixels: page.render(size.width, size.height, 'rgba') }
      })
      return encodeThumbnail(sharp(pixels, { raw: { width, height, channels: 4 } }), box, type)
    },

    close() {
      pictures?.then((document) => document.close()).catch(() => {})
      texts?.then((document) => document.close()).catch(() => {})
      pictures = undefined
      texts = undefined
    },
  }
}

function renderGray(page: PdfPage, { dpi, maxPixels }: Limits) {
  const { width: across, height: down } = page
  if (!(across > 0 && down > 0)) throw new ReadFailure('FILE_CORRUPT', 'The page has no size.')
  const wanted = Math.max(dpi / pointsPerInch, Math.min(leastSide / Math.max(across, down), (4 * dpi) / pointsPerInch))
  const scale = Math.min(wanted, Math.sqrt(maxPixels / (across * down)))
  const width = Math.max(1, Math.floor(across * scale))
  const height = Math.max(1, Math.floor(down * scale))
  if (width * height > maxPixels) throw new ReadFailure('FILE_TOO_COMPLEX', 'The page is too long to be drawn.')
  return { gray: page.render(width, height, 'gray'), width, height, dpi: Math.round(scale * pointsPerInch) }
}

/** The largest whole pixels inside the box with the page's proportions. */
function within(page: Box, box: Box): Box {
  const scale = Math.min(box.width / page.width, box.height / page.height)
  const side = (length: number, most: number): number => Math.min(most, Math.max(1, Math.round(length * scale) || 1))
  return { width: side(page.width, box.width), height: side(page.height, box.height) }
}

/** What a file inside the PDF says; pictures in it are not looked at. */
async function textOfPart(part: ByteSource, { openPart }: PdfTools): Promise<string> {
  const opened = await openPart(part)
  try {
    return ((await opened?.contents())?.pages ?? []).map(({ text }) => text).join('\n')
  } finally {
    opened?.close()
  }
}
