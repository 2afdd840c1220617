/** Converts a PDF to PDF/A-2u. Copies pages that conform, adds the words of OCR to scans, and redraws scans that do not conform as pictures. */
import {
  decodePDFRawStream,
  EncryptedPDFError,
  PDFArray,
  PDFDict,
  PDFDocument,
  PDFName,
  PDFRawStream,
  type PDFRef,
  PDFStreamWriter,
} from '@cantoo/pdf-lib'
import { type PageText, ReadFailure, type RenditionInfo, type WordRow } from '../../ports/document-reader.ts'
import { checkAnnotations, removeAllButLinks } from './check-annotations.ts'
import { type CheckedContent, checkContent, emptyContent, firstProblem } from './check-content.ts'
import { createGlyphlessFont, fontName } from './glyphless-font.ts'
import { invisibleText } from './invisible-text.ts'
import { addMetadata } from './metadata.ts'
import type { EmbeddedPicture } from './picture.ts'
import { checkCatalog, removeUnreachable } from './sanitize.ts'
import { deflated, type PdfContext } from './streams.ts'

/** Pages of the PDF, counted from 1. */
export interface PageSource {
  /** Draws a page with its annotations as picture for `context`. */
  draw(context: PdfContext, page: number): Promise<EmbeddedPicture>
  /** Returns the words in the text layer of a page. */
  words(page: number): Promise<readonly WordRow[]>
}

type Page = ReturnType<PDFDocument['getPages']>[number]

/** Limits of PDF/A-2 for the sides of a page, in points. */
const [minSide, maxSide] = [3, 14_400]

const refuse = (reason: string): ReadFailure => new ReadFailure('NOT_CONVERTIBLE', `The PDF cannot be converted to PDF/A: ${reason}.`)

/** Returns the bytes of the PDF/A. Equal arguments return equal bytes. Throws ReadFailure NOT_CONVERTIBLE with the reason. */
export async function pdfToPdfa(
  bytes: Uint8Array,
  texts: ReadonlyMap<number, PageText>,
  info: RenditionInfo,
  pages: PageSource,
): Promise<Uint8Array> {
  try {
    return await convert(bytes, texts, info, pages)
  } catch (problem) {
    // The library throws on objects of another type than expected.
    throw problem instanceof ReadFailure ? problem : refuse(`it is damaged (${messageOf(problem)})`)
  }
}

const messageOf = (problem: unknown): string => (problem instanceof Error ? (problem.message.split('\n')[0] ?? '') : String(problem))

async function convert(
  bytes: Uint8Array,
  texts: ReadonlyMap<number, PageText>,
  info: RenditionInfo,
  { draw, words }: PageSource,
): Promise<Uint8Array> {
  const document = await load(bytes)
  const { context, catalog } = document
  const reason = checkCatalog(catalog)
  if (reason) throw refuse(reason)
  const font = createGlyphlessFont(context)
  const fontRef = context.nextRef()
  let hasWords = false
  for (const [index, page] of document.getPages().entries()) {
    const number = index + 1
    const size = page.getSize()
    if ([size.width, size.height].some((side) => !(side >= minSide && side <= maxSide)))
      throw refuse(`page ${number} is too large or too small`)
    const content = checkPage(page)
    const annotationProblem = checkAnnotations(page.node, content)
    const problem = firstProblem(content) ?? annotationProblem
    // A picture lacks the invisible text of a page that another program has read.
    const text = texts.get(number) ?? (problem && content.hasText ? { page: number, angle: 0, words: await words(number) } : undefined)
    if (content.hasMedia) throw refuse(`page ${number} has annotations with files, sounds or films`)
    if (problem) {
      if (content.hasVisibleText || !content.hasImage) throw refuse(`page ${number}${problem.startsWith('the font') ? ':' : ''} ${problem}`)
      replaceByPicture(context, page, await draw(context, number))
    } else if (content.hasText || !text) continue
    const shown = text ? textOf(page, text, font) : ''
    if (shown === '') continue
    hasWords = true
    addContent(context, page, shown, fontRef)
  }
  if (hasWords) font.write(fontRef)
  await addMetadata(context, catalog, info)
  removeUnreachable(context, catalog)
  return PDFStreamWriter.forContext(context, Number.POSITIVE_INFINITY).serializeToBuffer()
}

