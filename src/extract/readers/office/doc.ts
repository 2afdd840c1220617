/** Reader of Word documents from before 2007: Word 6 and 95, and Word 97 to 2003 ([MS-DOC]). */
import { ReadFailure } from '../../../ports/document-reader.ts'
import { viewOf } from '../../bytes.ts'
import { decodeCodePage, guessCodePage } from '../code-pages.ts'
import { createTextSink, decodeAs, maxTextLength, normalizeWhitespace, type TextSink } from '../decode.ts'
import { readDeletions } from './doc-deletions.ts'
import { type ParagraphProperties, readParagraphProperties } from './doc-paragraphs.ts'
import { readDocListLabels } from './lists/doc-lists.ts'
import type { Ole } from './ole.ts'

const flags = { isComplex: 0x0004, isEncrypted: 0x0100, usesTable1: 0x0200 } as const
/** Lowest format number (nFib) of Word 97. */
const word97 = 0xc1
const maxPieces = 1_000_000

/** Run of characters that are stored together. */
interface Piece {
  text: string
  /** position in the stream and bytes of each character */
  at: number
  width: 1 | 2
}

interface DocText {
  readonly pieces: readonly Piece[]
  /** Number of characters of each part: text, footnotes, headers, macros, comments, endnotes, text boxes, text boxes of headers. */
  readonly partLengths: readonly number[]
  /** Returns the properties of the paragraph that ends at a position. */
  readonly propertiesAt: (position: number) => ParagraphProperties
  readonly labelOf: (list: number, level: number) => string
}

/** Order of the parts in the text: headers first, as on the page. */
const partOrder = [2, 7, 0, 6, 1, 5, 4]

/** Reads all parts of the document with the labels of lists. Throws ReadFailure. */
export function readDoc(ole: Ole): string {
  const document = ole.stream('WordDocument')
  if (!document || document.length < 0x80) throw new ReadFailure('FILE_CORRUPT', 'The document has no text.')
  const view = viewOf(document)
  if (view.getUint16(10, true) & flags.isEncrypted) throw new ReadFailure('FILE_ENCRYPTED')
  const text = view.getUint16(2, true) < word97 ? readWord6(document, view) : readWord97(ole, document, view)
  const paragraphs = splitParagraphs(text)
  const sink = createTextSink()
  for (const part of partOrder) {
    for (const paragraph of paragraphs[part] ?? []) addParagraph(sink, paragraph, text)
    sink.add('\n')
  }
  return normalizeWhitespace(sink.text())
}

function readWord97(ole: Ole, document: Uint8Array, view: DataView): DocText {
  const table = ole.stream(view.getUint16(10, true) & flags.usesTable1 ? '1Table' : '0Table') ?? new Uint8Array()
  if (document.length < 0x2f2) throw new ReadFailure('FILE_CORRUPT', 'The document is truncated.')
  const part = (at: number): Uint8Array => table.subarray(view.getUint32(at, true), view.getUint32(at, true) + view.getUint32(at + 4, true))
  // The levels of lists follow their table and are not counted in its size.
  const lists = view.getUint32(0x2e6, true) > 0 ? table.subarray(view.getUint32(0x2e2, true)) : new Uint8Array()
  const eraseDeleted = readDeletions(document, part(0xfa))
  return {
    pieces: readPieces(part(0x1a2), document, null).map((piece) => ({ ...piece, text: eraseDeleted(piece.text, piece.at, piece.width) })),
    partLengths: Array.from({ length: 8 }, (_, i) => view.getUint32(0x4c + i * 4, true)),
    propertiesAt: readParagraphProperties(document, part(0x102), part(0xa2)),
    labelOf: readDocListLabels(lists, part(0x2ea)),
  }
}

/** Text of 8 bits per character, whole or in pieces. */
function readWord6(document: Uint8Array, view: DataView): DocText {
  const [start, end] = [view.getUint32(0x18, true), view.getUint32(0x1c, true)]
  const isMac = view.getUint16(0x14, true) === macCharset
  const stated = isMac ? macCodePage : codePageOfLanguage(view.getUint16(6, true))
  // The language is that of the program. English ones wrote Russian too, and left its code page to the fonts.
  const codePage = stated === 1252 ? guessCodePage(document.subarray(start, end)) : stated
  const isComplex = (view.getUint16(10, true) & flags.isComplex) !== 0 && document.length >= 0x168
  const clx = isComplex ? document.subarray(view.getUint32(0x160, true), view.getUint32(0x160, true) + view.getUint32(0x164, true)) : null
  const whole: Piece[] = [{ text: decodeCodePage(document.subarray(start, end), codePage), at: start, width: 1 }]
  return {
    pieces: clx ? readPieces(clx, document, codePage) : whole,
    partLengths: Array.from({ length: 8 }, (_, i) => view.getUint32(0x34 + i * 4, true)),
    propertiesAt: () => ({}),
    labelOf: () => '',
  }
}

/** Character set of documents by Word for Macintosh. */
const macCharset = 256
const macCodePage = 10_000

const languages: Readonly<Record<number, readonly number[]>> = {
  1250: [0x405, 0x40e, 0x415, 0x418, 0x41a, 0x41b, 0x424],
  1251: [0x402, 0x419, 0x422, 0x423],
  1253: [0x408],
  1254: [0x41f],
  1255: [0x40d],
  1256: [0x401],
  1257: [0x425, 0x426, 0x427],
  932: [0x411],
  936: [0x804],
  949: [0x412],
  950: [0x404],
}
const codePageOfLanguage = (language: number): number =>
  Number(Object.entries(languages).find(([, numbers]) => numbers.includes(language))?.[0] ?? 1252)

