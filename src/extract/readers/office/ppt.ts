/** Reader of PowerPoint presentations from before 2007 ([MS-PPT]). */
import { constants, inflateSync } from 'node:zlib'
import { ReadFailure } from '../../../ports/document-reader.ts'
import { createTextSink, decodeAs, normalizeWhitespace } from '../decode.ts'
import type { Ole } from './ole.ts'

const recordTypes = {
  document: 1000,
  documentAtom: 1001,
  slide: 1006,
  notes: 1008,
  slidePersist: 1011,
  mainMaster: 1016,
  wideText: 4000,
  text: 4008,
  string: 4026,
  handoutMaster: 4041,
  headersFooters: 4057,
  userEdit: 4085,
  object: 4113,
  binaryTag: 5003,
  persistDirectory: 6002,
  comment: 12000,
} as const
const maxObjectBytes = 64 * 1024 * 1024
const maxPersistObjects = 1_000_000

/** Part of the stream. */
interface Range {
  start: number
  end: number
}

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

const viewOf = (bytes: Uint8Array): DataView => new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
const u32 = (bytes: Uint8Array, at: number): number => (at + 4 <= bytes.length ? viewOf(bytes).getUint32(at, true) : 0)

/** Reads the record at a position; null if it is not of one of these kinds, or not complete. */
function recordAt(bytes: Uint8Array, at: number | undefined, ...kinds: number[]): (Range & { kind: number; data: Uint8Array }) | null {
  if (at === undefined || at + 8 > bytes.length) return null
  const kind = viewOf(bytes).getUint16(at + 2, true)
  const end = at + 8 + u32(bytes, at + 4)
  return kinds.includes(kind) && end <= bytes.length ? { kind, start: at, end, data: bytes.subarray(at + 8, end) } : null
}

/** Reads the directory of objects: the offset of the newest version of each. Every save appends an edit that refers to the edit before it. */
function readPersistDirectory(bytes: Uint8Array, lastEdit: number): { offsets: Map<number, number>; documentId: number } | null {
  const offsets = new Map<number, number>()
  let documentId: number | undefined
  let count = 0
  for (let at = lastEdit; ; ) {
    const edit = recordAt(bytes, at, recordTypes.userEdit)
    const directory = edit && recordAt(bytes, u32(edit.data, 12), recordTypes.persistDirectory)
    if (!directory) return null
    documentId ??= u32(edit.data, 16)
    const { data } = directory
    for (let entry = 0; entry + 4 <= data.length; ) {
      const [id, length] = [u32(data, entry) & 0xfffff, u32(data, entry) >>> 20]
      count += 1 + length
      if (count > maxPersistObjects) return null
      for (let i = 0; i < length; i++) if (!offsets.has(id + i)) offsets.set(id + i, u32(data, entry + 4 + i * 4))
      entry += 4 + length * 4
    }
    const previous = u32(edit.data, 8)
    if (previous === 0) return { offsets, documentId }
    if (previous >= at) return null
    at = previous
  }
}

/** Finds the document, slides, notes, masters and objects of the last save. Returns null if the directory of objects is missing or damaged. */
function findCurrentRecords(ole: Ole, bytes: Uint8Array): Range[] | null {
  const user = ole.stream('Current User')
  const directory = user && readPersistDirectory(bytes, u32(user, 16))
  if (!directory) return null
  const { offsets, documentId } = directory
  const document = recordAt(bytes, offsets.get(documentId), recordTypes.document)
  const slideIds = document && findSlideIds(bytes, document)
  if (!slideIds?.size) return null
  const { slide, notes, mainMaster, handoutMaster, object } = recordTypes
  const found: (Range | null)[] = [document]
  for (const id of slideIds) found.push(recordAt(bytes, offsets.get(id), slide, notes, mainMaster, handoutMaster))
  for (const at of offsets.values()) {
    const record = recordAt(bytes, at, object)
    if (record) found.push(record)
  }
  const ranges = found.filter((range) => range !== null)
  const sorted = ranges.toSorted((a, b) => a.start - b.start)
  const isDamaged = ranges.length < found.length || sorted.some(({ start }, i) => i > 0 && start < sorted[i - 1]!.end)
  return isDamaged ? null : ranges
}

/** Returns the numbers of the slides, notes and masters to which a document refers. */
function findSlideIds(bytes: Uint8Array, document: Range): Set<number> {
  const ids = new Set<number>()
  for (const { kind, data } of walkRecords(bytes, document)) {
    if (kind === recordTypes.slidePersist) ids.add(u32(data, 0))
    // The masters of notes and handouts.
    if (kind === recordTypes.documentAtom) ids.add(u32(data, 24)).add(u32(data, 28))
  }
  ids.delete(0)
  return ids
}

function isEncrypted(ole: Ole): boolean {
  const user = ole.stream('Current User')
  return user !== null && u32(user, 12) === encryptedMark
}

/** Reads the records of the last save, those of the whole stream if it is not clear which these are. */
function* readRecords(ole: Ole): Generator<PptRecord> {
  const bytes = ole.stream('PowerPoint Document')
  if (!bytes) throw new ReadFailure('FILE_CORRUPT', 'The presentation has no slides.')
  for (const range of findCurrentRecords(ole, bytes) ?? [{ start: 0, end: bytes.length }]) yield* walkRecords(bytes, range)
}

/** A record has a version and an instance, a type and a size; containers (version 15) contain records. */
function* walkRecords(bytes: Uint8Array, { start, end }: Range): Generator<PptRecord> {
  const view = viewOf(bytes)
  for (let at = start; at + 8 <= end; ) {
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
