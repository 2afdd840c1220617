/** Interface of all readers: an opened file. */
import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import type { OutlinePage, PageText, RenditionInfo, WordRow } from '../ports/document-reader.ts'

/** Bytes of a file on disk or of a part of another file. */
export interface ByteSource {
  readonly filename: string
  readonly size: number
  /** Returns a copy of all bytes, which the caller owns. */
  read(): Uint8Array<ArrayBuffer>
  /** Returns at most `size` first bytes. */
  head(size: number): Uint8Array<ArrayBuffer>
}

export interface Limits {
  /** maximum number of pages of a file for OCR */
  readonly maxPages: number
  /** maximum pixels of a decoded image */
  readonly maxPixels: number
  /** resolution of rendered PDF pages */
  readonly dpi: number
}

/** `date`: see Outline. */
export interface Contents {
  readonly metadata: Record<string, unknown>
  readonly date?: string | undefined
  readonly pages: readonly OutlinePage[]
}

/** Image of a page for OCR, and the text layer of the page. */
export interface Picture {
  readonly gray: Uint8Array
  readonly width: number
  readonly height: number
  /** null: not stated in the file */
  readonly dpi: number | null
  /** text layer */
  readonly text: string
  /** whether `text` is readable; else OCR replaces it */
  readonly isTrusted: boolean
  /** size in the units of the outline */
  readonly page: { readonly width: number; readonly height: number }
}

export interface Box {
  readonly width: number
  readonly height: number
}

export interface OpenedDocument {
  contents(): Promise<Contents>
  /** Returns the image of a page, counted from 1; null if there is none. */
  picture(page: number): Promise<Picture | null>
  /** Returns an encoded image of a page, by default the first, inside the box; null without one. */
  thumbnail(box: Box, type: 'image/webp' | 'image/jpeg', page?: number): Promise<Uint8Array | null>
  /** Returns the words in the text layer of a page, counted from 1. Missing for types whose words have no positions. */
  words?(page: number): Promise<readonly WordRow[]>
  /** Returns a PDF/A-2u with these words behind the pages, by number. Throws ReadFailure NOT_CONVERTIBLE. Missing for types without pages. */
  pdfa?(texts: ReadonlyMap<number, PageText>, info: RenditionInfo): Promise<Uint8Array>
  /** Returns a file of the same type with these pages, counted from 1. Missing for types whose pages cannot be copied. */
  copyPages?(pages: readonly number[]): Promise<Uint8Array>
  close(): void
}

/** Returns a document of one page of text without images. */
export function openTextOnly(
  read: () => Promise<{ text: string; metadata?: Record<string, unknown>; date?: string | undefined }>,
): OpenedDocument {
  return {
    async contents() {
      const { text, metadata = {}, date } = await read()
      return { metadata, date, pages: [{ page: 1, text, needsOcr: false, width: null, height: null }] }
    },
    picture: async () => null,
    thumbnail: async () => null,
    close() {},
  }
}

/** Returns a source that reads a local file. */
export const fileSource = (path: string, filename = basename(path)): ByteSource => ({
  filename,
  size: statSync(path).size,
  read: () => new Uint8Array(readFileSync(path)),
  head(size) {
    const bytes = new Uint8Array(Math.min(size, statSync(path).size))
    const file = openSync(path, 'r')
    try {
      return bytes.subarray(0, readSync(file, bytes))
    } finally {
      closeSync(file)
    }
  },
})

/** Returns a source of bytes in memory. */
export const bytesSource = (bytes: Uint8Array, filename: string): ByteSource => ({
  filename,
  size: bytes.length,
  read: () => new Uint8Array(bytes),
  head: (size) => new Uint8Array(bytes.subarray(0, size)),
})

/** Densities that programs write when they do not know the real one, in pixels per inch. */
const unknownDensities = new Set([0, 1, 25, 72, 96])

/** Returns the pixels per inch that a picture declares; null if it does not know them. Without a unit, a density is only a ratio of sides. */
export function knownDensity({ density = 0, resolutionUnit }: { density?: number; resolutionUnit?: string }): number | null {
  const rounded = Math.round(density)
  return resolutionUnit === undefined || unknownDensities.has(rounded) ? null : rounded
}
