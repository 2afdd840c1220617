/** Reader of ZIP archives with a limit on the unpacked size. */
import { constants, inflateRawSync } from 'node:zlib'
import { ReadFailure } from '../../ports/document-reader.ts'
import { viewOf } from '../bytes.ts'
import { decodeAs, guessEncoding, isUtf8 } from './decode.ts'

const maxEntries = 50_000
/** Maximum unpacked size of all parts of a file together. */
const maxUnpackedBytes = 256 * 1024 * 1024
const signatures = { entry: 0x02014b50, file: 0x04034b50, end: 0x06054b50, end64: 0x06064b50, locator64: 0x07064b50 } as const
const zip64Placeholder = 0xffffffff

/** Parts of a document by name. */
export interface Parts {
  readonly names: readonly string[]
  /** Returns the unpacked bytes of a part, null if there is none. Throws ReadFailure FILE_CORRUPT, FILE_ENCRYPTED, FILE_TOO_COMPLEX. */
  readPart(name: string): Uint8Array | null
}

export interface Archive extends Parts {
  /** Unpacked sizes by name, as the directory states them. */
  readonly sizes: ReadonlyMap<string, number>
  /** All members in their order. Of several with one name, readPart() and readMember() read the first. */
  readonly members: readonly ArchiveMember[]
  /** Returns the unpacked bytes of a part, which may have no more than its stated size. Does not count towards the limit of the archive. */
  readMember(name: string): Uint8Array
}

export interface ArchiveMember {
  readonly name: string
  /** unpacked size, as the directory states it */
  readonly size: number
  read(): Uint8Array
}

interface Entry {
  readonly name: string
  readonly isEncrypted: boolean
  readonly method: number
  readonly packed: number
  readonly unpacked: number
  /** possible offsets: the stated offset shifted like the directory, then the stated offset */
  readonly offsets: readonly number[]
}

/** Opens an archive. Parts are unpacked on demand. Throws ReadFailure FILE_CORRUPT, FILE_TOO_COMPLEX. */
export function openArchive(bytes: Uint8Array): Archive {
  const view = viewOf(bytes)
  const entries = new Map<string, Entry>()
  const directory = [...readDirectory(bytes, view)]
  const decodeName = chooseNameDecoder(directory.map(({ rawName }) => rawName))
  // .NET before 4.6.1 writes backslashes between folders.
  const members = directory.map(({ rawName, ...rest }) => ({ name: decodeName(rawName).replaceAll('\\', '/'), ...rest }))
  for (const entry of members) if (!entries.has(entry.name)) entries.set(entry.name, entry)
  // Names of parts in a package are equal without regard to case (ECMA-376, part 2: part name equivalence).
  const byLowerCase = new Map(Array.from(entries.values(), (entry) => [entry.name.toLowerCase(), entry]))
  let left = maxUnpackedBytes
  const unpackMember = (entry: Entry): Uint8Array =>
    entry.unpacked === 0 && !entry.isEncrypted ? new Uint8Array() : unpack(bytes, view, entry, Math.min(entry.unpacked, maxUnpackedBytes))
  return {
    names: [...entries.keys()],
    sizes: new Map(Array.from(entries.values(), ({ name, unpacked }) => [name, unpacked])),
    readPart(name) {
      const entry = entries.get(name) ?? byLowerCase.get(name.toLowerCase())
      if (!entry) return null
      const content = unpack(bytes, view, entry, left)
      left -= content.length
      return content
    },
    members: members.map((entry) => ({ name: entry.name, size: entry.unpacked, read: () => unpackMember(entry) })),
    readMember(name) {
      const entry = entries.get(name)
      if (!entry) throw corruptFailure(`${name} is missing`)
      return unpackMember(entry)
    },
  }
}

const corruptFailure = (reason: string): ReadFailure => new ReadFailure('FILE_CORRUPT', `The file cannot be unpacked: ${reason}.`)

function* readDirectory(bytes: Uint8Array, view: DataView): Generator<Omit<Entry, 'name'> & { rawName: Uint8Array }> {
  const { count, start, shift } = findDirectory(view)
  if (count > maxEntries) throw new ReadFailure('FILE_TOO_COMPLEX', `The file has ${count} parts; ${maxEntries} are allowed.`)
  let at = start
  for (let i = 0; i < count; i++) {
    if (at + 46 > bytes.length || view.getUint32(at, true) !== signatures.entry) throw corruptFailure('its directory is damaged')
    const nameLength = view.getUint16(at + 28, true)
    const extraLength = view.getUint16(at + 30, true)
    const rawName = bytes.subarray(at + 46, at + 46 + nameLength)
    const sizes = { unpacked: view.getUint32(at + 24, true), packed: view.getUint32(at + 20, true), offset: view.getUint32(at + 42, true) }
    const extra = at + 46 + nameLength
    const { packed, unpacked, offset } = readZip64Sizes(view, extra, Math.min(extra + extraLength, bytes.length), sizes)
    yield {
      rawName,
      packed,
      unpacked,
      offsets: shift === 0 ? [offset] : [offset + shift, offset],
      isEncrypted: (view.getUint16(at + 8, true) & 1) === 1,
      method: view.getUint16(at + 10, true),
    }
    at += 46 + nameLength + extraLength + view.getUint16(at + 32, true)
  }
}

