/** Reader of Rich Text Format. */

import { latin1 } from '../../bytes.ts'
import type { ByteSource, OpenedDocument } from '../../opened-document.ts'
import { openWithParts, type PartTools } from '../../parts.ts'
import { charsetEncoding, codePageEncoding } from '../code-pages.ts'
import { createTextSink, decodeAs, normalizeWhitespace } from '../decode.ts'
import { addEmbeddedFile, readOle1Object } from './embedded.ts'

/** Destinations without document text. Destinations marked by `\*` are skipped too, except those in `textDestinations`. */
const skippedDestinations = new Set(
  'fonttbl colortbl stylesheet listtable listoverridetable rsidtbl generator pict themedata colorschememapping datastore latentstyles info filetbl revtbl xmlnstbl mmathPr fldinst bkmkstart bkmkend field_type nonshppict sp xe tc tcn'.split(
    ' ',
  ),
)
const textDestinations = new Set(['shptxt', 'shpinst', 'annotation', 'footnote', 'atnauthor'])
/** Destinations of notes. They stand in the middle of a sentence, so their text is appended to that of the document. */
const noteDestinations = new Set(['annotation', 'footnote', 'atnauthor'])
/** Destinations with lines of their own. */
const blockDestinations = /^(header|footer)[lrf]?$|^shptxt$/
/** Characters of control words. */
const wordCharacters = new Map([
  ...['par', 'line', 'page', 'sect', 'column', 'row', 'nestrow'].map((word) => [word, '\n'] as const),
  ...['cell', 'nestcell', 'tab'].map((word) => [word, '\t'] as const),
  ...['emspace', 'enspace'].map((word) => [word, ' '] as const),
  ['emdash', '\u2014'],
  ['endash', '\u2013'],
  ['lquote', '\u2018'],
  ['rquote', '\u2019'],
  ['ldblquote', '\u201c'],
  ['rdblquote', '\u201d'],
  ['bullet', '\u2022'],
])
/** Characters of control symbols, which are a backslash and a character. */
const symbolCharacters = new Map(Object.entries({ '~': '\u00a0', _: '-', '\n': '\n', '\r': '\n', '{': '{', '}': '}', '\\': '\\' }))
/** Encodings of documents without a code page. */
const characterSets = new Map([
  ['mac', 'macintosh'],
  ['pc', 'cp437'],
  ['pca', 'cp850'],
])
const maxDepth = 10_000
const maxObjects = 1000

interface Group {
  isSkipped: boolean
  /** The text is deleted in a tracked change. */
  isDeleted: boolean
  /** number of fallback characters after `\u`, for readers without Unicode */
  fallback: number
  font: number
  /** The text is the data of an object in hexadecimal digits. */
  isObjectData: boolean
  isNote: boolean
  /** A line break follows the text. */
  isBlock: boolean
}

/** Opens a document with the files that it embeds. */
export const openRtf = (source: ByteSource, tools: PartTools): OpenedDocument =>
  openWithParts(tools, async (collector) => {
    const { text, metadata, objects } = readRtf(source.read())
    collector.addText(`${text}\n\n`)
    for (const object of objects) {
      const part = readOle1Object(object)
      if (part && !collector.isFull) await addEmbeddedFile(collector, part)
    }
    return { metadata }
  })

/** Reads text, metadata and embedded objects. */
export function readRtf(bytes: Uint8Array): { text: string; metadata: Record<string, unknown>; objects: readonly Uint8Array[] } {
  const source = latin1(bytes)
  const objects: Uint8Array[] = []
  return { text: extractText(source, objects), metadata: extractMetadata(source), objects }
}

/** Returns the text. Adds the objects to `objects`. */
function extractText(source: string, objects: Uint8Array[] = []): string {
  const token = /\\([a-z]+)(-?\d+)? ?|\\'([0-9a-f]{2})|\\([^a-z])|([{}])|[\r\n]+|([^\\{}\r\n]+)/gi
  const sink = createRtfSink(objects)
  let isStarred = false
  /** `\*` marks a destination only at the start of its group. */
  let isGroupStart = false
  for (let match = token.exec(source); match && !sink.isFull; match = token.exec(source)) {
    const [whole, word, digits, hex, symbol, brace, text] = match
    const isFirst: boolean = isGroupStart
    isGroupStart = brace === '{' || (isFirst && whole.trim() === '')
    if (brace === '{') {
      if (!sink.openGroup()) break
    } else if (brace === '}') sink.closeGroup()
    else if (word) {
      const value = digits === undefined ? null : Number(digits)
      // So many bytes of binary data follow.
      if (word === 'bin') token.lastIndex += Math.max(0, value ?? 0)
      else sink.addControl(word, value, isStarred)
      isStarred = false
    } else if (hex) sink.addByte(Number.parseInt(hex, 16))
    else if (symbol === '*') isStarred = isFirst
    else if (symbol) sink.addSymbol(symbol)
    else if (text) sink.addText(text)
  }
  return sink.end()
}

