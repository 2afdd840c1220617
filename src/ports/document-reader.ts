/** Interface of document readers. */
import type { WordBox } from './ocr-engine.ts'

/** Local file with its name and type. */
export interface FileToRead {
  readonly path: string
  readonly filename: string
  readonly mimeType: string
}

export interface OutlinePage {
  /** Number of the page, from 1. */
  readonly page: number
  /** Text layer of the page; '' without one. */
  readonly text: string
  /** Languages of the text, as Tesseract codes joined by `+`; null or missing: unknown. */
  readonly language?: string | null | undefined
  /** The page has an image whose words OCR adds to `text`. */
  readonly needsOcr: boolean
  /** Size in points (1/72 inch) for PDFs, in pixels for images, null for flowing text. */
  readonly width: number | null
  readonly height: number | null
}

/** Content of a file without OCR. */
export interface Outline {
  /** Type detected from the bytes. */
  readonly mimeType: string
  /** Whether dms reads this type. Without a reader there is no text. */
  readonly hasReader: boolean
  /** Debian package with a program that reads this type; missing: none, or it is installed */
  readonly missingPackage?: string
  /** Metadata of the file: author, title, created, … */
  readonly metadata: Record<string, unknown>
  /** Time of creation, beginning with YYYY-MM-DD, in the time zone of the author if `metadata.created` is in another zone. */
  readonly date?: string | undefined
  readonly pages: readonly OutlinePage[]
}

export interface PageWord {
  readonly text: string
  /** 0 to 1 */
  readonly confidence: number
  /** Fractions of width and height of the page as displayed. On a skewed page, the smallest upright box around the word. */
  readonly box: WordBox
}

export interface ReadPage {
  readonly text: string
  /** Mean confidence of the words that OCR found, 0 to 1; null without such words. */
  readonly confidence: number | null
  /** words that OCR found, in reading order */
  readonly words: readonly PageWord[]
  /**
   * Languages of the text, as Tesseract codes joined by `+`, including languages without a model; null: unknown. `und`, or `und-` and an ISO 15924
   * code: letters that no installed model reads.
   */
  readonly language: string | null
  /** Degrees, -180 to 180, by which lines of text on the displayed page are turned clockwise; 0 if they are level. */
  readonly angle: number
  /** Words may be missing, because the time limit left no time for a further pass; missing: false */
  readonly isIncomplete?: boolean
  readonly width: number | null
  readonly height: number | null
}

/** A word of a page: text, confidence 0 to 100, and its box (left, top, width, height) in 1/10000 of the displayed page. */
export type WordRow = readonly [text: string, confidence: number, left: number, top: number, width: number, height: number]

/** Words of a page, in reading order. `angle`: see ReadPage. */
export interface PageText {
  readonly page: number
  readonly angle: number
  readonly words: readonly WordRow[]
}

/** Metadata of a rendition. */
export interface RenditionInfo {
  readonly title: string
  readonly author: string | null
  /** times in ISO 8601 */
  readonly created: string
  readonly modified: string
  /** BCP 47; null: unknown */
  readonly language: string | null
  /** program and version that makes the rendition */
  readonly producer: string
  /** SHA-256 (hex) of the original */
  readonly sha256: string
}

/** Marks of a page for splitting its file. */
export interface PageMark {
  readonly page: number
  readonly isBlank: boolean
  /** the page is a separator sheet */
  readonly isSeparator: boolean
  /** archive serial number on the page */
  readonly serialNumber: number | null
}

export interface ReadOptions {
  readonly signal?: AbortSignal
  /** Name that works wait under, such as the owner of the file. Names take turns for a free process. */
  readonly turn?: string
}

/** Maximum wall-clock time of a work, as a multiple of its time limit. The limit leaves out time spent waiting for a processor. */
export const maxWallFactor = 10

/** Reads files of users in separate processes. A malicious file causes ReadFailure, never a crash of the caller. */
export interface DocumentReader {
  outline(file: FileToRead, options?: ReadOptions): Promise<Outline>
  /** Returns the outlines of small files of one owner, null for those that cannot be read. Throws ReadFailure if one of them crashed the process. */
  outlines(files: readonly FileToRead[], options?: ReadOptions): Promise<readonly (Outline | null)[]>
  /** Runs OCR on a page with `needsOcr`. `language`: codes joined by `+`, or `auto`. Returns its words together with the text layer. */
  page(file: FileToRead, page: number, language: string, options?: ReadOptions): Promise<ReadPage>
  /** Returns an image of a page, by default the first, within width × height pixels; null without one. */
  thumbnail(
    file: FileToRead,
    size: { width: number; height: number },
    type: 'image/webp' | 'image/jpeg',
    options?: ReadOptions & { readonly page?: number },
  ): Promise<Uint8Array | null>
  /** Returns the words in the text layer of a page, counted from 1; none for other types than PDF. */
  words(file: FileToRead, page: number, options?: ReadOptions): Promise<readonly WordRow[]>
  /** Returns the marks of pages, counted from 1. Pages without a picture have none. Reads barcodes only if `withBarcodes`. */
  marks(file: FileToRead, pages: readonly number[], options: ReadOptions & { readonly withBarcodes: boolean }): Promise<readonly PageMark[]>
  /**
   * Makes a file with these pages, counted from 1. Returns the result of `use` for its bytes. Equal pages give equal bytes. Throws ReadFailure
   * FILE_CORRUPT for types without pages.
   */
  copyPages<T>(
    file: FileToRead,
    pages: readonly number[],
    use: (bytes: AsyncIterable<Uint8Array>) => Promise<T>,
    options?: ReadOptions,
  ): Promise<T>
  /**
   * Makes a PDF/A-2u with these words behind the pages. Returns the result of `use` for its bytes. Throws ReadFailure NOT_CONVERTIBLE with the reason
   * if the file cannot be converted.
   */
  pdfa<T>(
    file: FileToRead,
    texts: AsyncIterable<PageText>,
    info: RenditionInfo,
    use: (bytes: AsyncIterable<Uint8Array>) => Promise<T>,
    options?: ReadOptions,
  ): Promise<T>
  /** Number of files that can be read at the same time. */
  readonly slots: number
  close(): Promise<void>
}

/** Reasons of read failures. The code becomes `error.code` of the document. */
const readFailures = {
  FILE_CORRUPT: 'The file is damaged or not of the type that it claims.',
  FILE_ENCRYPTED: 'The file is protected by a password.',
  FILE_TOO_COMPLEX: 'The file is larger inside than the limits allow.',
  READ_TIMEOUT: 'Reading the file took longer than the limit.',
  READ_OUT_OF_MEMORY: 'Reading the file took more memory than the limit.',
  READ_CRASHED: 'The program that reads this type of file crashed on it.',
  OCR_LANGUAGE_MISSING: 'The OCR language is not installed.',
  OCR_FAILED: 'OCR failed.',
  NOT_CONVERTIBLE: 'The file cannot be converted to PDF/A.',
} as const

export type ReadFailureCode = keyof typeof readFailures

export class ReadFailure extends Error {
  readonly code: ReadFailureCode
  /** A retry may succeed: after a crash, but not for a corrupt file. */
  readonly isRetryable: boolean

  constructor(code: ReadFailureCode, message: string = readFailures[code], { isRetryable = false } = {}) {
    super(message)
    this.name = 'ReadFailure'
    this.code = code
    this.isRetryable = isRetryable
  }
}
