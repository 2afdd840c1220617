/** Reader of Rich Text Format. */

import { latin1 } from '../../bytes.ts'
import type { ByteSource, OpenedDocument } from '../../opened-document.ts'
import { openWithParts, type PartTools } from '../../parts.ts'
import { codePageEncoding } from '../code-pages.ts'
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
const symbols = new Map(
  Object.entries({
    par: '\n',
    line: '\n',
    page: '\n',
    sect: '\n',
    column: '\n',
    row: '\n',
    cell: '\t',
    nestcell: '\t',
    nestrow: '\n',
    tab: '\t',
    emdash: '\u2014',
    endash: '\u2013',
    lquote: '\u2018',
    rquote: '\u2019',
    ldblquote: '\u201c',
    rdblquote: '\u201d',
    bullet: '\u2022',
    emspace: ' ',
    enspace: ' ',
  }),
)
/** Encodings of documents without a code page. */
const characterSets = new Map([
  ['mac', 'macintosh'],
  ['pc', 'cp437'],
  ['pca', 'cp850'],
])
/** Code pages of the character sets of fonts. */
const charsets: Readonly<Record<number, string>> = {
  0: 'windows-1252',
  77: 'macintosh',
  128: 'shift_jis',
  129: 'euc-kr',
  134: 'gbk',
  136: 'big5',
  161: 'windows-1253',
  162: 'windows-1254',
  163: 'windows-1258',
  177: 'windows-1255',
  178: 'windows-1256',
  186: 'windows-1257',
  204: 'windows-1251',
  222: 'windows-874',
  238: 'windows-1250',
}
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
  const sink = createTextSink()
  const notes = createTextSink()
  const token = /\\([a-z]+)(-?\d+)? ?|\\'([0-9a-f]{2})|\\([^a-z])|([{}])|[\r\n]+|([^\\{}\r\n]+)/gi
  const fonts = new Map<number, string>()
  const stack: Group[] = []
  let group: Group = { isSkipped: false, isDeleted: false, fallback: 1, font: -1, isObjectData: false, isNote: false, isBlock: false }
  let codePage = 'windows-1252'
  let pending: number[] = []
  let toSkip = 0
  let isStarred = false
  /** `\*` marks a destination only at the start of its group. */
  let isGroupStart = false
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
    else sink.add(text)
  }
  const control = (word: string, value: number | null): void => {
    if (word === 'bin') token.lastIndex += Math.max(0, value ?? 0)
    else if (word === 'ansicpg' && value !== null) codePage = codePageEncoding(value)
    else if (characterSets.has(word)) codePage = characterSets.get(word)!
    else if (word === 'f' && value !== null) {
      flush()
      group.font = value
      definedFont = value
    } else if (word === 'deleted' || word === 'plain') {
      flush()
      group.isDeleted = word === 'deleted' && value !== 0
    } else if (word === 'fcharset' && value !== null) {
      const charset = charsets[value]
      if (charset && value !== 0) fonts.set(definedFont, charset)
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
    } else add(symbols.get(word) ?? '')
    isStarred = false
  }

  for (let match = token.exec(source); match && !sink.isFull && !notes.isFull; match = token.exec(source)) {
    const [whole, word, value, hex, symbol, brace, text] = match
    const isFirst: boolean = isGroupStart
    isGroupStart = brace === '{' || (isFirst && whole.trim() === '')
    if (brace === '{') {
      flush()
      if (stack.length >= maxDepth) break
      stack.push(group)
      group = { ...group, isBlock: false }
      toSkip = 0
    } else if (brace === '}') {
      flush()
      const { isObjectData, isBlock } = group
      if (isBlock) add('\n')
      group = stack.pop() ?? group
      if (isObjectData && !group.isObjectData && objects.length < maxObjects) objects.push(Buffer.from(objectData.join(''), 'hex'))
      toSkip = 0
    } else if (word) control(word, value === undefined ? null : Number(value))
    else if (hex) {
      if (toSkip > 0) toSkip--
      else if (!isHidden()) pending.push(Number.parseInt(hex, 16))
    } else if (symbol === '*') isStarred = isFirst
    else if (symbol === '~') add('\u00a0')
    else if (symbol === '_') add('-')
    else if (symbol === '\n' || symbol === '\r') add('\n')
    else if (symbol === '{' || symbol === '}' || symbol === '\\') add(symbol)
    else if (text && group.isObjectData) objectData.push(text.replace(/\s+/g, ''))
    else if (text) {
      const rest = text.slice(toSkip)
      toSkip = Math.max(0, toSkip - text.length)
      if (!isHidden()) for (let i = 0; i < rest.length; i++) pending.push(rest.charCodeAt(i))
    }
  }
  flush()
  // A half of a surrogate pair becomes U+FFFD.
  return normalizeWhitespace(`${sink.text()}\n${notes.text()}`.toWellFormed())
}

/** Reads title, author and the like from the info group, which is small and flat. */
function extractMetadata(source: string): Record<string, unknown> {
  const start = source.indexOf('{\\info')
  if (start < 0) return {}
  const info = source.slice(start, start + 10_000)
  const metadata: Record<string, unknown> = {}
  for (const key of ['title', 'author', 'subject', 'keywords']) {
    const value = new RegExp(`\\{\\\\${key} ([^{}]{1,1000})\\}`).exec(info)?.[1]
    const text = value && extractText(value)
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
