/** Objects of a PDF page: a survey of them, and scans that consist of one JPEG. */
import { findJpegFrame } from '../jpeg.ts'
import { type PdfiumModule, type Rectangle, readBytes, readFloats, readStruct } from './pdfium-module.ts'

const objectTypes = { text: 1, path: 2, image: 3, shading: 4, form: 5 } as const
const maxObjects = 20_000
const maxFormDepth = 5

/** Counts of the objects on a page. */
export interface Survey {
  readonly texts: number
  /** share of the page that images cover, 0 to 1 */
  readonly imageShare: number
  /** number of line and curve segments of all paths. A frame has 5; a word drawn as outlines has hundreds. */
  readonly segments: number
}

const areaOf = ({ left, bottom, right, top }: Rectangle): number => Math.max(0, right - left) * Math.max(0, top - bottom)

const intersect = (a: Rectangle, b: Rectangle): Rectangle => ({
  left: Math.max(a.left, b.left),
  bottom: Math.max(a.bottom, b.bottom),
  right: Math.min(a.right, b.right),
  top: Math.min(a.top, b.top),
})

function pageBounds(pdfium: PdfiumModule, page: number): Rectangle | null {
  const box = readFloats(pdfium, 4, (pointer) => pdfium._FPDF_GetPageBoundingBox(page, pointer))
  return box && { left: box[0]!, top: box[1]!, right: box[2]!, bottom: box[3]! }
}

function objectBounds(pdfium: PdfiumModule, object: number): Rectangle | null {
  const box = readFloats(pdfium, 4, (p) => pdfium._FPDFPageObj_GetBounds(object, p, p + 4, p + 8, p + 12))
  return box && { left: box[0]!, bottom: box[1]!, right: box[2]!, top: box[3]! }
}

/** Counts the objects of a page, including nested forms, up to a maximum number and depth. */
export function surveyPage(pdfium: PdfiumModule, page: number): Survey {
  const box = pageBounds(pdfium, page)
  let [objects, texts, segments, imageArea] = [0, 0, 0, 0]
  const visit = (object: number, depth: number, formBounds: Rectangle | null): void => {
    if (++objects > maxObjects || !object) return
    const type = pdfium._FPDFPageObj_GetType(object)
    // Bounds inside a form are in units of the form. The bounds of the form are taken for those of its images.
    const bounds = type === objectTypes.image || type === objectTypes.form ? (formBounds ?? objectBounds(pdfium, object)) : null
    if (type === objectTypes.text) texts++
    if (type === objectTypes.path) segments += Math.max(0, pdfium._FPDFPath_CountSegments(object))
    if (type === objectTypes.shading) segments++
    if (type === objectTypes.image && bounds && box) imageArea += areaOf(intersect(bounds, box))
    if (type !== objectTypes.form || depth >= maxFormDepth) return
    const count = pdfium._FPDFFormObj_CountObjects(object)
    for (let i = 0; i < count && objects <= maxObjects; i++) visit(pdfium._FPDFFormObj_GetObject(object, i), depth + 1, bounds)
  }
  const count = pdfium._FPDFPage_CountObjects(page)
  for (let i = 0; i < count && objects <= maxObjects; i++) visit(pdfium._FPDFPage_GetObject(page, i), 0, null)
  const pageArea = box ? areaOf(box) : 0
  return { texts, imageShare: pageArea > 0 ? Math.min(1, imageArea / pageArea) : 0, segments }
}

/** Removes the text objects beside the displayed page from its text. Those of a form are removed with the whole form. */
export function hideTextsBeside(pdfium: PdfiumModule, page: number): void {
  const box = pageBounds(pdfium, page)
  if (!box) return
  const count = pdfium._FPDFPage_CountObjects(page)
  for (let i = 0; i < count; i++) {
    const object = pdfium._FPDFPage_GetObject(page, i)
    const type = pdfium._FPDFPageObj_GetType(object)
    const bounds = type === objectTypes.text || type === objectTypes.form ? objectBounds(pdfium, object) : null
    if (bounds && areaOf(bounds) > 0 && areaOf(intersect(bounds, box)) === 0)
      for (const text of listTexts(pdfium, object)) pdfium._FPDFPageObj_SetIsActive(text, 0)
  }
}

/** Returns a text object, or the text objects in a form and its nested forms, in the order of the content. */
function listTexts(pdfium: PdfiumModule, object: number): number[] {
  const type = pdfium._FPDFPageObj_GetType(object)
  if (type === objectTypes.text) return [object]
  const count = type === objectTypes.form ? pdfium._FPDFFormObj_CountObjects(object) : 0
  return Array.from({ length: count }, (_, i) => pdfium._FPDFFormObj_GetObject(object, i)).flatMap((inner) => listTexts(pdfium, inner))
}

/**
 * Removes text objects from the text of a loaded page. `isHidden` has all of them; with `isFlattened`, the objects of annotations follow them. Does nothing
 * and returns false if the page has another number of objects, because another library counted them.
 */
export function hideTexts(pdfium: PdfiumModule, page: number, isHidden: readonly boolean[], { isFlattened = false } = {}): boolean {
  const count = pdfium._FPDFPage_CountObjects(page)
  const texts = Array.from({ length: count }, (_, i) => pdfium._FPDFPage_GetObject(page, i)).flatMap((object) => listTexts(pdfium, object))
  if (isFlattened ? texts.length < isHidden.length : texts.length !== isHidden.length) return false
  for (const [i, object] of texts.entries()) if (isHidden[i]) pdfium._FPDFPageObj_SetIsActive(object, 0)
  return true
}

