/** Reader of Hangul documents (Hwp Document File Formats 5.0, Hancom). */
import { createDecipheriv } from 'node:crypto'
import { constants, inflateRawSync } from 'node:zlib'
import { ReadFailure } from '../../../ports/document-reader.ts'
import { viewOf } from '../../bytes.ts'
import { type ByteSource, type OpenedDocument, openTextOnly } from '../../opened-document.ts'
import { compareNumbered } from '../../parts.ts'
import { createTextSink, normalizeWhitespace, type TextSink } from '../decode.ts'
import { isOle, type Ole, openOle } from './ole.ts'
import { readSummary } from './summary.ts'

const flagsAt = 36
const flags = { isCompressed: 1, hasPassword: 2, isForDistribution: 4 } as const
const paragraphText = 67
/** Size of a record whose real size follows. */
const largeSize = 0xfff
const maxSectionBytes = 256 * 1024 * 1024

/** Characters for control characters of one unit. The others below 32 are followed by data. */
const signs = new Map([
  [10, '\n'],
  [13, '\n'],
  [24, '-'],
  [30, ' '],
  [31, ' '],
])
const tab = 9
const unitsOfData = 8

/** Opens a document. Returns null for one from before version 5. Its contents() throws ReadFailure FILE_CORRUPT, FILE_ENCRYPTED. */
export const openHwp = (source: ByteSource): OpenedDocument | null =>
  isOle(source.head(8))
    ? openTextOnly(async () => {
        const ole = openOle(source.read())
        return { text: readHwp(ole), metadata: readSummary(ole, '\x05HwpSummaryInformation') }
      })
    : null

/** Reads the paragraphs of all sections. Those of a document that is protected against changes are encrypted, with a key beside them. */
function readHwp(ole: Ole): string {
  const header = ole.stream('FileHeader') ?? new Uint8Array()
  const set = header.length < flagsAt + 4 ? 0 : viewOf(header).getUint32(flagsAt, true)
  if ((set & flags.hasPassword) !== 0) throw new ReadFailure('FILE_ENCRYPTED')
  const sink = createTextSink()
  const isEncrypted = (set & flags.isForDistribution) !== 0
  const sections = isEncrypted ? /^ViewText\/Section\d+$/ : /^BodyText\/Section\d+$/
  for (const name of ole.names.filter((name) => sections.test(name)).sort(compareNumbered)) {
    const stored = ole.stream(name) ?? new Uint8Array()
    const stream = isEncrypted ? decrypt(stored) : stored
    addParagraphs(sink, (set & flags.isCompressed) === 0 ? stream : unpack(stream))
  }
  return normalizeWhitespace(sink.text())
}

const keyRecord = { head: 4, bytes: 256 } as const

/** Decrypts a section with the key in its first record, which is masked by the random numbers of a seed (rand() of Microsoft's C library). */
function decrypt(section: Uint8Array): Uint8Array {
  const record = Buffer.from(section.subarray(keyRecord.head, keyRecord.head + keyRecord.bytes))
  if (record.length < keyRecord.bytes) return new Uint8Array()
  const seed = record.readUInt32LE()
  let state = seed
  const random = (): number => {
    state = (Math.imul(state, 214_013) + 2_531_011) | 0
    return (state >> 16) & 0x7fff
  }
  let mask = 0
  let left = 0
  for (let i = 0; i < record.length; i++, left--) {
    if (left === 0) {
      mask = random() & 0xff
      left = (random() & 15) + 1
    }
    if (i >= 4) record[i]! ^= mask
  }
  const keyStart = 4 + (seed & 15)
  const data = section.subarray(keyRecord.head + keyRecord.bytes)
  const decipher = createDecipheriv('aes-128-ecb', record.subarray(keyStart, keyStart + 16), null).setAutoPadding(false)
  return decipher.update(data.subarray(0, data.length & ~15))
}

function unpack(stream: Uint8Array): Uint8Array {
  try {
    return inflateRawSync(stream, { maxOutputLength: maxSectionBytes, finishFlush: constants.Z_SYNC_FLUSH })
  } catch {
    return new Uint8Array()
  }
}

/** Adds the texts of a section: records with a kind of 10 bits, a level of 10 bits and a size of 12 bits. */
function addParagraphs(sink: TextSink, section: Uint8Array): void {
  const view = viewOf(section)
  for (let at = 0; at + 4 <= section.length && !sink.isFull; ) {
    const head = view.getUint32(at, true)
    const isLarge = head >>> 20 === largeSize && at + 8 <= section.length
    const start = at + (isLarge ? 8 : 4)
    const end = Math.min(section.length, start + (isLarge ? view.getUint32(at + 4, true) : head >>> 20))
    if ((head & 0x3ff) === paragraphText) sink.add(`${readParagraph(view, start, end)}\n`)
    at = end
  }
}

function readParagraph(view: DataView, start: number, end: number): string {
  let text = ''
  for (let at = start; at + 2 <= end; at += 2) {
    const unit = view.getUint16(at, true)
    if (unit >= 32) text += String.fromCharCode(unit)
    else if (signs.has(unit)) text += signs.get(unit)
    else if (unit !== 0 && unit < 24) {
      if (unit === tab) text += '\t'
      at += (unitsOfData - 1) * 2
    }
  }
  return text.toWellFormed()
}
