/** PDFium, as far as we need it: what a page is made of, and pictures of it. */
import { PDFiumModule } from '@hyzyla/pdfium'
import { ReadFailure } from '../../../ports/document-reader.ts'

/** The C functions that we call; the package's own types name only some. */
interface Module {
  HEAPU8: Uint8Array
  _malloc(size: number): number
  _free(pointer: number): void
  _FPDF_InitLibrary(): void
  _FPDF_LoadMemDocument(pointer: number, size: number, password: number): number
  _FPDF_GetLastError(): number
  _FPDF_GetPageCount(document: number): number
  _FPDF_CloseDocument(document: number): void
  _FPDF_LoadPage(document: number, index: number): number
  _FPDF_ClosePage(page: number): void
  _FPDF_GetPageWidthF(page: number): number
  _FPDF_GetPageHeightF(page: number): number
  _FPDF_GetPageBoundingBox(page: number, rectangle: number): number
  _FPDFPage_GetRotation(page: number): number
  _FPDFPage_GetAnnotCount(page: number): number
  _FPDFPage_CountObjects(page: number): number
  _FPDFPage_GetObject(page: number, index: number): number
  _FPDFPageObj_GetType(object: number): number
  _FPDFPageObj_GetBounds(object: number, left: number, bottom: number, right: number, top: number): number
  _FPDFPageObj_GetMatrix(object: number, matrix: number): number
  _FPDFPageObj_HasTransparency(object: number): number
  _FPDFPath_CountSegments(object: number): number
  _FPDFFormObj_CountObjects(object: number): number
  _FPDFFormObj_GetObject(object: number, index: number): number
  _FPDFImageObj_GetImageDataRaw(object: number, buffer: number, size: number): number
  _FPDFImageObj_GetImageFilterCount(object: number): number
  _FPDFImageObj_GetImageFilter(object: number, index: number, buffer: number, size: number): number
  _FPDFBitmap_CreateEx(width: number, height: number, format: number, buffer: number, stride: number): number
  _FPDFBitmap_FillRect(bitmap: number, left: number, top: number, width: number, height: number, color: number): void
  _FPDFBitmap_GetBuffer(bitmap: number): number
  _FPDFBitmap_GetStride(bitmap: number): number
  _FPDFBitmap_Destroy(bitmap: number): void
  _FPDF_RenderPageBitmap(
    bitmap: number,
    page: number,
    x: number,
    y: number,
    width: number,
    height: number,
    rotate: number,
    flags: number,
  ): void
}

const objectTypes = { text: 1, path: 2, image: 3, shading: 4, form: 5 } as const
const formats = { gray: { id: 1, channels: 1, flags: 0x01 | 0x08 }, rgba: { id: 4, channels: 4, flags: 0x01 | 0x10 } } as const
const maxObjects = 20_000
const maxFormDepth = 5

/** What a page draws. */
export interface Survey {
  readonly texts: number
  /** 0 to 1, share of the page under images */
  readonly imageShare: number
  /** line and curve segments of all paths: a frame has 5, a word turned into outlines hundreds */
  readonly segments: number
}

export interface PdfPage {
  /** points, as the reader sees the page */
  readonly width: number
  readonly height: number
  survey(): Survey
  /** The JPEG that is the whole page, upright and unmasked, or null. */
  jpeg(): Uint8Array<ArrayBuffer> | null
  /** The page on white, in exactly this many pixels, row by row. */
  render(width: number, height: number, format: keyof typeof formats): Uint8Array<ArrayBuffer>
  close(): void
}

export interface PdfPictures {
  readonly pageCount: number
  /** Opens a page, counted from 0. */
  page(index: number): PdfPage
  close(): void
}

export type OpenPictures = (bytes: Uint8Array) => PdfPictures

/** Loads PDFium. An error that it throws itself leaves the instance unusable: give up the process then. */
export async function loadPdfium(): Promise<OpenPictures> {
  const pdfium = (await PDFiumModule({})) as unknown as Module
  pdfium._FPDF_InitLibrary()
  return (bytes) => openPictures(pdfium, bytes)
}