async function load(bytes: Uint8Array): Promise<PDFDocument> {
  try {
    const document = await PDFDocument.load(bytes, {
      updateMetadata: false,
      throwOnInvalidObject: false,
      parseSpeed: Number.POSITIVE_INFINITY,
    })
    if (document.getPageCount() > 0) return document
  } catch (problem) {
    if (problem instanceof EncryptedPDFError) throw refuse('it is encrypted')
    throw problem
  }
  throw refuse('it has no pages')
}

function checkPage({ node }: Page): CheckedContent {
  const found = emptyContent()
  for (const key of ['AA', 'PieceInfo', 'Metadata', 'PresSteps', 'Thumb']) node.delete(PDFName.of(key))
  const resources = node.Resources() ?? (node.context.obj({}) as PDFDict)
  // Inherited entries count as missing.
  node.set(PDFName.of('Resources'), resources)
  const contents = node.Contents()
  const streams = contents instanceof PDFArray ? contents.asArray().map((_, i) => contents.lookup(i)) : [contents]
  const parts: Buffer[] = []
  for (const stream of streams) {
    if (contents === undefined) continue
    if (!(stream instanceof PDFRawStream) || stream.dict.has(PDFName.of('Type'))) found.problems.add('has contents of another kind')
    else parts.push(Buffer.from(decodePDFRawStream(stream).decode()), Buffer.from('\n'))
  }
  checkContent(Buffer.concat(parts), resources, found, new Set())
  return found
}

interface Frame {
  /** size of the displayed page in points */
  readonly width: number
  readonly height: number
  /** matrix from the displayed page, whose origin is below left, to user space */
  readonly matrix: string
}

/** Returns the part of the crop box that is on the page (PDF 32000-1, 14.11.2); the page if there is none. */
function shownBox(page: Page): { x: number; y: number; width: number; height: number } {
  const [crop, media] = [page.getCropBox(), page.getMediaBox()]
  const [x, y] = [Math.max(crop.x, media.x), Math.max(crop.y, media.y)]
  const width = Math.min(crop.x + crop.width, media.x + media.width) - x
  const height = Math.min(crop.y + crop.height, media.y + media.height) - y
  return width > 0 && height > 0 ? { x, y, width, height } : media
}

function frameOf(page: Page): Frame {
  const { x, y, width, height } = shownBox(page)
  const rotation = ((page.getRotation().angle % 360) + 360) % 360
  if (rotation === 90) return { width: height, height: width, matrix: `0 1 -1 0 ${x + width} ${y}` }
  if (rotation === 180) return { width, height, matrix: `-1 0 0 -1 ${x + width} ${y + height}` }
  if (rotation === 270) return { width: height, height: width, matrix: `0 -1 1 0 ${x} ${y + height}` }
  return { width, height, matrix: `1 0 0 1 ${x} ${y}` }
}

function textOf(page: Page, text: PageText, font: ReturnType<typeof createGlyphlessFont>): string {
  const { width, height, matrix } = frameOf(page)
  const shown = invisibleText(font, text.words, width, height, text.angle)
  return shown === '' ? '' : `q ${matrix} cm\n${shown}Q\n`
}

/** Adds operators after the contents of a page, in its initial graphics state. */
function addContent(context: PdfContext, { node }: Page, operators: string, fontRef: PDFRef): void {
  const contents = node.Contents()
  const single = node.get(PDFName.of('Contents'))
  const before = contents instanceof PDFArray ? contents.asArray() : single ? [single] : []
  const stream = (text: string) => context.register(deflated(context, Buffer.from(text, 'latin1')))
  node.set(PDFName.of('Contents'), context.obj([stream('q\n'), ...before, stream(`\nQ\n${operators}`)]))
  const resources = node.Resources() as PDFDict
  const fonts = resources.lookup(PDFName.of('Font'))
  if (fonts instanceof PDFDict) fonts.set(PDFName.of(fontName), fontRef)
  else resources.set(PDFName.of('Font'), context.obj({ [fontName]: fontRef }))
}

function replaceByPicture(context: PdfContext, page: Page, { image }: EmbeddedPicture): void {
  const { width, height, matrix } = frameOf(page)
  const content = `q ${matrix} cm ${width} 0 0 ${height} 0 0 cm /P Do Q\n`
  page.node.set(PDFName.of('Contents'), context.obj([context.register(deflated(context, Buffer.from(content)))]))
  page.node.set(PDFName.of('Resources'), context.obj({ XObject: { P: image } }))
  page.node.delete(PDFName.of('Group'))
  removeAllButLinks(page.node)
}
