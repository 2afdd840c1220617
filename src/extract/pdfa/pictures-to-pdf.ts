/** Converts pictures to PDF/A-2u: one page for each, with its words as invisible text. */
import { PDFContext, type PDFRef, PDFStreamWriter } from '@cantoo/pdf-lib'
import type { Metadata, Sharp } from 'sharp'
import type { PageText, RenditionInfo } from '../../ports/document-reader.ts'
import { type Box, knownDensity } from '../opened-document.ts'
import { createGlyphlessFont, fontName, type GlyphlessFont } from './glyphless-font.ts'
import { invisibleText } from './invisible-text.ts'
import { addMetadata } from './metadata.ts'
import { type EmbeddedPicture, embedPicture } from './picture.ts'
import { deflated } from './streams.ts'

/** Pictures of a file. `open` returns one, counted from 0, with its pixels turned upright. */
export interface Pictures {
  readonly bytes: Uint8Array
  readonly metadata: Metadata
  readonly count: number
  open(index: number): Promise<Sharp>
}

const pointsPerInch = 72
/** Long side of A4, for pictures without a resolution. */
const defaultLongSide = 842
/** Limits of PDF/A-2 for the sides of a page, in points. */
const [minSide, maxSide] = [3, 14_400]

/** Returns the bytes of the PDF. Equal arguments return equal bytes. */
export async function picturesToPdf(pictures: Pictures, texts: ReadonlyMap<number, PageText>, info: RenditionInfo): Promise<Uint8Array> {
  const context = PDFContext.create()
  const pagesRef = context.nextRef()
  const font = createGlyphlessFont(context)
  const fontRef = context.nextRef()
  const pages: PDFRef[] = []
  for (let index = 0; index < pictures.count; index++) {
    const opened = await pictures.open(index)
    const metadata = index === 0 ? pictures.metadata : await opened.metadata()
    const picture = await embedPicture(context, pictures.bytes, metadata, () => opened)
    const size = pageSize(picture, knownDensity(metadata))
    const content = `q ${pictureMatrix(picture.orientation, size.width, size.height)} cm /P Do Q\n${textOf(texts.get(index + 1), font, size)}`
    const page = context.obj({
      Type: 'Page',
      Parent: pagesRef,
      MediaBox: [0, 0, size.width, size.height],
      Resources: { XObject: { P: picture.image }, Font: { [fontName]: fontRef } },
      Contents: context.register(deflated(context, Buffer.from(content, 'latin1'))),
    })
    pages.push(context.register(page))
  }
  font.write(fontRef)
  context.assign(pagesRef, context.obj({ Type: 'Pages', Kids: pages, Count: pages.length }))
  const catalog = context.obj({ Type: 'Catalog', Pages: pagesRef })
  context.trailerInfo.Root = context.register(catalog)
  await addMetadata(context, catalog, info)
  return PDFStreamWriter.forContext(context, Number.POSITIVE_INFINITY).serializeToBuffer()
}

const textOf = (text: PageText | undefined, font: GlyphlessFont, { width, height }: Box): string =>
  text ? invisibleText(font, text.words, width, height, text.angle) : ''

/** Returns the size of the page in points, after the orientation. */
function pageSize({ width, height, orientation }: EmbeddedPicture, density: number | null): Box {
  const dpi = density ?? Math.max(pointsPerInch, (Math.max(width, height) / defaultLongSide) * pointsPerInch)
  const side = (pixels: number): number => Number(Math.min(maxSide, Math.max(minSide, (pixels / dpi) * pointsPerInch)).toFixed(2))
  return orientation >= 5 ? { width: side(height), height: side(width) } : { width: side(width), height: side(height) }
}

/** Returns the matrix that places the unit square of a picture on the page, turned as EXIF says. */
function pictureMatrix(orientation: number, width: number, height: number): string {
  const matrices: Record<number, readonly number[]> = {
    2: [-width, 0, 0, height, width, 0],
    3: [-width, 0, 0, -height, width, height],
    4: [width, 0, 0, -height, 0, height],
    5: [0, -height, -width, 0, width, height],
    6: [0, -height, width, 0, 0, height],
    7: [0, height, width, 0, 0, 0],
    8: [0, height, -width, 0, width, 0],
  }
  return (matrices[orientation] ?? [width, 0, 0, height, 0, 0]).join(' ')
}