function openPictures(pdfium: Module, bytes: Uint8Array): PdfPictures {
  const memory = pdfium._malloc(bytes.length)
  if (!memory) throw new ReadFailure('FILE_TOO_COMPLEX')
  pdfium.HEAPU8.set(bytes, memory)
  const document = pdfium._FPDF_LoadMemDocument(memory, bytes.length, 0)
  if (!document) {
    const isLocked = pdfium._FPDF_GetLastError() === 4
    pdfium._free(memory)
    throw new ReadFailure(isLocked ? 'FILE_ENCRYPTED' : 'FILE_CORRUPT')
  }
  return {
    pageCount: pdfium._FPDF_GetPageCount(document),
    page: (index) => openPage(pdfium, document, index),
    close() {
      pdfium._FPDF_CloseDocument(document)
      pdfium._free(memory)
    },
  }
}

function openPage(pdfium: Module, document: number, index: number): PdfPage {
  const page = pdfium._FPDF_LoadPage(document, index)
  if (!page) throw new ReadFailure('FILE_CORRUPT', `Page ${index + 1} is damaged.`)
  return {
    width: pdfium._FPDF_GetPageWidthF(page),
    height: pdfium._FPDF_GetPageHeightF(page),
    survey: () => survey(pdfium, page),
    jpeg: () => wholePageJpeg(pdfium, page),
    render: (width, height, format) => render(pdfium, page, width, height, formats[format]),
    close: () => pdfium._FPDF_ClosePage(page),
  }
}

/** Calls `read` with room for `count` 32-bit floats and answers what it wrote there, or null where it says 0. */
function floats(pdfium: Module, count: number, read: (pointer: number) => number): number[] | null {
  const pointer = pdfium._malloc(count * 4)
  try {
    if (!read(pointer)) return null
    const view = new DataView(pdfium.HEAPU8.buffer, pointer, count * 4)
    return Array.from({ length: count }, (_, i) => view.getFloat32(i * 4, true))
  } finally {
    pdfium._free(pointer)
  }
}

interface Rectangle {
  left: number
  bottom: number
  right: number
  top: number
}

const area = ({ left, bottom, right, top }: Rectangle): number => Math.max(0, right - left) * Math.max(0, top - bottom)

function pageBox(pdfium: Module, page: number): Rectangle | null {
  const box = floats(pdfium, 4, (pointer) => pdfium._FPDF_GetPageBoundingBox(page, pointer))
  return box && { left: box[0]!, top: box[1]!, right: box[2]!, bottom: box[3]! }
}

function bounds(pdfium: Module, object: number): Rectangle | null {
  const box = floats(pdfium, 4, (p) => pdfium._FPDFPageObj_GetBounds(object, p, p + 4, p + 8, p + 12))
  return box && { left: box[0]!, bottom: box[1]!, right: box[2]!, top: box[3]! }
}

const overlap = (a: Rectangle, b: Rectangle): Rectangle => ({
  left: Math.max(a.left, b.left),
  bottom: Math.max(a.bottom, b.bottom),
  right: Math.min(a.right, b.right),
  top: Math.min(a.top, b.top),
})

function survey(pdfium: Module, page: number): Survey {
  const box = pageBox(pdfium, page)
  const found = { images: 0, segments: 0, texts: 0, objects: 0 }
  const look = (object: number, depth: number, placed: Rectangle | null): void => {
    if (++found.objects > maxObjects || !object) return
    const type = pdfium._FPDFPageObj_GetType(object)
    if (type === objectTypes.text) found.texts++
    if (type === objectTypes.path) found.segments += Math.max(0, pdfium._FPDFPath_CountSegments(object))
    if (type === objectTypes.shading) found.segments += 1
    if (type === objectTypes.image) {
      // Inside a form the bounds are the form's own units, so that the form's place on the page stands for its images.
      const at = placed ?? bounds(pdfium, object)
      if (at && box) found.images += area(overlap(at, box))
    }
    if (type !== objectTypes.form || depth >= maxFormDepth) return
    const at = placed ?? bounds(pdfium, object)
    const count = pdfium._FPDFFormObj_CountObjects(object)
    for (let i = 0; i < count && found.objects <= maxObjects; i++) look(pdfium._FPDFFormObj_GetObject(object, i), depth + 1, at)
  }
  const count = pdfium._FPDFPage_CountObjects(page)
  for (let i = 0; i < count && found.objects <= maxObjects; i++) look(pdfium._FPDFPage_GetObject(page, i), 0, null)
  const whole = box ? area(box) : 0
  return { texts: found.texts, imageShare: whole > 0 ? Math.min(1, found.images / whole) : 0, segments: found.segments }
}