/** Creates a sink for the tokens of a document. Adds its objects to `objects`. */
function createRtfSink(objects: Uint8Array[]) {
  const body = createTextSink()
  const notes = createTextSink()
  const fonts = new Map<number, string>()
  const stack: Group[] = []
  let group: Group = { isSkipped: false, isDeleted: false, fallback: 1, font: -1, isObjectData: false, isNote: false, isBlock: false }
  let codePage = 'windows-1252'
  /** bytes in the encoding of the font */
  let pending: number[] = []
  /** number of fallback characters left to skip */
  let toSkip = 0
  let definedFont = -1
  let objectData: string[] = []

  const isHidden = (): boolean => group.isSkipped || group.isDeleted
  const flush = (): void => {
    if (pending.length === 0) return
    const encoding = fonts.get(group.font) ?? codePage
    const text = decodeAs(Uint8Array.from(pending), encoding) ?? Buffer.from(pending).toString('latin1')
    pending = []
    add(text)
  }
  const add = (text: string): void => {
    if (isHidden()) return
    flush()
    if (group.isNote) notes.add(text)
    else body.add(text)
  }

  return {
    get isFull() {
      return body.isFull || notes.isFull
    },
    /** Returns false if the document is nested too deeply. */
    openGroup(): boolean {
      flush()
      if (stack.length >= maxDepth) return false
      stack.push(group)
      group = { ...group, isBlock: false }
      toSkip = 0
      return true
    },
    closeGroup(): void {
      flush()
      const { isObjectData, isBlock } = group
      if (isBlock) add('\n')
      group = stack.pop() ?? group
      if (isObjectData && !group.isObjectData && objects.length < maxObjects) objects.push(Buffer.from(objectData.join(''), 'hex'))
      toSkip = 0
    },
    addControl(word: string, value: number | null, isStarred: boolean): void {
      if (word === 'ansicpg' && value !== null) codePage = codePageEncoding(value)
      else if (characterSets.has(word)) codePage = characterSets.get(word)!
      else if (word === 'f' && value !== null) {
        flush()
        group.font = value
        definedFont = value
      } else if (word === 'deleted' || word === 'plain') {
        flush()
        group.isDeleted = word === 'deleted' && value !== 0
      } else if (word === 'fcharset' && value !== null) {
        const encoding = charsetEncoding(value)
        if (encoding) fonts.set(definedFont, encoding)
      } else if (word === 'uc') group.fallback = Math.max(0, Math.min(value ?? 1, 100))
      else if (word === 'u' && value !== null) {
        add(String.fromCharCode(value & 0xffff))
        toSkip = group.fallback
      } else if (word === 'objdata') {
        group.isSkipped = true
        group.isObjectData = true
        objectData = []
      } else if (skippedDestinations.has(word) || (isStarred && !textDestinations.has(word))) {
        flush()
        group.isSkipped = true
      } else if (noteDestinations.has(word)) {
        flush()
        group.isNote = true
        add('\n')
      } else if (blockDestinations.test(word)) {
        add('\n')
        group.isBlock = true
      } else add(wordCharacters.get(word) ?? '')
    },
    addByte(byte: number): void {
      if (toSkip > 0) toSkip--
      else if (!isHidden()) pending.push(byte)
    },
    addSymbol(symbol: string): void {
      const character = symbolCharacters.get(symbol)
      if (character !== undefined) add(character)
    },
    addText(text: string): void {
      if (group.isObjectData) {
        objectData.push(text.replace(/\s+/g, ''))
        return
      }
      const rest = text.slice(toSkip)
      toSkip = Math.max(0, toSkip - text.length)
      if (!isHidden()) for (let i = 0; i < rest.length; i++) pending.push(rest.charCodeAt(i))
    },
    end(): string {
      flush()
      // A half of a surrogate pair becomes U+FFFD.
      return normalizeWhitespace(`${body.text()}\n${notes.text()}`.toWellFormed())
    },
  }
}

/** Reads title, author and the like from the info group, which is small and flat. */
function extractMetadata(source: string): Record<string, unknown> {
  const start = source.indexOf('{\\info')
  if (start < 0) return {}
  const info = source.slice(start, start + 10_000)
  const [codePage = ''] = /\\(?:ansicpg\d+|mac|pca?)(?![a-z])/.exec(source.slice(0, start)) ?? []
  const metadata: Record<string, unknown> = {}
  for (const key of ['title', 'author', 'subject', 'keywords']) {
    // The form in Unicode follows the one in the code page.
    const value = [...info.matchAll(new RegExp(`\\{\\\\${key} ([^{}]{1,1000})\\}`, 'g'))].at(-1)?.[1]
    const text = value && extractText(`${codePage} ${value}`)
    if (text) metadata[key] = text
  }
  for (const [word, key] of Object.entries({ creatim: 'created', revtim: 'modified' })) {
    const pattern = `\\{\\\\${word}\\\\yr(\\d{4})\\\\mo(\\d{1,2})\\\\dy(\\d{1,2})(?:\\\\hr(\\d{1,2}))?(?:\\\\min(\\d{1,2}))?`
    const parts = new RegExp(pattern).exec(info)
    if (!parts) continue
    const [year, month, day, hour, minute] = parts.slice(1).map((part = '0') => part.padStart(2, '0'))
    const date = new Date(`${year}-${month}-${day}T${hour}:${minute}:00Z`)
    if (!Number.isNaN(date.getTime())) metadata[key] = date.toISOString()
  }
  return metadata
}
