/** Reader of PowerPoint presentations from before 2007 ([MS-PPT]). */
import { constants, inflateSync } from 'node:zlib'
import { ReadFailure } from '../../../ports/document-reader.ts'
import { viewOf } from '../../bytes.ts'
import { createTextSink, decodeAs, normalizeWhitespace } from '../decode.ts'
import type { Ole } from './ole.ts'

const recordTypes = {
  document: 1000,
  documentAtom: 1001,
  slide: 1006,
  notes: 1008,
  slidePersist: 1011,
  mainMaster: 1016,
  textHeader: 3999,
  wideText: 4000,
  text: 4008,
  string: 4026,
  handoutMaster: 4041,
  headersFooters: 4057,
  slideList: 4080,
  userEdit: 4085,
  object: 4113,
  binaryTag: 5003,
  persistDirectory: 6002,
  comment: 12000,
} as const
const maxObjectBytes = 64 * 1024 * 1024
const maxPersistObjects = 1_000_000

/** Instance of the list of masters among the lists of slides. */
const listOfMasters = 1
/** Type of text outside of the placeholders for title, text and notes, such as a footer. */
const otherText = 4

/** Text in place of a date or the number of a slide. */
const field = '*'

/** Part of the stream. */
interface Range {
  start: number
  end: number
  isMaster?: boolean
}

interface PptRecord {
  kind: number
  instance: number
  isContainer: boolean
  inMaster: boolean
  data: Uint8Array
}

/** Mark of an encrypted presentation in the stream `Current User` ([MS-PPT] 2.3.2). */
const encryptedMark = 0xf3d1c4df
/** Start of the Open XML that PowerPoint 2007 and later write into records with the version of containers. */
const zipMark = 0x504b0304

const readUint32 = (bytes: Uint8Array, at: number): number => (at + 4 <= bytes.length ? viewOf(bytes).getUint32(at, true) : 0)

/** Reads the record at a position; null if it is not of one of these kinds, or not complete. */
function recordAt(bytes: Uint8Array, at: number | undefined, ...kinds: number[]): (Range & { kind: number; data: Uint8Array }) | null {
  if (at === undefined || at + 8 > bytes.length) return null
  const kind = viewOf(bytes).getUint16(at + 2, true)
  const end = at + 8 + readUint32(bytes, at + 4)
  return kinds.includes(kind) && end <= bytes.length ? { kind, start: at, end, data: bytes.subarray(at + 8, end) } : null
}

/** Reads the directory of objects: the offset of the newest version of each. Every save appends an edit that refers to the edit before it. */
function readPersistDirectory(bytes: Uint8Array, lastEdit: number): { offsets: Map<number, number>; documentId: number } | null {
  const offsets = new Map<number, number>()
  let documentId: number | undefined
  let count = 0
  for (let at = lastEdit; ; ) {
    const edit = recordAt(bytes, at, recordTypes.userEdit)
    const directory = edit && recordAt(bytes, readUint32(edit.data, 12), recordTypes.persistDirectory)
    if (!directory) return null
    documentId ??= readUint32(edit.data, 16)
    const { data } = directory
    for (let entry = 0; entry + 4 <= data.length; ) {
      const [id, length] = [readUint32(data, entry) & 0xfffff, readUint32(data, entry) >>> 20]
      count += 1 + length
      if (count > maxPersistObjects) return null
      for (let i = 0; i < length; i++) if (!offsets.has(id + i)) offsets.set(id + i, readUint32(data, entry + 4 + i * 4))
      entry += 4 + length * 4
    }
    const previous = readUint32(edit.data, 8)
    if (previous === 0) return { offsets, documentId }
    if (previous >= at) return null
    at = previous
  }
}

/** Finds the document, slides, notes, masters and objects of the last save. Returns null if the directory of objects is missing or damaged. */
function findCurrentRecords(ole: Ole, bytes: Uint8Array): Range[] | null {
  const user = ole.stream('Current User')
  const directory = user && readPersistDirectory(bytes, readUint32(user, 16))
  if (!directory) return null
  const { offsets, documentId } = directory
  const document = recordAt(bytes, offsets.get(documentId), recordTypes.document)
  const slideIds = document && findSlideIds(bytes, document)
  if (!slideIds?.size) return null
  const { slide, notes, mainMaster, handoutMaster, object } = recordTypes
  const found: (Range | null)[] = [document]
  for (const [id, isMaster] of slideIds) {
    const record = recordAt(bytes, offsets.get(id), slide, notes, mainMaster, handoutMaster)
    found.push(record && { ...record, isMaster })
  }
  for (const at of offsets.values()) {
    const record = recordAt(bytes, at, object)
    if (record) found.push(record)
  }
  const ranges = found.filter((range) => range !== null)
  const sorted = ranges.toSorted((a, b) => a.start - b.start)
  const isDamaged = ranges.length < found.length || sorted.some(({ start }, i) => i > 0 && start < sorted[i - 1]!.end)
  return isDamaged ? null : ranges
}

