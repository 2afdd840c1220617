/** Files in files: attachments, members of archives, embedded objects. */
import type { OutlinePage } from '../ports/document-reader.ts'
import type { ByteSource, Contents, Limits, OpenedDocument } from './opened-document.ts'
import { createTextSink, normalizeWhitespace } from './readers/decode.ts'

/** Limits of the parts that one call reads at all depths: number, total bytes, and time after which it opens no further part. */
const maxParts = 2000
const maxPartBytes = 1024 * 1024 * 1024
const maxPartMs = 30_000

export interface PartTools {
  readonly limits: Limits
  /** Opens a nested file. Returns null if it is nested too deeply or exceeds the budget of its outermost file. */
  openPart(part: ByteSource): Promise<OpenedDocument | null>
}

export interface PartBudget {
  /** Takes one part from the budget. Returns false if it is exhausted. */
  take(bytes: number): boolean
  reset(): void
}

/** Creates a budget. `now` returns milliseconds of a clock. */
export function createPartBudget(now: () => number): PartBudget {
  let parts = 0
  let bytes = 0
  let endMs = now() + maxPartMs
  return {
    take(size) {
      parts++
      bytes += size
      return parts <= maxParts && bytes <= maxPartBytes && now() < endMs
    },
    reset() {
      parts = 0
      bytes = 0
      endMs = now() + maxPartMs
    },
  }
}

/** Collects the text of a file and of its parts. */
export interface PartCollector {
  /** Whether the text has reached its maximum length. */
  readonly isFull: boolean
  addText(text: string): void
  /** Adds the name and the text of a part. Its images become pages for OCR. A part that cannot be read adds its name only. */
  addPart(part: ByteSource): Promise<void>
  /** Adds the pages of an image that are large enough for a scanned page, for OCR. Leaves out its name. */
  addScan(part: ByteSource): Promise<void>
}

/** Opens a file with parts. All text is on page 1; the other pages are images of parts that need OCR. */
export function openWithParts(tools: PartTools, read: (collector: PartCollector) => Promise<Omit<Contents, 'pages'>>): OpenedDocument {
  let loaded: Promise<{ contents: Contents; images: { part: ByteSource; page: number }[] }> | undefined
  let last: { part: ByteSource; opened: OpenedDocument | null } | undefined

  async function load() {
    const sink = createTextSink()
    const images: { part: ByteSource; page: number }[] = []
    const pages: OutlinePage[] = []
    let unread = 0
    let withoutOcr = 0
    /** Reads a part, and adds what is missing of it. Returns its pages, null if it cannot be read. */
    const readPages = async (part: ByteSource): Promise<readonly OutlinePage[] | null> => {
      const contents = await readPart(part, tools)
      unread += Number(contents?.metadata.parts_unread ?? 0)
      withoutOcr += Number(contents?.metadata.pages_without_ocr ?? 0)
      return contents?.pages ?? null
    }
    const addImages = (part: ByteSource, outline: readonly OutlinePage[]): void => {
      for (const { page, needsOcr, width, height } of outline) {
        if (!needsOcr) continue
        if (images.length >= tools.limits.maxPages) {
          withoutOcr++
          continue
        }
        images.push({ part, page })
        pages.push({ page: pages.length + 2, text: '', needsOcr, width, height })
      }
    }
    const { metadata, date } = await read({
      get isFull() {
        return sink.isFull
      },
      addText: (text) => sink.add(text),
      async addPart(part) {
        const outline = await readPages(part)
        if (!outline) unread++
        sink.add(`${[part.filename, ...(outline ?? []).map(({ text }) => text)].filter(Boolean).join('\n')}\n\n`)
        addImages(part, outline ?? [])
      },
      async addScan(part) {
        addImages(part, ((await readPages(part)) ?? []).filter(isScanSized))
      },
    })
    const body: OutlinePage = { page: 1, text: normalizeWhitespace(sink.text()), needsOcr: false, width: null, height: null }
    const counts = { ...(unread > 0 && { parts_unread: unread }), ...(withoutOcr > 0 && { pages_without_ocr: withoutOcr }) }
    return { contents: { metadata: { ...metadata, ...counts }, date, pages: [body, ...pages] }, images }
  }
  const getLoaded = () => {
    loaded ??= load()
    return loaded
  }

  /** Keeps the last part open, because its pages follow each other. */
  async function openImage(part: ByteSource): Promise<OpenedDocument | null> {
    if (last?.part === part) return last.opened
    last?.opened?.close()
    last = undefined
    const opened = await tools.openPart(part)
    last = { part, opened }
    return opened
  }

  return {
    contents: async () => (await getLoaded()).contents,
    async picture(number) {
      const image = (await getLoaded()).images[number - 2]
      return image ? ((await (await openImage(image.part))?.picture(image.page)) ?? null) : null
    },
    async thumbnail(box, type, number = 1) {
      if (number === 1) return null
      const image = (await getLoaded()).images[number - 2]
      return image ? ((await (await openImage(image.part))?.thumbnail(box, type, image.page)) ?? null) : null
    },
    close() {
      last?.opened?.close()
      last = undefined
      loaded = undefined
    },
  }
}

/** Minimum sides of a scanned page in pixels: A5 at 150 dpi, A4 at 100 dpi. */
const minScan = { long: 1000, short: 500 }

const isScanSized = ({ width, height }: OutlinePage): boolean =>
  Math.max(width ?? 0, height ?? 0) >= minScan.long && Math.min(width ?? 0, height ?? 0) >= minScan.short

/** Returns the contents of a part, null if it cannot be read. */
async function readPart(part: ByteSource, { openPart }: PartTools): Promise<Contents | null> {
  let opened: OpenedDocument | null = null
  try {
    opened = await openPart(part)
    return (await opened?.contents()) ?? null
  } catch {
    // A damaged part is no reason to refuse the others.
    return null
  } finally {
    opened?.close()
  }
}

/** Compares names of parts: `Section2` comes before `Section10`. */
export const compareNumbered = new Intl.Collator('en', { numeric: true }).compare
