/** A scripted reader of documents, for results that real files cannot cause. */
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { DocumentReader, ReadFailure, ReadOptions } from '../../src/ports/document-reader.ts'

export interface FakeReader extends DocumentReader {
  /** the requested pages, in order; 0 for an outline */
  readonly calls: number[]
}

/** Documents of `pages` pages that all need OCR. `onPage` may wait, throw, or return the text. */
export function fakeReader(
  pages: number,
  onPage: (page: number, options: ReadOptions) => Promise<string | undefined> | string | undefined = () => undefined,
): FakeReader {
  const calls: number[] = []
  const size = { width: 100, height: 100 }
  return {
    calls,
    slots: 2,
    async outline() {
      calls.push(0)
      const all = Array.from({ length: pages }, (_, index) => ({ page: index + 1, text: '', needsOcr: true, ...size }))
      return { mimeType: 'application/pdf', hasReader: true, metadata: { author: 'Fake' }, pages: all }
    },
    outlines: async (files) => files.map(() => null),
    async page(_file, page, _language, options = {}) {
      calls.push(page)
      return {
        text: (await onPage(page, options)) ?? `text of page ${page}`,
        confidence: 0.5,
        words: [],
        language: null,
        angle: 0,
        ...size,
      }
    },
    thumbnail: async () => null,
    words: async () => [],
    marks: async () => [],
    copyPages: (_file, _pages, use) => use(Readable.from([])),
    pdfa: (_file, _texts, _info, use) => use(Readable.from([Buffer.from('%PDF-1.7')])),
    close: async () => {},
  }
}

/** Reads endlessly until it is aborted. */
export async function forever({ signal }: ReadOptions): Promise<undefined> {
  for (;;) {
    signal?.throwIfAborted()
    await sleep(10)
  }
}

export const always = (failure: ReadFailure) => (): never => {
  throw failure
}