/** Returns the numbers of the slides, notes and masters to which a document refers, with whether it is a master. */
function findSlideIds(bytes: Uint8Array, document: Range): Map<number, boolean> {
  const ids = new Map<number, boolean>()
  let isMaster = false
  for (const { kind, instance, data } of walkRecords(bytes, document)) {
    if (kind === recordTypes.slideList) isMaster = instance === listOfMasters
    if (kind === recordTypes.slidePersist) ids.set(readUint32(data, 0), isMaster)
    // The masters of notes and handouts.
    if (kind === recordTypes.documentAtom) ids.set(readUint32(data, 24), true).set(readUint32(data, 28), true)
  }
  ids.delete(0)
  return ids
}

function isEncrypted(ole: Ole): boolean {
  const user = ole.stream('Current User')
  return user !== null && readUint32(user, 12) === encryptedMark
}

/** Reads the records of the last save, those of the whole stream if it is not clear which these are. */
function* readRecords(ole: Ole): Generator<PptRecord> {
  const bytes = ole.stream('PowerPoint Document')
  if (!bytes) throw new ReadFailure('FILE_CORRUPT', 'The presentation has no slides.')
  for (const range of findCurrentRecords(ole, bytes) ?? [{ start: 0, end: bytes.length }]) yield* walkRecords(bytes, range)
}

/** A record has a version and an instance, a type and a size; containers (version 15) contain records. */
function* walkRecords(bytes: Uint8Array, { start, end, isMaster = false }: Range): Generator<PptRecord> {
  const view = viewOf(bytes)
  let inMaster = isMaster
  for (let at = start; at + 8 <= end; ) {
    const version = view.getUint16(at, true)
    const size = view.getUint32(at + 4, true)
    const isZip = at + 12 <= bytes.length && view.getUint32(at + 8) === zipMark
    const kind = view.getUint16(at + 2, true)
    // Comments are records in the data of a tag.
    const hasComments = kind === recordTypes.binaryTag && at + 12 <= bytes.length && view.getUint16(at + 10, true) === recordTypes.comment
    const isContainer = hasComments || ((version & 0xf) === 0xf && !isZip)
    if (kind === recordTypes.mainMaster || kind === recordTypes.handoutMaster) inMaster = true
    else if (kind === recordTypes.document || kind === recordTypes.slide || kind === recordTypes.notes) inMaster = isMaster
    yield { kind, instance: version >> 4, isContainer, inMaster, data: bytes.subarray(at + 8, at + 8 + size) }
    at += 8 + (isContainer ? 0 : size)
  }
}

/** Reads the text atoms of slides, notes, comments and masters, without the prompts of placeholders. Throws ReadFailure FILE_ENCRYPTED, FILE_CORRUPT. */
export function readPpt(ole: Ole): string {
  if (isEncrypted(ole)) throw new ReadFailure('FILE_ENCRYPTED')
  const sink = createTextSink()
  // Other containers use strings for names, tags and links.
  let inTexts = false
  let textType: number = otherText
  for (const { kind, isContainer, inMaster, data } of readRecords(ole)) {
    if (isContainer) {
      inTexts = kind === recordTypes.comment || kind === recordTypes.headersFooters
      textType = otherText
    }
    if (kind === recordTypes.textHeader) textType = readUint32(data, 0)
    const isPrompt = inMaster && textType !== otherText
    let text: string | null = null
    if ((kind === recordTypes.wideText && !isPrompt) || (kind === recordTypes.string && inTexts)) text = decodeAs(data, 'utf-16le')
    if (kind === recordTypes.text && !isPrompt) text = decodeAs(data, 'windows-1252')
    if (text !== null && text !== field) sink.add(`${text}\n`)
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
