/** Interface of OCR engines. */

/** Page for OCR engines: 8-bit gray, row by row, without padding. */
export interface PageImage {
  readonly gray: Uint8Array
  readonly width: number
  readonly height: number
  readonly dpi: number
}

export interface OcrText {
  readonly text: string
  /** Mean confidence of the words, 0 to 1; null without words. */
  readonly confidence: number | null
}

/** Recognizes text in images of pages. Runs in a reader process, one page at a time, in one thread. */
export interface OcrEngine {
  readonly name: string
  /** `language` is one or more installed codes joined by `+`. Throws ReadFailure. */
  recognize(page: PageImage, language: string): Promise<OcrText>
  close(): Promise<void>
}

/** OCR engine and languages of this machine, detected at start. */
export interface OcrSetup {
  readonly engine: 'tesseract-js' | 'tesseract-native'
  /** Program of the native engine. */
  readonly command: string | null
  /** Folder of `<code>.traineddata` (raw or `.gz`) by language code. */
  readonly languages: ReadonlyMap<string, { readonly path: string; readonly gzip: boolean }>
}
