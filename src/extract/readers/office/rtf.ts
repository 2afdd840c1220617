/** Reader of Rich Text Format. */
import type { ByteSource, OpenedDocument } from '../../opened-document.ts'
import { openWithParts, type PartTools } from '../../parts.ts'
import { codePageEncoding } from '../code-pages.ts'
import { createTextSink, decodeAs, normalizeWhitespace } from '../decode.ts'
import { addEmbeddedFile, readOle1Object } from './embedded.ts'

/** Destinations without document text. Destinations marked by `\*` are skipped too, except those in `textDestinations`. */
const skippedDestinations = new Set(
  'fonttbl colortbl stylesheet listtable listoverridetable rsidtbl generator pict themedata colorschememapping datastore latentstyles info filetbl revtbl xmlnstbl mmathPr fldinst bkmkstart bkmkend field_type nonshppict'.split(
    ' ',
  ),
)
const textDestinations = new Set(['shptxt', 'shpinst', 'annotation', 'footnote'])
const symbols: Readonly<Record<string, string>> = {
  par: '\n',
  line: '\n',
  page: '\n',
  sect: '\n',
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
}
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
  /** number of fallback characters after `\u`, for readers without Unicode */
  fallback: number
  font: number
  /** The text is the data of an object in hexadecimal digits. */
  isObjectData: boolean
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
  const source = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')
  const objects: Uint8Array[] = []
  return { text: extractText(source, objects), metadata: extractMetadata(source), objects }
}

/** Returns the text. Adds the objects to `objects`. */
function extractText(source: string, objects: Uint8Array[] = []): string {
  const sink = createTextSink()
  const token = /\\([a-z]+)(-?\d+)? ?|\\'([0-9a-f]{2})|\\([^a-z])|([{}])|[\r\n]+|([^\\{}\r\n]+)/gi
  const fonts = new Map<number, string>()
  const stack: Group[] = []
  let group: Group = { isSkipped: false, fallback: 1, font: -1, isObjectData: false }
  let codePage = 'windows-1252'
  let pending: number[] = []
  let toSkip = 0
  let isStarred = false
  let definedFont = -1
  let objectData: string[] = []

  const flush = (): void => {
    if (pending.length === 0) return
    const encoding = fonts.get(group.font) ?? codePage
    sink.add(decodeAs(Uint8Array.from(pending), encoding) ?? Buffer.from(pending).toString('latin1'))
    pending = []
  }
  const add = (text: string): void => {
    if (group.isSkipped) return
    flush()
    sink.add(text)
  }
  const control = (word: string, value: number | null): void => {
    if (word === 'bin') token.lastIndex += Math.max(0, value ?? 0)
    else if (word === 'ansicpg' && value !== null) codePage = codePageEncoding(value)
    else if (word === 'f' && value !== null) {
      flush()
      group.font = value
      definedFont = value
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
    } else if (skippedDestinations.has(word) || (isStarred && !textDestinations.has(word))) group.isSkipped = true
    else if (symbols[word]) add(symbols[word])
    isStarred = false
  }

  for (let match = token.exec(source); match && !sink.isFull; match = token.exec(source)) {
    const [, word, value, hex, symbol, brace, text] = match
    if (brace === '{') {
      flush()
      if (stack.length >= maxDepth) break
      stack.push(group)
      group = { ...group }
      toSkip = 0
    } else if (brace === '}') {
      flush()
      const { isObjectData } = group
      group = stack.pop() ?? group
      if (isObjectData && !group.isObjectData && objects.length < maxObjects) objects.push(Buffer.from(objectData.join(''), 'hex'))
      toSkip = 0
    } else if (word) control(word, value === undefined ? null : Number(value))
    else if (hex) {
      if (toSkip > 0) toSkip--
      else if (!group.isSkipped) pending.push(Number.parseInt(hex, 16))
    } else if (symbol === '*') isStarred = true
    else if (symbol === '~') add('\u00a0')
    else if (symbol === '_') add('-')
    else if (symbol === '\n' || symbol === '\r') add('\n')
    else if (symbol === '{' || symbol === '}' || symbol === '\\') add(symbol)
    else if (text && group.isObjectData) objectData.push(text.replace(/\s+/g, ''))
    else if (text) {
      const rest = text.slice(toSkip)
      toSkip = Math.max(0, toSkip - text.length)
      if (!group.isSkipped) for (let i = 0; i < rest.length; i++) pending.push(rest.charCodeAt(i))
    }
  }
  flush()
  // A half of a surrogate pair becomes U+FFFD.
  return normalizeWhitespace(sink.text().toWellFormed())
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
