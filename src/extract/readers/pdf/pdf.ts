/** PDF reader: the text layer, and images of the pages without one. */
import sharp from 'sharp'
import { type OutlinePage, ReadFailure } from '../../../ports/document-reader.ts'
import type { Converters } from '../../converters/find-converters.ts'
import {
  type Box,
  type ByteSource,
  bytesSource,
  type Contents,
  type Limits,
  type OpenedDocument,
  type Picture,
} from '../../opened-document.ts'
import { openWithParts, type PartTools } from '../../parts.ts'
import type { PageSource } from '../../pdfa/pdf-to-pdfa.ts'
import { assessTextLayer, joinTexts, requiresOcr } from '../../text-layer.ts'
import { maxTextLength } from '../decode.ts'
import { encodeThumbnail, toGray } from '../image.ts'
import { findCompounds, joinHyphenatedWords, softLineEnd } from './page-text.ts'
import type { OpenPdfium, PdfiumDocument, PdfPage } from './pdfium.ts'
import { openPageTexts } from './text-with-fallback.ts'

/** Maximum number of pages. A crafted page tree can state any number. */
const maxPages = 20_000
/** Number of failures of PDFium after which a file is given up. */
const maxCrashes = 4
/** Memory of PDFium above which the next file gets a new instance. The memory never shrinks. */
const maxHeapBytes = 256 * 1024 * 1024
const pointsPerInch = 72
const longSideOfA4 = 842
/** Resolution of pages that become pictures in a PDF/A. */
const pictureDpi = 300
/** Minimum longer side of a rendered page, in pixels. Small pages, such as labels, get a higher resolution. */
const minLongSide = 1000

export interface PdfTools extends PartTools {
  pdfium(): Promise<OpenPdfium>
  /** Drops a failed instance of PDFium; the next pdfium() loads another. */
  dropPdfium(): void
  /** Default: none. */
  readonly converters?: Converters
}