/** Reads the piece table (Clx). `codePage`: that of Word 6, null for Word 97, which states the width of each piece. */
function readPieces(clx: Uint8Array, document: Uint8Array, codePage: number | null): Piece[] {
  const view = viewOf(clx)
  const pieces: Piece[] = []
  let at = 0
  while (clx[at] === 1 && at + 3 <= clx.length) at += 3 + view.getUint16(at + 1, true)
  if (clx[at] !== 2 || at + 5 > clx.length) throw new ReadFailure('FILE_CORRUPT', 'The document has no piece table.')
  const count = Math.min(Math.floor((Math.min(view.getUint32(at + 1, true), clx.length - at - 5) - 4) / 12), maxPieces)
  let total = 0
  for (let i = 0; i < count && total < maxTextLength; i++) {
    const length = Math.min(view.getUint32(at + 5 + i * 4 + 4, true) - view.getUint32(at + 5 + i * 4, true), maxTextLength)
    const stored = view.getUint32(at + 5 + (count + 1) * 4 + i * 8 + 2, true)
    const width = codePage !== null || stored & 0x40000000 ? 1 : 2
    const start = codePage === null && width === 1 ? (stored & 0x3fffffff) >> 1 : stored & 0x3fffffff
    const bytes = document.subarray(start, start + Math.max(0, length) * width)
    const text = width === 1 ? decodeCodePage(bytes, codePage ?? 1252) : (decodeAs(bytes, 'utf-16le') ?? '')
    pieces.push({ text, at: start, width })
    total += text.length
  }
  return pieces
}

interface Paragraph {
  text: string
  /** position of the end mark in the stream */
  position: number
}

/** Splits every part into its paragraphs, which end with \r, \f or, in tables, with \x07. */
function splitParagraphs({ pieces, partLengths }: DocText): Paragraph[][] {
  const parts: Paragraph[][] = [[]]
  let left = partLengths[0] ?? 0
  let text = ''
  const nextPart = (): void => {
    while (left <= 0 && parts.length < partLengths.length) {
      left = partLengths[parts.length] ?? 0
      parts.push([])
    }
  }
  for (const piece of pieces) {
    let from = 0
    while (from < piece.text.length) {
      nextPart()
      if (left <= 0) return parts
      const mark = findEndMark(piece.text, from)
      const end = Math.min(mark + 1, piece.text.length, from + left)
      text += piece.text.slice(from, end)
      left -= end - from
      from = end
      if (end <= mark && left > 0) continue
      parts.at(-1)!.push({ text, position: piece.at + (end - 1) * piece.width })
      text = ''
    }
  }
  if (text !== '') parts.at(-1)!.push({ text, position: -1 })
  return parts
}

/** Returns the position of the next end of a paragraph, the length of the text if there is none. */
function findEndMark(text: string, from: number): number {
  let at = from
  while (at < text.length && !isEndMark(text.charCodeAt(at))) at++
  return at
}
const isEndMark = (code: number): boolean => code === 0x0d || code === 0x0c || code === 0x07

function addParagraph(sink: TextSink, { text, position }: Paragraph, { propertiesAt, labelOf }: DocText): void {
  const { list = 0, level = 0, isRowEnd = false } = propertiesAt(position)
  const isCell = text.endsWith('\x07')
  const label = list > 0 && !isRowEnd ? labelOf(list, level) : ''
  const visible = visibleText(text)
  if (visible.trim() !== '' && label !== '') sink.add(`${label} `)
  sink.add(visible)
  sink.add(isCell && !isRowEnd ? '\t' : '\n')
}

/** Removes instructions of fields and marks of pictures, notes and comments. Fields are \x13 instruction \x14 result \x15. */
function visibleText(text: string): string {
  let hidden = 0
  const fields: { instruction: string; hasResult: boolean }[] = []
  return text.replace(/\p{Cc}|\P{Cc}+/gu, (part) => {
    const field = fields.at(-1)
    if (part === fieldMarks.begin) {
      fields.push({ instruction: '', hasResult: false })
      hidden++
    } else if (part === fieldMarks.separator && field?.hasResult === false) {
      field.hasResult = true
      hidden--
    } else if (part === fieldMarks.end) {
      fields.pop()
      if (field?.hasResult === false && --hidden === 0) return guidedText(field.instruction)
    } else if (hidden === 0) return part > '\x1f' ? part : (replacements[part] ?? '')
    else if (field?.hasResult === false) field.instruction += part
    return ''
  })
}

/** Returns the text below a phonetic guide, which is a field without a result: `EQ \o\ad(\s\up 9(guide),text)`. Returns '' for other fields. */
export const guidedText = (instruction: string): string =>
  /^\s*EQ\s[^()]{0,200}\\o[^()]{0,20}\(\s*\\s\s*\\(?:up|do)[^()]{0,10}\([^()]{0,1000}\)\s*[,;]([^()]{0,1000})\)/i.exec(instruction)?.[1] ??
  ''

const fieldMarks = { begin: '\x13', separator: '\x14', end: '\x15' } as const
const replacements: Readonly<Record<string, string>> = { '\t': '\t', '\n': '\n', '\v': '\n', '\x1e': '-' }
