/** Lists of Word 97 documents ([MS-DOC] 2.9.131 LSTF, 2.9.147 LVL, 2.9.134 LFO). */

import { viewOf } from '../../../bytes.ts'
import { decodeAs } from '../../decode.ts'
import { createListCounters, type ListLevel } from './list-labels.ts'

/** Names of ST_NumberFormat by number (MSONFC). */
const formats: Readonly<Record<number, string>> = {
  0: 'decimal',
  1: 'upperRoman',
  2: 'lowerRoman',
  3: 'upperLetter',
  4: 'lowerLetter',
  5: 'ordinal',
  22: 'decimalZero',
  23: 'bullet',
  255: 'none',
}
const maxLists = 10_000

type Levels = Map<number, ListLevel>

interface Override {
  listId: number
  readonly levels: Levels
  readonly starts: Map<number, number>
}

/** Returns a function from the number of an override (sprmPIlfo) and a level (sprmPIlvl) to the next label. */
export function readDocListLabels(lists: Uint8Array, overrides: Uint8Array): (override: number, level: number) => string {
  const levelsById = readLists(lists)
  const overridesByNumber = readOverrides(overrides)
  const nextLabel = createListCounters()
  return (number, level) => {
    const override = overridesByNumber[number - 1]
    const levels = override && levelsById.get(override.listId)
    if (!levels) return ''
    const merged = override.levels.size > 0 ? new Map([...levels, ...override.levels]) : levels
    return nextLabel({ list: String(override.listId), levels: merged, level, overrides: { key: String(number), starts: override.starts } })
  }
}

/** The levels of all lists follow the table of lists. */
function readLists(bytes: Uint8Array): Map<number, Levels> {
  const view = viewOf(bytes)
  const found = new Map<number, Levels>()
  const count = bytes.length >= 2 ? Math.min(view.getUint16(0, true), maxLists) : 0
  let at = 2 + count * 28
  for (let i = 0; i < count && at < bytes.length; i++) {
    const levels: Levels = new Map()
    found.set(view.getUint32(2 + i * 28, true), levels)
    const isSimple = (bytes[2 + i * 28 + 26]! & 1) === 1
    for (let level = 0; level < (isSimple ? 1 : 9) && at + 28 <= bytes.length; level++) {
      const { definition, end } = readLevel(bytes, at)
      levels.set(level, definition)
      at = end
    }
  }
  return found
}

function readLevel(bytes: Uint8Array, at: number): { definition: ListLevel; end: number } {
  const view = viewOf(bytes)
  const flags = bytes[at + 5]!
  const textAt = at + 28 + bytes[at + 24]! + bytes[at + 25]!
  const length = textAt + 2 <= bytes.length ? view.getUint16(textAt, true) : 0
  const end = textAt + 2 + length * 2
  const text = decodeAs(bytes.subarray(textAt + 2, end), 'utf-16le') ?? ''
  const definition: ListLevel = {
    start: view.getInt32(at, true),
    format: formats[bytes[at + 4]!] ?? 'decimal',
    // Placeholders of levels are the characters 0 to 8.
    text: [...text].map((character) => (character < '\t' ? `%${character.charCodeAt(0) + 1}` : character)).join(''),
    isLegal: (flags & 4) !== 0,
    restartAfter: flags & 8 ? bytes[at + 26] : undefined,
  }
  return { definition, end }
}

function readOverrides(bytes: Uint8Array): Override[] {
  const view = viewOf(bytes)
  const count = bytes.length >= 4 ? Math.min(view.getUint32(0, true), maxLists, Math.floor((bytes.length - 4) / 16)) : 0
  let at = 4 + count * 16
  return Array.from({ length: count }, (_, i) => {
    const override: Override = { listId: view.getUint32(4 + i * 16, true), levels: new Map(), starts: new Map() }
    at += 4
    for (let level = 0; level < bytes[4 + i * 16 + 12]! && at + 8 <= bytes.length; level++) {
      const flags = view.getUint32(at + 4, true)
      if (flags & 0x10) override.starts.set(flags & 15, view.getInt32(at, true))
      at += 8
      if (!(flags & 0x20) || at + 28 > bytes.length) continue
      const { definition, end } = readLevel(bytes, at)
      override.levels.set(flags & 15, definition)
      if (flags & 0x10) override.starts.set(flags & 15, definition.start)
      at = end
    }
    return override
  })
}