/** Opens a PDF. Its methods throw ReadFailure FILE_CORRUPT, FILE_ENCRYPTED, FILE_TOO_COMPLEX, READ_CRASHED. */
export function openPdf(source: ByteSource, tools: PdfTools): OpenedDocument {
  let opened: Promise<PdfiumDocument> | undefined
  let crashCount = 0
  let arePagesRead = false

  /** Calls `work`. Retries once with a new PDFium if the instance fails, because an earlier file may have damaged it. */
  async function withPdfium<T>(work: (document: PdfiumDocument) => T, isRetry = false): Promise<T> {
    try {
      opened ??= tools.pdfium().then((open) => open(source.read()))
      return work(await opened)
    } catch (problem) {
      if (problem instanceof ReadFailure) throw problem
      opened = undefined
      tools.dropPdfium()
      crashCount++
      if (isRetry || crashCount > maxCrashes) throw new ReadFailure('READ_CRASHED', `PDFium failed: ${problem}`)
      return withPdfium(work, true)
    }
  }

  /** Calls `work` with a page, counted from 1. */
  const onPage = <T>(number: number, work: (page: PdfPage) => T): Promise<T> =>
    withPdfium((document) => {
      const page = document.page(number - 1)
      const result = work(page)
      page.close()
      return result
    })
  const texts = openPageTexts(source, { withPdfium, onPage })

  async function readPages(pageCount: number): Promise<{ pages: OutlinePage[]; skipped: number; damaged: number }> {
    const pages: OutlinePage[] = []
    let damaged = 0
    let ocrPages = 0
    let textLength = 0
    for (let number = 1; number <= pageCount; number++) {
      // The rest of an endless text would be cut off anyway.
      if (textLength > maxTextLength) {
        pages.push({ page: number, text: '', needsOcr: false, width: null, height: null })
        continue
      }
      const content = await texts.page(number)
      const layer = assessTextLayer(content?.text ?? '', content?.isMapped)
      textLength += layer.text.length
      // A page that cannot be surveyed cannot be rendered for OCR either.
      const survey = layer.isConclusive ? null : await onPage(number, (page) => page.survey()).catch(() => null)
      const isForOcr = survey !== null && requiresOcr(layer, survey)
      if (isForOcr) ocrPages++
      else if (layer.text === '' && (!content || !survey)) damaged++
      const needsOcr = isForOcr && ocrPages <= tools.limits.maxPages
      pages.push({ page: number, text: layer.text, needsOcr, width: content?.width ?? null, height: content?.height ?? null })
    }
    return { pages, skipped: Math.max(0, ocrPages - tools.limits.maxPages), damaged }
  }

  const attachments = openWithParts(tools, async ({ addPart }) => {
    // Pages name the files that are attached to them.
    if (!arePagesRead) for (let number = 1; number <= (await texts.pageCount()); number++) await texts.page(number)
    for (const { filename, bytes } of await texts.attachments()) await addPart(bytesSource(bytes, filename))
    return { metadata: {} }
  })

  /** Returns the pages of attached files, numbered after those of the document. */
  async function readAttachments(pageCount: number, maxOcrPages: number): Promise<Contents & { skipped: number }> {
    const { pages, ...rest } = await attachments.contents()
    const skipped = Number(rest.metadata.pages_without_ocr ?? 0)
    if (pages.length === 1 && pages[0]!.text === '') return { ...rest, pages: [], skipped }
    const numbered = pages.map((page, i) => ({ ...page, page: pageCount + page.page, needsOcr: page.needsOcr && i <= maxOcrPages }))
    return { ...rest, pages: numbered, skipped: skipped + Math.max(0, pages.length - 1 - maxOcrPages) }
  }

  return {
    async contents(): Promise<Contents> {
      const pageCount = await texts.pageCount()
      if (pageCount > maxPages) throw new ReadFailure('FILE_TOO_COMPLEX', `The PDF has ${pageCount} pages; ${maxPages} are allowed.`)
      const { pages, skipped, damaged } = await readPages(pageCount)
      arePagesRead = true
      if (damaged === pages.length) throw new ReadFailure('FILE_CORRUPT', 'No page of the PDF can be read.')
      const { metadata, date } = await texts.metadata()
      const [first, ...others] = joinHyphens(pages)
      const form = await texts.formText()
      const text = form === '' ? first!.text : joinTexts(first!.text, form)
      const left = tools.limits.maxPages - pages.filter(({ needsOcr }) => needsOcr).length
      const attached = await readAttachments(pageCount, left)
      const counts = {
        page_count: pageCount,
        ...(skipped + attached.skipped > 0 && { pages_without_ocr: skipped + attached.skipped }),
        ...(damaged > 0 && { pages_damaged: damaged }),
      }
      return {
        metadata: { ...metadata, ...attached.metadata, ...counts },
        date,
        pages: [{ ...first!, text }, ...others, ...attached.pages],
      }
    },

    async picture(number): Promise<Picture | null> {
      const pageCount = await texts.pageCount()
      if (number > pageCount) return attachments.picture(number - pageCount)
      const content = await texts.page(number)
      const layer = assessTextLayer(content?.text ?? '', content?.isMapped)
      const { jpeg, ...size } = await onPage(number, (page) => ({ jpeg: page.jpeg(), width: page.width, height: page.height }))
      const direct = jpeg && (await toGray(sharp(jpeg, { limitInputPixels: tools.limits.maxPixels, failOn: 'none' })).catch(() => null))
      const picture = direct
        ? { ...direct, dpi: Math.round((direct.width / size.width) * pointsPerInch) }
        : await onPage(number, (page) => renderGray(page, tools.limits))
      return { ...picture, text: joinHyphenatedWords(layer.text, new Set()), isTrusted: layer.isTrusted, page: size }
    },

    async thumbnail(box, type, number = 1) {
      const pageCount = number === 1 ? 1 : await texts.pageCount()
      if (number > pageCount) return attachments.thumbnail(box, type, number - pageCount)
      const { pixels, width, height } = await onPage(number, (page) => {
        const size = fitInside(page, box)
        return { ...size, pixels: page.render(size.width, size.height, 'rgba') }
      })
      return encodeThumbnail(sharp(pixels, { raw: { width, height, channels: 4 } }), box, type)
    },

    words: async (number) => (number > (await texts.pageCount()) ? [] : texts.words(number)),

    async copyPages(pages) {
      return (await import('../../split/copy-pages.ts')).copyPages(source.read(), pages)
    },

    async pdfa(words, info) {
      const [{ pdfToPdfa }, { embedPixels, embedPicture }] = await Promise.all([
        import('../../pdfa/pdf-to-pdfa.ts'),
        import('../../pdfa/picture.ts'),
      ])
      const draw: PageSource['draw'] = async (context, number) => {
        const jpeg = await onPage(number, (page) => page.jpeg())
        const open = (bytes: Uint8Array) => sharp(bytes, { limitInputPixels: tools.limits.maxPixels, failOn: 'none' })
        const metadata =
          jpeg &&
          (await open(jpeg)
            .metadata()
            .catch(() => null))
        if (metadata) return embedPicture(context, jpeg, { ...metadata, orientation: 1 }, () => open(jpeg))
        const { pixels, width, height } = await onPage(number, (page) => renderColour(page, tools.limits))
        return embedPixels(context, sharp(pixels, { raw: { width, height, channels: 4 }, limitInputPixels: false }), { format: 'jpeg' })
      }
      return pdfToPdfa(source.read(), words, info, { draw, words: texts.words })
    },

    close() {
      const closing = opened?.then((document) => {
        document.close()
        if (document.heapBytes() > maxHeapBytes) tools.dropPdfium()
      })
      closing?.catch(() => tools.dropPdfium())
      opened = undefined
      attachments.close()
      texts.close()
    },
  }
}

