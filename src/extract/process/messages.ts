/** Messages between the server and its reader processes. */
import type { FileToRead, Outline, PageMark, ReadFailureCode, ReadPage, RenditionInfo, WordRow } from '../../ports/document-reader.ts'
import type { OcrSetup } from '../../ports/ocr-engine.ts'
import type { Converters } from '../converters/find-converters.ts'
import type { Box, Limits } from '../opened-document.ts'

/** The first message to a process. */
export interface Setup {
  readonly limits: Limits
  readonly ocr: OcrSetup | null
  readonly converters: Converters
}

export type Work =
  | { readonly kind: 'outline'; readonly file: FileToRead }
  | { readonly kind: 'outlines'; readonly files: readonly FileToRead[] }
  | { readonly kind: 'page'; readonly file: FileToRead; readonly page: number; readonly language: string }
  // A work with `output` makes a file: the process writes it to `outputName` in its own folder, and the server moves it to `output`.
  /** `texts`: file of JSON lines, a PageText each */
  | { readonly kind: 'pdfa'; readonly file: FileToRead; readonly texts: string; readonly info: RenditionInfo; readonly output: string }
  | {
      readonly kind: 'thumbnail'
      readonly file: FileToRead
      readonly page: number
      readonly box: Box
      readonly type: 'image/webp' | 'image/jpeg'
    }
  | { readonly kind: 'words'; readonly file: FileToRead; readonly page: number }
  | { readonly kind: 'marks'; readonly file: FileToRead; readonly pages: readonly number[]; readonly withBarcodes: boolean }
  | { readonly kind: 'part'; readonly file: FileToRead; readonly pages: readonly number[]; readonly output: string }

/** Every message after the first. */
export interface WorkMessage {
  readonly work: Work
  readonly timeoutMs: number
}

/** Message during a work: how long the process has waited for a processor, which extends its time limit. */
export interface WaitMessage {
  readonly waitMs: number
}

/** Name of the watchdog thread. */
export const watchdogName = 'watchdog'

/** Name of the file that a process writes in its own folder. */
export const outputName = 'output'

/** Lines that the watchdog writes to standard error before it kills the process. */
export const memoryNotice = 'reader process: out of memory\n'
export const timeoutNotice = 'reader process: the work took too long\n'

export type Answer =
  | { readonly outline: Outline }
  | { readonly outlines: readonly (Outline | null)[] }
  | { readonly page: ReadPage }
  | { readonly pdfa: true }
  | { readonly thumbnail: Uint8Array | null }
  | { readonly words: readonly WordRow[] }
  | { readonly marks: readonly PageMark[] }
  | { readonly part: true }
  | { readonly failure: { code: ReadFailureCode; message: string; isRetryable: boolean } }
