/** What we ask of OCR. */

/** One page as OCR engines take it: 8-bit gray, row by row, no padding. */
export interface PageImage {
  readonly gray: Uint8Array
  readonly width: number
  readonly height: number
  readonly dpi: number
}

export interface OcrText {
  readonly text: string
  /** 0 to 1, the mean of the words; null where no word was found */
  readonly confidence: number | null
}

/** Turns pictures of pages into text. Lives in a reader process, one page at a time, one thread. */
export interface OcrEngine {
  readonly name: string
  /** `language` is one or more installed codes joined by `+`. Throws ReadFailure where it cannot be done. */
  recognize(page: PageImage, language: string): Promise<OcrText>
  close(): Promise<void>
}

/** What OCR there is on this machine: decided once at start. */
export interface OcrSetup {
  readonly engine: 'tesseract-js' | 'tesseract-native'
  /** the program, for the native engine */
  readonly command: string | null
  /** code -> folder that holds `<code>.traineddata` (raw or `.gz`) */
  readonly languages: ReadonlyMap<string, { readonly path: string; readonly gzip: boolean }>
}
