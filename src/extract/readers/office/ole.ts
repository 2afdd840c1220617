/** Reader of compound files (OLE), the container of old office documents and Outlook messages. */
import { ReadFailure } from '../../../ports/document-reader.ts'
import { viewOf } from '../../bytes.ts'

const signature = 'd0cf11e0a1b11ae1'
/** Lowest sector number with a special meaning, such as the end of a chain. */
const firstSpecialSector = 0xfffffffa
const maxEntries = 100_000

export interface Ole {
  /** Paths of all streams, with `/` between storages. */
  readonly names: readonly string[]
  /** Returns the content of a stream, truncated at damage; null if there is none. Case does not matter. */
  stream(name: string): Uint8Array | null
  /** Returns the storage at a path that ends with `/`. */
  storage(path: string): Ole
}

interface Entry {
  name: string
  kind: number
  left: number
  right: number
  child: number
  start: number
  size: number
}

/** Returns whether the bytes begin as a compound file. */
export const isOle = (bytes: Uint8Array): boolean => bytes[0] === 0xd0 && bytes[1] === 0xcf && bytes[2] === 0x11 && bytes[3] === 0xe0

/** Opens a compound file. Throws ReadFailure FILE_CORRUPT. */
export function openOle(bytes: Uint8Array): Ole {
  const view = viewOf(bytes)
  if (bytes.length < 1536 || Buffer.from(bytes.subarray(0, 8)).toString('hex') !== signature) throw new ReadFailure('FILE_CORRUPT')
  const sectorSize = 1 << Math.min(view.getUint16(30, true), 16)
  const miniSize = 1 << Math.min(view.getUint16(32, true), 16)
  const sector = (number: number): Uint8Array => bytes.subarray((number + 1) * sectorSize, (number + 2) * sectorSize)
  const table = readAllocationTable(view, bytes.length, sectorSize)
  const chain = (start: number): Uint8Array => join(followChain(start, table).map(sector))
  const entries = readDirectory(chain(view.getUint32(48, true)))
  const root = entries[0]
  if (!root) throw new ReadFailure('FILE_CORRUPT')
  const miniTable = toUint32Array(chain(view.getUint32(60, true)))
  const cutoff = view.getUint32(56, true)
  let mini: Uint8Array | undefined
  const miniSector = (number: number): Uint8Array => {
    mini ??= chain(root.start)
    return mini.subarray(number * miniSize, (number + 1) * miniSize)
  }
  const streams = listStreams(entries)
  const byLowerCase = new Map([...streams.keys()].map((name) => [name.toLowerCase(), name]))
  const stream = (name: string): Uint8Array | null => {
    const entry = streams.get(name) ?? streams.get(byLowerCase.get(name.toLowerCase()) ?? '')
    if (!entry) return null
    const content = entry.size < cutoff ? join(followChain(entry.start, miniTable).map(miniSector)) : chain(entry.start)
    return content.subarray(0, entry.size)
  }
  return createStorage([...streams.keys()], stream)
}

const createStorage = (names: readonly string[], stream: (name: string) => Uint8Array | null): Ole => ({
  names,
  stream,
  storage: (path) =>
    createStorage(
      names.flatMap((name) => (name.startsWith(path) ? [name.slice(path.length)] : [])),
      (name) => stream(path + name),
    ),
})

const join = (parts: Uint8Array[]): Uint8Array => new Uint8Array(Buffer.concat(parts))

function toUint32Array(bytes: Uint8Array): Uint32Array {
  const view = viewOf(bytes)
  return Uint32Array.from({ length: bytes.length >> 2 }, (_, i) => view.getUint32(i * 4, true))
}

/** Reads the allocation table: for each sector the next one. */
function readAllocationTable(view: DataView, length: number, sectorSize: number): Uint32Array {
  const sectors = Math.ceil(length / sectorSize)
  const parts: number[] = []
  for (let i = 0; i < 109; i++) parts.push(view.getUint32(76 + i * 4, true))
  const perSector = sectorSize / 4
  let next = view.getUint32(68, true)
  for (let count = 0; next < firstSpecialSector && count < sectors; count++) {
    const at = (next + 1) * sectorSize
    if (at + sectorSize > length) break
    for (let i = 0; i < perSector - 1; i++) parts.push(view.getUint32(at + i * 4, true))
    next = view.getUint32(at + (perSector - 1) * 4, true)
  }
  const table = new Uint32Array(sectors + perSector).fill(0xffffffff)
  parts.forEach((number, part) => {
    const at = (number + 1) * sectorSize
    if (number >= firstSpecialSector || at + sectorSize > length) return
    for (let i = 0; i < perSector && part * perSector + i < table.length; i++)
      table[part * perSector + i] = view.getUint32(at + i * 4, true)
  })
  return table
}

/** Returns the sectors of a chain, at most as many as exist, because a damaged chain can be circular. */
function followChain(start: number, table: Uint32Array): number[] {
  const chain: number[] = []
  for (let at = start; at < firstSpecialSector && at < table.length && chain.length < table.length; at = table[at]!) chain.push(at)
  return chain
}

function readDirectory(bytes: Uint8Array): Entry[] {
  const view = viewOf(bytes)
  const entries: Entry[] = []
  for (let at = 0; at + 128 <= bytes.length && entries.length < maxEntries; at += 128) {
    const nameLength = Math.max(0, Math.min(view.getUint16(at + 64, true), 64) - 2)
    entries.push({
      name: new TextDecoder('utf-16le').decode(bytes.subarray(at, at + nameLength)),
      kind: view.getUint8(at + 66),
      left: view.getUint32(at + 68, true),
      right: view.getUint32(at + 72, true),
      child: view.getUint32(at + 76, true),
      start: view.getUint32(at + 116, true),
      size: view.getUint32(at + 120, true),
    })
  }
  return entries
}

function listStreams(entries: readonly Entry[]): Map<string, Entry> {
  const streams = new Map<string, Entry>()
  const visited = new Set<number>([0])
  const waiting: { index: number; path: string }[] = [{ index: entries[0]!.child, path: '' }]
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const entry = entries[next.index]
    if (!entry || visited.has(next.index)) continue
    visited.add(next.index)
    const { path } = next
    waiting.push({ index: entry.right, path }, { index: entry.left, path })
    if (entry.kind === 1) waiting.push({ index: entry.child, path: `${path}${entry.name}/` })
    if (entry.kind === 2) streams.set(path + entry.name, entry)
  }
  return streams
}