/** Joins the words that were divided at line ends. Compounds are known from the whole document. */
function joinHyphens(pages: readonly OutlinePage[]): OutlinePage[] {
  const compounds = new Set<string>()
  if (pages.some(({ text }) => text.includes(softLineEnd)))
    for (const { text } of pages) for (const compound of findCompounds(text)) compounds.add(compound)
  return pages.map((page) => ({ ...page, text: joinHyphenatedWords(page.text, compounds) }))
}

function renderGray(page: PdfPage, { dpi, maxPixels }: Limits) {
  if (!(page.width > 0 && page.height > 0)) throw new ReadFailure('FILE_CORRUPT', 'The page has no size.')
  const longSide = Math.max(page.width, page.height)
  // Not above the resolution of a scan that is larger than A4, such as one that counts each pixel as a point.
  const scanDpi = longSide > longSideOfA4 ? page.scanDpi() : null
  const scaleOfDpi = Math.min(dpi, Math.max(scanDpi ?? dpi, (dpi * longSideOfA4) / longSide)) / pointsPerInch
  const scaleOfSmallPage = Math.min(minLongSide / longSide, 4 * scaleOfDpi)
  const scale = Math.min(Math.max(scaleOfDpi, scaleOfSmallPage), Math.sqrt(maxPixels / (page.width * page.height)))
  const width = Math.max(1, Math.floor(page.width * scale))
  const height = Math.max(1, Math.floor(page.height * scale))
  if (width * height > maxPixels) throw new ReadFailure('FILE_TOO_COMPLEX', 'The page is too long to be rendered.')
  return { gray: page.render(width, height, 'gray'), width, height, dpi: Math.round(scale * pointsPerInch) }
}

/** Renders at most half of `maxPixels`: a pixel in colour takes 18 bytes until it is compressed. */
function renderColour(page: PdfPage, { maxPixels }: Limits) {
  const dpi = Math.min(pictureDpi, page.scanDpi() ?? pictureDpi)
  const scale = Math.min(dpi / pointsPerInch, Math.sqrt(maxPixels / 2 / (page.width * page.height)))
  const [width, height] = [Math.max(1, Math.floor(page.width * scale)), Math.max(1, Math.floor(page.height * scale))]
  return { pixels: page.render(width, height, 'rgba'), width, height }
}

/** Returns the largest size in whole pixels that fits the box and keeps the proportions of the page. */
function fitInside(page: Box, box: Box): Box {
  const scale = Math.min(box.width / page.width, box.height / page.height)
  const side = (length: number, max: number): number => Math.min(max, Math.max(1, Math.round(length * scale) || 1))
  return { width: side(page.width, box.width), height: side(page.height, box.height) }
}
