/** Reader of PowerPoint presentations from before 2007 ([MS-PPT]). */
import { constants, inflateSync } from 'node:zlib'
import { ReadFailure } from '../../../ports/document-reader.ts'
import { createTextSink, decodeAs, normalizeWhitespace } from '../decode.ts'
import type { Ole } from './ole.ts'

const recordTypes = {
  wideText: 4000,
  text: 4008,
  string: 4026,
  headersFooters: 4057,
  object: 4113,
  binaryTag: 5003,
  comment: 12000,
} as const
const maxObjectBytes = 64 * 1024 * 1024

interface PptRecord {
  kind: number
  instance: number
  isContainer: boolean
  data: Uint8Array
}

/** Mark of an encrypted presentation in the stream `Current User` ([MS-PPT] 2.3.2). */
const encryptedMark = 0xf3d1c4df
/** Start of the Open XML that PowerPoint 2007 and later write into records with the version of containers. */
const zipMark = 0x504b0304

function isEncrypted(ole: Ole): boolean {
  const user = ole.stream('Current User')
  return user !== null && user.length >= 16 && new DataView(user.buffer, user.byteOffset).getUint32(12, true) === encryptedMark
}

/** A record has a version and an instance, a type and a size; containers (version 15) contain records. */
function* readRecords(ole: Ole): Generator<PptRecord> {
  const bytes = ole.stream('PowerPoint Document')
  if (!bytes) throw new ReadFailure('FILE_CORRUPT', 'The presentation has no slides.')
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  for (let at = 0; at + 8 <= bytes.length; ) {
    const version = view.getUint16(at, true)
    const size = view.getUint32(at + 4, true)
    const isZip = at + 12 <= bytes.length && view.getUint32(at + 8) === zipMark
    const kind = view.getUint16(at + 2, true)
    // Comments are records in the data of a tag.
    const hasComments = kind === recordTypes.binaryTag && at + 12 <= bytes.length && view.getUint16(at + 10, true) === recordTypes.comment
    const isContainer = hasComments || ((version & 0xf) === 0xf && !isZip)
    yield { kind, instance: version >> 4, isContainer, data: bytes.subarray(at + 8, at + 8 + size) }
    at += 8 + (isContainer ? 0 : size)
  }
}

/** Reads the text atoms of slides, masters, notes and comments. Throws ReadFailure FILE_ENCRYPTED, FILE_CORRUPT. */
export function readPpt(ole: Ole): string {
  if (isEncrypted(ole)) throw new ReadFailure('FILE_ENCRYPTED')
  const sink = createTextSink()
  // Other containers use strings for names, tags and links.
  let inTexts = false
  for (const { kind, isContainer, data } of readRecords(ole)) {
    if (isContainer) inTexts = kind === recordTypes.comment || kind === recordTypes.headersFooters
    if (kind === recordTypes.wideText || (kind === recordTypes.string && inTexts)) sink.add(`${decodeAs(data, 'utf-16le')}\n`)
    if (kind === recordTypes.text) sink.add(`${decodeAs(data, 'windows-1252')}\n`)
  }
  // \v is a line break in a paragraph, \r its end.
  return normalizeWhitespace(sink.text().replace(/[\v\r]/g, '\n'))
}

/** Returns the embedded objects, which are compound files. */
export function* readPptObjects(ole: Ole): Generator<Uint8Array> {
  const compressed = 1
  for (const { kind, instance, data } of readRecords(ole)) {
    if (kind !== recordTypes.object) continue
    if (instance !== compressed) yield data
    else
      try {
        yield new Uint8Array(inflateSync(data.subarray(4), { maxOutputLength: maxObjectBytes, finishFlush: constants.Z_SYNC_FLUSH }))
      } catch {
        // A damaged object is no reason to refuse the others.
      }
  }
}