function wholePageJpeg(pdfium: Module, page: number): Uint8Array<ArrayBuffer> | null {
  if (pdfium._FPDFPage_CountObjects(page) !== 1 || pdfium._FPDFPage_GetAnnotCount(page) > 0 || pdfium._FPDFPage_GetRotation(page) !== 0)
    return null
  const object = pdfium._FPDFPage_GetObject(page, 0)
  if (pdfium._FPDFPageObj_GetType(object) !== objectTypes.image || pdfium._FPDFPageObj_HasTransparency(object)) return null
  const matrix = floats(pdfium, 6, (pointer) => pdfium._FPDFPageObj_GetMatrix(object, pointer))
  const box = pageBox(pdfium, page)
  const at = bounds(pdfium, object)
  if (!matrix || !box || !at || !isUpright(matrix)) return null
  // Smaller than the page: a picture on it. Larger: a part of the picture is hidden.
  if (area(overlap(at, box)) < 0.95 * area(box) || area(at) > 1.05 * area(box)) return null
  if (pdfium._FPDFImageObj_GetImageFilterCount(object) !== 1 || filterName(pdfium, object) !== 'DCTDecode') return null
  const bytes = copyOut(pdfium, (buffer, size) => pdfium._FPDFImageObj_GetImageDataRaw(object, buffer, size))
  return bytes && isGrayOrColor(bytes) ? bytes : null
}

const isUpright = ([a, b, c, d]: number[]): boolean => a! > 0 && d! > 0 && Math.abs(b!) < 0.01 * a! && Math.abs(c!) < 0.01 * d!

const filterName = (pdfium: Module, object: number): string => {
  const bytes = copyOut(pdfium, (buffer, size) => pdfium._FPDFImageObj_GetImageFilter(object, 0, buffer, size))
  return bytes ? Buffer.from(bytes).toString('latin1').replaceAll('\0', '') : ''
}

/** One or three components: those of four are mostly inverted, and only the renderer knows. */
function isGrayOrColor(jpeg: Uint8Array): boolean {
  for (let at = 2; at + 9 < jpeg.length && jpeg[at] === 0xff; ) {
    const marker = jpeg[at + 1]!
    if (marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc)
      return jpeg[at + 9] === 1 || jpeg[at + 9] === 3
    at += 2 + jpeg[at + 2]! * 256 + jpeg[at + 3]!
  }
  return false
}

/** Two calls, as PDFium does it: the first asks for the size, the second for the bytes. */
function copyOut(pdfium: Module, read: (buffer: number, size: number) => number): Uint8Array<ArrayBuffer> | null {
  const size = read(0, 0)
  const buffer = size > 0 ? pdfium._malloc(size) : 0
  if (!buffer) return null
  try {
    return read(buffer, size) ? (pdfium.HEAPU8.slice(buffer, buffer + size) as Uint8Array<ArrayBuffer>) : null
  } finally {
    pdfium._free(buffer)
  }
}

function render(
  pdfium: Module,
  page: number,
  width: number,
  height: number,
  format: (typeof formats)[keyof typeof formats],
): Uint8Array<ArrayBuffer> {
  const bitmap = pdfium._FPDFBitmap_CreateEx(width, height, format.id, 0, 0)
  if (!bitmap) throw new ReadFailure('FILE_TOO_COMPLEX')
  try {
    pdfium._FPDFBitmap_FillRect(bitmap, 0, 0, width, height, 0xffffffff)
    pdfium._FPDF_RenderPageBitmap(bitmap, page, 0, 0, width, height, 0, format.flags)
    const start = pdfium._FPDFBitmap_GetBuffer(bitmap)
    const stride = pdfium._FPDFBitmap_GetStride(bitmap)
    const row = width * format.channels
    if (stride === row) return pdfium.HEAPU8.slice(start, start + row * height) as Uint8Array<ArrayBuffer>
    const pixels = new Uint8Array(row * height)
    for (let y = 0; y < height; y++) pixels.set(pdfium.HEAPU8.subarray(start + y * stride, start + y * stride + row), y * row)
    return pixels
  } finally {
    pdfium._FPDFBitmap_Destroy(bitmap)
  }
}
