/** Text, metadata and attachments of a PDF, by PDF.js. It reads what PDFium cannot read. */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { PDFDocumentProxy } from 'pdfjs-dist/legacy/build/pdf.mjs'
import { ReadFailure } from '../../../ports/document-reader.ts'
import { softLineEnd } from './page-text.ts'
import { type PdfMetadata, readInfo } from './pdf-metadata.ts'

// PDF.js warns on import if these browser classes are missing. Only rendering uses them.
class Unused {}
Object.assign(globalThis, { DOMMatrix: Unused, Path2D: Unused })
const { AnnotationMode, getDocument, InvalidPDFException, OPS, PasswordException } = await import('pdfjs-dist/legacy/build/pdf.mjs')

const maxAttachments = 100

/** A page: its unchanged text and its size in points, after rotation. */
export interface PdfText {
  readonly text: string
  /** see PageText */
  readonly isMapped: boolean
  readonly width: number
  readonly height: number
}

export interface PdfTextDocument {
  readonly pageCount: number
  metadata(): Promise<PdfMetadata>
  /** Returns the text of a page, counted from 1, with the values of form fields and the texts of notes. */
  page(number: number): Promise<PdfText>
  /**
   * Returns for each text object of a page, counted from 1, whether its layer is hidden. Their order is that of the content, with forms where they are
   * drawn. Returns null if all layers are shown.
   */
  hiddenTexts(number: number): Promise<boolean[] | null>
  attachments(): Promise<{ filename: string; bytes: Uint8Array }[]>
  close(): Promise<void>
}

/** Opens a PDF for its text. Takes ownership of `bytes`. Throws ReadFailure FILE_ENCRYPTED, FILE_CORRUPT. */
export async function openPdfText(bytes: Uint8Array): Promise<PdfTextDocument> {
  const library = dirname(createRequire(import.meta.url).resolve('pdfjs-dist/package.json'))
  const loading = getDocument({
    data: bytes,
    cMapUrl: join(library, 'cmaps/'),
    standardFontDataUrl: join(library, 'standard_fonts/'),
    wasmUrl: join(library, 'wasm/'),
    verbosity: 0,
    // Only texts are read.
    maxImageSize: 1,
    useSystemFonts: false,
    disableFontFace: true,
    enableXfa: false,
  })
  const document = await loading.promise.catch((problem: unknown) => {
    if (problem instanceof PasswordException) throw new ReadFailure('FILE_ENCRYPTED')
    if (/unknown encryption method|unsupported encryption algorithm/.test(String(problem)))
      throw new ReadFailure('FILE_ENCRYPTED', 'The file is encrypted for certificates, or with an unknown method.')
    throw new ReadFailure('FILE_CORRUPT', problem instanceof InvalidPDFException ? undefined : `The PDF cannot be opened: ${problem}`)
  })
  if (document.numPages < 1) throw new ReadFailure('FILE_CORRUPT', 'The PDF has no pages.')
  return {
    pageCount: document.numPages,
    metadata: () => readMetadata(document),
    page: (number) => readPageText(document, number),
    hiddenTexts: (number) => findHiddenTexts(document, number),
    attachments: () => readAttachments(document),
    close: () => loading.destroy(),
  }
}

type Page = Awaited<ReturnType<PDFDocumentProxy['getPage']>>

async function readPageText(document: PDFDocumentProxy, number: number): Promise<PdfText> {
  const page = await document.getPage(number)
  const { width, height } = page.getViewport({ scale: 1 })
  try {
    const content = await page.getTextContent()
    const text = joinItems(content.items.filter((item) => 'str' in item))
    return { text: [text, ...(await readAnnotations(page))].join('\n'), isMapped: true, width, height }
  } finally {
    page.cleanup()
  }
}

async function findHiddenTexts(document: PDFDocumentProxy, number: number): Promise<boolean[] | null> {
  const layers = await document.getOptionalContentConfig()
  if ([...layers].every(([, { visible }]) => visible)) return null
  const page = await document.getPage(number)
  try {
    const { fnArray, argsArray } = await page.getOperatorList({ annotationMode: AnnotationMode.DISABLE })
    const isHidden: boolean[] = []
    /** whether each open section of marked content is in a hidden layer */
    const open: boolean[] = []
    for (const [i, operator] of fnArray.entries()) {
      const args = argsArray[i]
      if (operator === OPS.beginMarkedContent) open.push(false)
      else if (operator === OPS.beginMarkedContentProps) open.push(args[0] === 'OC' && !layers.isVisible(args[1]))
      else if (operator === OPS.endMarkedContent) open.pop()
      // Numbers are distances between glyphs.
      else if (operator === OPS.showText && args[0].some((glyph: unknown) => typeof glyph === 'object')) isHidden.push(open.includes(true))
    }
    return isHidden
  } finally {
    page.cleanup()
  }
}

type TextItem = Extract<Awaited<ReturnType<Page['getTextContent']>>['items'][number], { str: string }>

/** Joins the runs of a page. Runs that stand apart without a space between them are separated. */
function joinItems(items: readonly TextItem[]): string {
  let text = ''
  let last: TextItem | undefined
  for (const item of items) {
    if (last && !/\s$/.test(text) && !/^\s/.test(item.str) && item.str !== '') text += separatorOf(last, item)
    text += item.str + (item.hasEOL ? '\n' : '')
    if (item.str !== '') last = item
  }
  return text.replace(/(?<=\p{L})[-\u2010\u00ad]\n(?=[\p{L}\p{N}])/gu, softLineEnd)
}

/** Returns a newline between runs on different lines, a space between runs with a distance of a fifth of the letter height, else nothing. */
function separatorOf(last: TextItem, next: TextItem): string {
  const [a, b, , , x, y] = last.transform as number[]
  const size = Math.hypot(a!, b!)
  if (!(size > 0)) return ''
  const [dx, dy] = [(next.transform[4] as number) - x!, (next.transform[5] as number) - y!]
  const along = (dx * a! + dy * b!) / size - last.width
  const across = Math.abs(dy * a! - dx * b!) / size
  if (across > 0.7 * size) return '\n'
  return along > 0.2 * size || along < -0.7 * size - last.width ? ' ' : ''
}

/** Returns the values of form fields and the texts of notes, which are not part of the text content. */
async function readAnnotations(page: Page): Promise<string[]> {
  const annotations = await page.getAnnotations().catch(() => [])
  return annotations.flatMap(({ fieldValue, fieldType, contentsObj }) => {
    const values = fieldType === 'Btn' ? [] : [fieldValue].flat().filter((value) => typeof value === 'string')
    return [values.join(' '), typeof contentsObj?.str === 'string' ? contentsObj.str : ''].filter((text) => text !== '')
  })
}

async function readMetadata(document: PDFDocumentProxy): Promise<PdfMetadata> {
  const found = await document.getMetadata().catch(() => null)
  const info = (found?.info ?? {}) as Record<string, unknown>
  return readInfo((key) => info[key] ?? (key === 'CreationDate' ? found?.metadata?.get('xmp:createdate') : undefined))
}

async function readAttachments(document: PDFDocumentProxy): Promise<{ filename: string; bytes: Uint8Array }[]> {
  const files: { filename: string; bytes: Uint8Array }[] = []
  const attachments = await document.getAttachments().catch(() => null)
  for (const [id, { filename }] of [...(attachments ?? [])].slice(0, maxAttachments)) {
    const content: unknown = await document.getAttachmentContent(id).catch(() => null)
    if (content instanceof Uint8Array) files.push({ filename, bytes: content })
  }
  return files
}
