/** C functions of PDFium in WebAssembly, and access to its memory. */

/** C functions that dms calls. The types of the package name only some of them. */
export interface PdfiumModule {
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
    ...args: [bitmap: number, page: number, x: number, y: number, width: number, height: number, rotate: number, flags: number]
  ): void
}

/** Calls `write` with room for `count` 32-bit floats and returns them; null if it returns 0. */
export function readFloats(pdfium: PdfiumModule, count: number, write: (pointer: number) => number): number[] | null {
  const pointer = pdfium._malloc(count * 4)
  try {
    if (!write(pointer)) return null
    const view = new DataView(pdfium.HEAPU8.buffer, pointer, count * 4)
    return Array.from({ length: count }, (_, i) => view.getFloat32(i * 4, true))
  } finally {
    pdfium._free(pointer)
  }
}

/** Returns bytes of variable size; null if there are none. PDFium is called twice: the first call returns the size, the second the bytes. */
export function readBytes(pdfium: PdfiumModule, write: (buffer: number, size: number) => number): Uint8Array<ArrayBuffer> | null {
  const size = write(0, 0)
  const buffer = size > 0 ? pdfium._malloc(size) : 0
  if (!buffer) return null
  try {
    return write(buffer, size) ? (pdfium.HEAPU8.slice(buffer, buffer + size) as Uint8Array<ArrayBuffer>) : null
  } finally {
    pdfium._free(buffer)
  }
}