/** Returns the JPEG of a page that consists of one upright, opaque JPEG of its size; null for other pages. `file`: bytes of the PDF. */
export function readPageJpeg(pdfium: PdfiumModule, page: number, file: Uint8Array): Uint8Array<ArrayBuffer> | null {
  if (pdfium._FPDFPage_CountObjects(page) !== 1 || pdfium._FPDFPage_GetAnnotCount(page) > 0 || pdfium._FPDFPage_GetRotation(page) !== 0)
    return null
  const object = pdfium._FPDFPage_GetObject(page, 0)
  if (pdfium._FPDFPageObj_GetType(object) !== objectTypes.image || pdfium._FPDFPageObj_HasTransparency(object)) return null
  const matrix = readFloats(pdfium, 6, (pointer) => pdfium._FPDFPageObj_GetMatrix(object, pointer))
  const box = pageBounds(pdfium, page)
  const bounds = objectBounds(pdfium, object)
  if (!matrix || !box || !bounds || !isUpright(matrix)) return null
  // A smaller image lies on the page. A larger one is partly hidden.
  if (areaOf(intersect(bounds, box)) < 0.95 * areaOf(box) || areaOf(bounds) > 1.05 * areaOf(box)) return null
  if (pdfium._FPDFImageObj_GetImageFilterCount(object) !== 1 || readFilterName(pdfium, object) !== 'DCTDecode') return null
  const colourSpace = readImageMetadata(pdfium, page, object)?.colourSpace
  if (colourSpace === undefined || !brightnessSpaces.has(colourSpace)) return null
  const bytes = readBytes(pdfium, (buffer, size) => pdfium._FPDFImageObj_GetImageDataRaw(object, buffer, size))
  const frame = bytes && findJpegFrame(bytes)
  if (!bytes || frame === null) return null
  // Most JPEGs with four components are inverted, and only the renderer detects it.
  return [1, 3].includes(bytes[frame + 9]!) && !hasDecode(file, bytes) ? bytes : null
}

/**
 * Returns the resolution of a page that consists of one image, in dpi; null for other pages, and for an image with a mask, which may have a higher
 * resolution. `file`: bytes of the PDF.
 */
export function readScanDpi(pdfium: PdfiumModule, page: number, file: Uint8Array): number | null {
  if (pdfium._FPDFPage_CountObjects(page) !== 1 || pdfium._FPDFPage_GetAnnotCount(page) > 0) return null
  const object = pdfium._FPDFPage_GetObject(page, 0)
  if (pdfium._FPDFPageObj_GetType(object) !== objectTypes.image) return null
  const bytes = readBytes(pdfium, (buffer, size) => pdfium._FPDFImageObj_GetImageDataRaw(object, buffer, size))
  const dictionary = bytes && findDictionary(file, bytes)
  if (!dictionary || /\/S?Mask/.test(dictionary)) return null
  return readImageMetadata(pdfium, page, object)?.dpi || null
}

/** Size of FPDF_IMAGEOBJ_METADATA, and the positions of its fields. */
const imageMetadata = { bytes: 28, horizontalDpi: 8, verticalDpi: 12, colourSpace: 20 } as const

/** Returns the resolution of an image as placed on the page, and the number of its colour space; null if it cannot be read. */
function readImageMetadata(pdfium: PdfiumModule, page: number, object: number): { dpi: number; colourSpace: number } | null {
  const view = readStruct(pdfium, imageMetadata.bytes, (at) => pdfium._FPDFImageObj_GetImageMetadata(object, page, at))
  if (!view) return null
  const dpi = Math.max(view.getFloat32(imageMetadata.horizontalDpi, true), view.getFloat32(imageMetadata.verticalDpi, true))
  return { dpi, colourSpace: view.getInt32(imageMetadata.colourSpace, true) }
}

/** Colour spaces whose values are brightness: DeviceGray, DeviceRGB, CalGray, CalRGB and ICCBased. Values of inks are inverted. */
const brightnessSpaces: ReadonlySet<number> = new Set([1, 2, 4, 5, 7])

/** Returns whether an image has an array that maps its values, such as [1 0] for an inverted one, or whether that is unknown. */
function hasDecode(file: Uint8Array, image: Uint8Array): boolean {
  const dictionary = findDictionary(file, image)
  return dictionary === null || /\/Decode\s*[[\d]/.test(dictionary)
}

/** Returns the dictionary of a stream, which stands before it and is never compressed; null if it is not found. PDFium has no function for it. */
function findDictionary(file: Uint8Array, stream: Uint8Array): string | null {
  const buffer = Buffer.from(file.buffer, file.byteOffset, file.length)
  const at = buffer.indexOf(stream)
  const start = at < 0 ? -1 : buffer.lastIndexOf(' obj', at)
  return start < 0 ? null : buffer.subarray(start, at).toString('latin1')
}

const isUpright = ([a, b, c, d]: number[]): boolean => a! > 0 && d! > 0 && Math.abs(b!) < 0.01 * a! && Math.abs(c!) < 0.01 * d!

function readFilterName(pdfium: PdfiumModule, object: number): string {
  const bytes = readBytes(pdfium, (buffer, size) => pdfium._FPDFImageObj_GetImageFilter(object, 0, buffer, size))
  return bytes ? Buffer.from(bytes).toString('latin1').replaceAll('\0', '') : ''
}
