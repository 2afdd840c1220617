/** Interface of OCR engines. */

/** Language of documents whose languages are detected. */
export const autoLanguage = 'auto'

/** Page for OCR engines: 8-bit gray, row by row, without padding. */
export interface PageImage {
  readonly gray: Uint8Array
  readonly width: number
  readonly height: number
  readonly dpi: number
}

export interface WordBox {
  readonly left: number
  readonly top: number
  readonly width: number
  readonly height: number
}

export interface OcrWord {
  readonly text: string
  /** 0 to 1 */
  readonly confidence: number
  /** in pixels of the recognized image */
  readonly box: WordBox
  /** Lines and paragraphs are numbered in reading order, from 0. */
  readonly line: number
  readonly paragraph: number
}

export interface OcrText {
  /** One line of `text` for each line of words, an empty line between paragraphs. */
  readonly text: string
  /** Mean confidence of the words, weighted by their length, 0 to 1; null without words. */
  readonly confidence: number | null
  /** in reading order */
  readonly words: readonly OcrWord[]
}

/**
 * Page segmentation: `auto` finds columns, `block` takes the page as one column of lines, `sparse` finds words anywhere, in no order.
 * They are Tesseract's modes 3, 6 and 11.
 */
export type OcrLayout = 'auto' | 'block' | 'sparse'

/** `fast` reads a page once, `balanced` reads uncertain pages again, `best` reads every page again. */
export type OcrQuality = 'fast' | 'balanced' | 'best'

/** Model of a language. A second one, where installed, confuses other letters. */
export type OcrModel = 'first' | 'second'

/** Recognizes text in images of pages. Runs in a reader process, one page at a time, in one thread. */
export interface OcrEngine {
  readonly name: string
  /** `language` is one or more installed codes joined by `+`. The model is the first one by default. Throws ReadFailure. */
  recognize(page: PageImage, language: string, options: { readonly layout: OcrLayout; readonly model?: OcrModel }): Promise<OcrText>
  /** Returns whether every code of `language` has a second model. */
  hasSecondModel(language: string): boolean
  /** Returns the ISO 15924 code of the script of a page, such as Cyrl; null if it is not certain, or without the model `osd`. */
  detectScript(page: PageImage): Promise<string | null>
  close(): Promise<void>
}

/** Folder of `<code>.traineddata`, or of `<code>.traineddata.gz`. */
export interface ModelFile {
  readonly path: string
  readonly gzip: boolean
}

/** OCR engine and languages of this machine. */
export interface OcrSetup {
  readonly engine: 'tesseract-js' | 'tesseract-native'
  /** Program of the native engine. */
  readonly command: string | null
  /** by language code */
  readonly languages: ReadonlyMap<string, ModelFile>
  /** further models of these languages, by language code */
  readonly secondModels: ReadonlyMap<string, ModelFile>
  /** model that detects scripts; null: not installed */
  readonly osd: ModelFile | null
  readonly quality: OcrQuality
}

/** OCR of this machine, with languages that can be installed and removed while it runs. */
export interface InstalledOcr extends OcrSetup {
  /** Searches for models again. `languages` stays the same object if nothing has changed. */
  refresh(): Promise<void>
}
