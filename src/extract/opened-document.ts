/** A file opened for reading, whatever its kind. */
import { closeSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import type { OutlinePage } from '../ports/document-reader.ts'

/** Bytes to read: a file on disk or a part of another file. */
export interface ByteSource {
  readonly filename: string
  readonly size: number
  /** All bytes, a copy that the caller may keep, change or give away. */
  read(): Uint8Array<ArrayBuffer>
  /** At most `size` first bytes. */
  head(size: number): Uint8Array<ArrayBuffer>
}

export interface Limits {
  /** how many pages of one file may need OCR */
  readonly maxPages: number
  /** pixels of one decoded picture */
  readonly maxPixels: number
  /** of rendered PDF pages */
  readonly dpi: number
}

export interface Contents {
  readonly metadata: Record<string, unknown>
  readonly pages: readonly OutlinePage[]
}

/** What OCR needs of a page, and what the file itself says there. */
export interface Picture {
  readonly gray: Uint8Array
  readonly width: number
  readonly height: number
  /** null where the file does not say */
  readonly dpi: number | null
  /** the file's own text of the page */
  readonly text: string
  /** whether `text` is readable; where it is not, OCR replaces it */
  readonly isTrusted: boolean
  /** size as in the outline */
  readonly page: { readonly width: number; readonly height: number }
}

export interface Box {
  readonly width: number
  readonly height: number
}

export interface OpenedDocument {
  contents(): Promise<Contents>
  /** The picture of one page, counted from 1; null where there is none. */
  picture(page: number): Promise<Picture | null>
  /** Encoded picture of the first page inside the box; null where the kind has none. */
  thumbnail(box: Box, type: 'image/webp' | 'image/jpeg'): Promise<Uint8Array | null>
  close(): void
}

/** Opens a kind that is nothing but text: one page, no picture. */
export function openTextOnly(read: () => Promise<{ text: string; metadata?: Record<string, unknown> }>): OpenedDocument {
  return {
    async contents() {
      const { text, metadata = {} } = await read()
      return { metadata, pages: [{ page: 1, text, needsOcr: false, width: null, height: null }] }
    },
    picture: async () => null,
    thumbnail: async () => null,
    close() {},
  }
}

/** A file on this machine. */
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

/** Bytes that are already in memory. */
export const bytesSource = (bytes: Uint8Array, filename: string): ByteSource => ({
  filename,
  size: bytes.length,
  read: () => new Uint8Array(bytes),
  head: (size) => new Uint8Array(bytes.subarray(0, size)),
})
