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
  _FPDF_GetMetaText(document: number, key: number, buffer: number, size: number): number
  _FPDF_GetFormType(document: number): number
  _FPDF_GetXFAPacketCount(document: number): number
  _FPDF_GetXFAPacketName(document: number, index: number, buffer: number, size: number): number
  _FPDF_GetXFAPacketContent(document: number, index: number, buffer: number, size: number, sizePointer: number): number
  _FPDFDOC_InitFormFillEnvironment(document: number, info: number): number
  _FPDFDOC_ExitFormFillEnvironment(form: number): void
  _FPDFDoc_GetAttachmentCount(document: number): number
  _FPDFDoc_GetAttachment(document: number, index: number): number
  _FPDFAttachment_GetName(attachment: number, buffer: number, size: number): number
  _FPDFAttachment_GetFile(attachment: number, buffer: number, size: number, sizePointer: number): number
  _FPDFText_LoadPage(page: number): number
  _FPDFText_ClosePage(textPage: number): void
  _FPDFText_CountChars(textPage: number): number
  _FPDFText_GetText(textPage: number, start: number, count: number, buffer: number): number
  _FPDFText_GetTextIndexFromCharIndex(textPage: number, index: number): number
  _FPDFText_GetCharIndexFromTextIndex(textPage: number, index: number): number
  _FPDFText_HasUnicodeMapError(textPage: number, index: number): number
  _FPDFText_GetFontInfo(textPage: number, index: number, buffer: number, size: number, flags: number): number
  _FPDFText_IsGenerated(textPage: number, index: number): number
  _FPDFText_GetUnicode(textPage: number, index: number): number
  _FPDFText_GetTextObject(textPage: number, index: number): number
  _FPDFText_GetCharBox(textPage: number, index: number, left: number, right: number, bottom: number, top: number): number
  _FPDFText_GetLooseCharBox(textPage: number, index: number, rectangle: number): number
  _FPDF_PageToDevice(
    ...args: [
      page: number,
      x: number,
      y: number,
      width: number,
      height: number,
      rotate: number,
      pageX: number,
      pageY: number,
      deviceX: number,
      deviceY: number,
    ]
  ): number
  _FPDFPage_GetRotation(page: number): number
  _FPDFPage_GetAnnot(page: number, index: number): number
  _FPDFPage_CloseAnnot(annotation: number): void
  _FPDFPage_Flatten(page: number, usage: number): number
  _FPDFAnnot_GetSubtype(annotation: number): number
  _FPDFAnnot_GetFlags(annotation: number): number
  _FPDFAnnot_GetStringValue(annotation: number, key: number, buffer: number, size: number): number
  _FPDFAnnot_GetFormFieldType(form: number, annotation: number): number
  _FPDFAnnot_GetFormFieldFlags(form: number, annotation: number): number
  _FPDFAnnot_GetFormFieldValue(form: number, annotation: number, buffer: number, size: number): number
  _FPDFAnnot_GetFileAttachment(annotation: number): number
  _FPDFPage_GetAnnotCount(page: number): number
  _FPDFPage_CountObjects(page: number): number
  _FPDFPage_GetObject(page: number, index: number): number
  _FPDFPageObj_GetType(object: number): number
  _FPDFPageObj_GetBounds(object: number, left: number, bottom: number, right: number, top: number): number
  _FPDFPageObj_GetMatrix(object: number, matrix: number): number
  _FPDFPageObj_HasTransparency(object: number): number
  _FPDFPageObj_SetIsActive(object: number, isActive: number): number
  _FPDFPath_CountSegments(object: number): number
  _FPDFFormObj_CountObjects(object: number): number
  _FPDFFormObj_GetObject(object: number, index: number): number
  _FPDFImageObj_GetImageMetadata(object: number, page: number, metadata: number): number
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

/** A rectangle in points. The y axis points up. */
export interface Rectangle {
  readonly left: number
  readonly bottom: number
  readonly right: number
  readonly top: number
}

/** Calls `write` with room for `size` bytes and returns a copy of them; null if it returns 0. */
export function readStruct(pdfium: PdfiumModule, size: number, write: (pointer: number) => number): DataView | null {
  const pointer = pdfium._malloc(size)
  try {
    return write(pointer) ? new DataView(pdfium.HEAPU8.slice(pointer, pointer + size).buffer) : null
  } finally {
    pdfium._free(pointer)
  }
}

/** Calls `write` with room for `count` 32-bit floats and returns them; null if it returns 0. */
export function readFloats(pdfium: PdfiumModule, count: number, write: (pointer: number) => number): number[] | null {
  const view = readStruct(pdfium, count * 4, write)
  return view && Array.from({ length: count }, (_, i) => view.getFloat32(i * 4, true))
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

/** Returns UTF-16 text of variable size, without its terminator. */
export function readText(pdfium: PdfiumModule, write: (buffer: number, size: number) => number): string {
  const bytes = readBytes(pdfium, write)
  return bytes ? new TextDecoder('utf-16le').decode(bytes.subarray(0, -2)) : ''
}

/** Returns bytes whose size PDFium writes to a pointer; null if there are none or more than `maxBytes`. */
export function readSizedBytes(
  pdfium: PdfiumModule,
  maxBytes: number,
  write: (buffer: number, size: number, sizePointer: number) => number,
): Uint8Array<ArrayBuffer> | null {
  const pointer = pdfium._malloc(4)
  try {
    const getSize = (): number => new DataView(pdfium.HEAPU8.buffer).getUint32(pointer, true)
    if (!write(0, 0, pointer) || getSize() > maxBytes) return null
    return readBytes(pdfium, (buffer, size) => (buffer === 0 ? getSize() : write(buffer, size, pointer)))
  } finally {
    pdfium._free(pointer)
  }
}

/** Calls `work` with a pointer to a string of ASCII. */
export function withString<T>(pdfium: PdfiumModule, text: string, work: (pointer: number) => T): T {
  const bytes = Buffer.from(`${text}\0`, 'latin1')
  const pointer = pdfium._malloc(bytes.length)
  pdfium.HEAPU8.set(bytes, pointer)
  try {
    return work(pointer)
  } finally {
    pdfium._free(pointer)
  }
}
