/** What we ask of whoever reads users' files. */
import type { OcrText } from './ocr-engine.ts'

/** A file on this machine and what is known of it. */
export interface FileToRead {
  readonly path: string
  readonly filename: string
  readonly mimeType: string
}

export interface OutlinePage {
  /** from 1 */
  readonly page: number
  /** text that the file itself carries; '' where there is none */
  readonly text: string
  /** what is left to do: nothing, or OCR of the picture (whose words join `text`) */
  readonly needsOcr: boolean
  /** size in points (1/72 inch) for PDFs, in pixels for images, null for flowing text */
  readonly width: number | null
  readonly height: number | null
}

/** What a file says without OCR. */
export interface Outline {
  /** decided by the bytes */
  readonly mimeType: string
  /** what the file says of itself, under plain keys: author, title, created, … */
  readonly metadata: Record<string, unknown>
  readonly pages: readonly OutlinePage[]
}

export interface ReadPage extends OcrText {
  readonly width: number | null
  readonly height: number | null
}

export interface ReadOptions {
  readonly signal?: AbortSignal
}

/** Reads users' files in processes of its own that can be killed: a bad file ends with ReadFailure, never with us. */
export interface DocumentReader {
  outline(file: FileToRead, options?: ReadOptions): Promise<Outline>
  /** OCR of one page that the outline says needs it; the answer holds the page's own text too. */
  page(file: FileToRead, page: number, language: string, options?: ReadOptions): Promise<ReadPage>
  /** A picture of the first page inside width × height pixels; null where the type has no picture. */
  thumbnail(
    file: FileToRead,
    size: { width: number; height: number },
    type: 'image/webp' | 'image/jpeg',
    options?: ReadOptions,
  ): Promise<Uint8Array | null>
  /** How many files can be read at the same time. */
  readonly slots: number
  close(): Promise<void>
}

/** Why a file could not be read; `code` becomes the document's `error.code`. */
export const readFailures = {
  FILE_CORRUPT: 'The file is damaged or not of the type that it claims.',
  FILE_ENCRYPTED: 'The file is protected by a password.',
  FILE_TOO_COMPLEX: 'The file is larger inside than the limits allow.',
  READ_TIMEOUT: 'Reading the file took longer than the limit.',
  READ_OUT_OF_MEMORY: 'Reading the file took more memory than the limit.',
  READ_CRASHED: 'The program that reads this type of file crashed on it.',
  OCR_LANGUAGE_MISSING: 'The OCR language is not installed.',
  OCR_FAILED: 'OCR failed.',
} as const

export type ReadFailureCode = keyof typeof readFailures

export class ReadFailure extends Error {
  readonly code: ReadFailureCode
  /** whether another try could end better (a crash might, a corrupt file will not) */
  readonly isRetryable: boolean

  constructor(code: ReadFailureCode, message: string = readFailures[code], retry = false) {
    super(message)
    this.name = 'ReadFailure'
    this.code = code
    this.isRetryable = retry
  }
}
