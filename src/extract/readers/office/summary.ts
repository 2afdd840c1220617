/** Reader of the property sets of compound files ([MS-OLEPS]): title, author, times and the user's own properties. */

import { viewOf } from '../../bytes.ts'
import { codePageEncoding } from '../code-pages.ts'
import { decodeAs, normalizeWhitespace } from '../decode.ts'
import type { Ole } from './ole.ts'

const names: Readonly<Record<number, string>> = {
  2: 'title',
  3: 'subject',
  4: 'author',
  5: 'keywords',
  6: 'description',
  12: 'created',
  13: 'modified',
}
const types = { int16: 2, int32: 3, double: 5, boolean: 11, ansi: 30, wide: 31, time: 64 } as const
const maxProperties = 1000

type PropertyValue = string | number | boolean | undefined

/** Returns the metadata of a document; own properties as `custom.NAME`. `stream`: the name of the main set. */
export function readSummary(ole: Ole, stream = '\x05SummaryInformation'): Record<string, unknown> {
  const metadata: Record<string, unknown> = {}
  const [summary] = readSections(ole.stream(stream))
  for (const [id, key] of Object.entries(names)) {
    const value = summary?.values.get(Number(id))
    if (value !== undefined && value !== '') metadata[key] = value
  }
  const own = readSections(ole.stream('\x05DocumentSummaryInformation'))[1]
  for (const [id, name] of own?.names ?? []) {
    const value = own?.values.get(id)
    // Names with an underscore are of programs.
    if (value !== undefined && value !== '' && !name.startsWith('_')) metadata[`custom.${name}`] = value
  }
  return metadata
}

interface Section {
  readonly values: Map<number, PropertyValue>
  /** names of own properties by number */
  readonly names: Map<number, string>
}

function readSections(bytes: Uint8Array | null): Section[] {
  if (!bytes || bytes.length < 48) return []
  const view = viewOf(bytes)
  const count = Math.min(view.getUint32(24, true), 2)
  return Array.from({ length: count }, (_, i) => {
    const at = 28 + i * 20 + 16
    return readSection(bytes.subarray(at + 4 <= bytes.length ? view.getUint32(at, true) : bytes.length))
  })
}

function readSection(bytes: Uint8Array): Section {
  const view = viewOf(bytes)
  const section: Section = { values: new Map(), names: new Map() }
  const count = bytes.length >= 8 ? Math.min(view.getUint32(4, true), maxProperties) : 0
  const offsets = new Map<number, number>()
  for (let at = 8; at < 8 + count * 8 && at + 8 <= bytes.length; at += 8)
    offsets.set(view.getUint32(at, true), view.getUint32(at + 4, true))
  const codePageAt = offsets.get(1)
  const codePage = codePageAt !== undefined && codePageAt + 6 <= bytes.length ? view.getUint16(codePageAt + 4, true) : 1252
  const decodeText = (at: number, size: number): string =>
    normalizeWhitespace((decodeAs(bytes.subarray(at, at + size), codePageEncoding(codePage)) ?? '').replace(/\0.*$/s, ''))
  for (const [id, at] of offsets) {
    if (at + 8 > bytes.length) continue
    if (id === 0) readNames(bytes, at, codePage === 1200, decodeText, section.names)
    else if (id !== 1) section.values.set(id, readValue(bytes, at, decodeText))
  }
  return section
}

type DecodeText = (at: number, size: number) => string

function readValue(bytes: Uint8Array, at: number, decodeText: DecodeText): PropertyValue {
  const view = viewOf(bytes)
  const type = view.getUint32(at, true)
  const isWide = at + 12 <= bytes.length
  if (type === types.ansi) return decodeText(at + 8, view.getUint32(at + 4, true))
  if (type === types.wide)
    return normalizeWhitespace(decodeAs(bytes.subarray(at + 8, at + 8 + view.getUint32(at + 4, true) * 2), 'utf-16le') ?? '')
  if (type === types.int16) return view.getInt16(at + 4, true)
  if (type === types.int32) return view.getInt32(at + 4, true)
  if (type === types.boolean) return view.getUint16(at + 4, true) !== 0
  if (type === types.double && isWide) return view.getFloat64(at + 4, true)
  return type === types.time && isWide ? readFileTime(view, at + 4) : undefined
}

/** Reads the dictionary: number, length, name; wide names are padded to four bytes. */
function readNames(bytes: Uint8Array, start: number, isWide: boolean, decodeText: DecodeText, found: Map<number, string>): void {
  const view = viewOf(bytes)
  const count = Math.min(view.getUint32(start, true), maxProperties)
  let at = start + 4
  for (let i = 0; i < count && at + 8 <= bytes.length; i++) {
    const size = view.getUint32(at + 4, true) * (isWide ? 2 : 1)
    found.set(view.getUint32(at, true), decodeText(at + 8, size))
    at += 8 + (isWide ? Math.ceil(size / 4) * 4 : size)
  }
}

/** Converts a FILETIME, 100 ns since 1601, to an ISO time. */
export function readFileTime(view: DataView, at: number): string | undefined {
  const ms = Number(view.getBigUint64(at, true) / 10_000n) - 11_644_473_600_000
  return Number.isFinite(new Date(ms).getTime()) && ms > 0 ? new Date(ms).toISOString() : undefined
}