/**
 * Returns a function that decodes a name as UTF-8, else in the encoding that fits all names that are not UTF-8. The archive does not state an
 * encoding.
 */
function chooseNameDecoder(names: readonly Uint8Array[]): (name: Uint8Array) => string {
  const others = Buffer.concat(names.filter((name) => !isUtf8(name)).flatMap((name) => [name, Buffer.from('\n')]))
  const encoding = others.length === 0 ? 'utf-8' : guessEncoding(others)
  return (name) => (isUtf8(name) ? Buffer.from(name).toString() : (decodeAs(name, encoding) ?? ''))
}

/** Finds the directory by its end record, which is in the last 64 KiB, before a comment. */
function findDirectory(view: DataView): { count: number; start: number; shift: number } {
  for (let at = view.byteLength - 22; at >= Math.max(0, view.byteLength - 65_558); at--) {
    if (view.getUint32(at, true) !== signatures.end) continue
    const count = view.getUint16(at + 10, true)
    const start = view.getUint32(at + 16, true)
    const isZip64 = (start === zip64Placeholder || count === 0xffff) && at >= 20 && view.getUint32(at - 20, true) === signatures.locator64
    // Bytes added or lost before the archive shift all offsets. The directory ends where its end record begins.
    const shift = at - view.getUint32(at + 12, true) - start
    if (!isZip64) return { count, start: Math.max(0, start + shift), shift }
    const end64 = Number(view.getBigUint64(at - 12, true))
    if (end64 + 56 > view.byteLength || view.getUint32(end64, true) !== signatures.end64) throw corruptFailure('its directory is damaged')
    return { count: Number(view.getBigUint64(end64 + 32, true)), start: Number(view.getBigUint64(end64 + 48, true)), shift: 0 }
  }
  throw corruptFailure('its end is missing')
}

/** Replaces placeholders in the sizes by the 64-bit numbers of the extra field. */
function readZip64Sizes(view: DataView, start: number, end: number, sizes: { unpacked: number; packed: number; offset: number }) {
  const resolved = { ...sizes }
  for (let at = start; at + 4 <= end; at += 4 + view.getUint16(at + 2, true)) {
    if (view.getUint16(at, true) !== 1) continue
    let value = at + 4
    for (const key of ['unpacked', 'packed', 'offset'] as const) {
      if (resolved[key] !== zip64Placeholder || value + 8 > end) continue
      resolved[key] = Number(view.getBigUint64(value, true))
      value += 8
    }
  }
  return resolved
}

function unpack(bytes: Uint8Array, view: DataView, { name, method, packed, offsets, isEncrypted }: Entry, maxBytes: number): Uint8Array {
  if (isEncrypted) throw new ReadFailure('FILE_ENCRYPTED')
  const offset = offsets.find((at) => at >= 0 && at + 30 <= bytes.length && view.getUint32(at, true) === signatures.file)
  if (offset === undefined) throw corruptFailure(`${name} is missing`)
  const start = offset + 30 + view.getUint16(offset + 26, true) + view.getUint16(offset + 28, true)
  const data = bytes.subarray(start, start + packed)
  if (maxBytes <= 0 || (method === 0 && data.length > maxBytes)) throw tooLargeFailure()
  if (method === 0) return data
  if (method !== 8) throw corruptFailure(`${name} uses an unknown compression method`)
  try {
    // Z_SYNC_FLUSH returns the beginning of truncated data.
    return inflateRawSync(data, { maxOutputLength: maxBytes, finishFlush: constants.Z_SYNC_FLUSH })
  } catch (problem) {
    if (problem instanceof RangeError) throw tooLargeFailure()
    throw corruptFailure(`${name} is damaged`)
  }
}

const tooLargeFailure = (): ReadFailure => new ReadFailure('FILE_TOO_COMPLEX', `The file unpacks to more than ${maxUnpackedBytes} bytes.`)

/** Resolves the target of a relation against the part that contains it: `ppt/slides/slide1.xml` + `../notesSlides/n.xml`. */
export function resolvePart(from: string, target: string): string {
  if (target.startsWith('/')) return target.slice(1)
  const path = from.split('/').slice(0, -1)
  for (const step of target.split('/')) {
    if (step === '..') path.pop()
    else if (step !== '.') path.push(step)
  }
  return path.join('/')
}
