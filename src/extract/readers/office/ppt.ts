/** Reader of PowerPoint presentations from before 2007 ([MS-PPT]). */
import { constants, inflateSync } from 'node:zlib'
import { ReadFailure } from '../../../ports/document-reader.ts'
import { createTextSink, decodeAs, normalizeWhitespace } from '../decode.ts'
import type { Ole } from './ole.ts'

const recordTypes = { wideText: 4000, text: 4008, string: 4026, headersFooters: 4057, object: 4113, comment: 12000 } as const
const maxObjectBytes = 64 * 1024 * 1024

interface PptRecord {
  kind: number
  instance: number
  isContainer: boolean
  data: Uint8Array
}

/** A record has a version and an instance, a type and a size; containers (version 15) contain records. */
function* readRecords(ole: Ole): Generator<PptRecord> {
  const bytes = ole.stream('PowerPoint Document')
  if (!bytes) throw new ReadFailure('FILE_CORRUPT', 'The presentation has no slides.')
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  for (let at = 0; at + 8 <= bytes.length; ) {
    const version = view.getUint16(at, true)
    const size = view.getUint32(at + 4, true)
    const isContainer = (version & 0xf) === 0xf
    yield { kind: view.getUint16(at + 2, true), instance: version >> 4, isContainer, data: bytes.subarray(at + 8, at + 8 + size) }
    at += 8 + (isContainer ? 0 : size)
  }
}

/** Reads the text atoms of slides, masters, notes and comments. */
export function readPpt(ole: Ole): string {
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
