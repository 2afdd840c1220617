/** Tables of Pages, Numbers and Keynote since 2013: one line per row with tabs between cells. */
import { viewOf } from '../../../bytes.ts'
import type { TextSink } from '../../decode.ts'
import { bytesOf, type Message, messagesOf, numberOf, type Objects, referencesOf, textsOf } from './iwa.ts'

/** Kinds of cells. */
const kinds = { number: 2, text: 3, date: 5, boolean: 6, duration: 7, richText: 9, currency: 10 } as const
/** Version of the present form of cells. */
const cellVersion = 5
const valuesStart = 12
/** Start of the time of Apple's programs, in milliseconds. */
const epoch = Date.UTC(2001, 0, 1)

/** Adds the name of a table and its cells. Of older forms of cells, adds their texts only. */
export function readTable(sink: TextSink, table: Message, objects: Objects): void {
  sink.add(`${textsOf(table, 8).join()}\n`)
  const [store] = messagesOf(table, 4)
  if (!store) return
  const texts = new Map(listEntries(store, 4, objects).map((entry) => [numberOf(entry, 1), textsOf(entry, 3).join()]))
  const richTexts = new Map(listEntries(store, 17, objects).map((entry) => [numberOf(entry, 1), richTextOf(entry, objects)]))
  const tiles = messagesOf(store, 3).flatMap((storage) => messagesOf(storage, 1).flatMap((tile) => referencesOf(tile, 2)))
  let hasCells = false
  for (const tile of new Set(tiles))
    for (const row of messagesOf(objects.find(tile) ?? new Map(), 5)) {
      if (sink.isFull) return
      const cells = cellsOf(row).map((cell) => cellText(cell, texts, richTexts))
      if (cells.every((text) => text === '')) continue
      hasCells = true
      sink.add(`${cells.join('\t')}\n`)
    }
  if (!hasCells) for (const text of [...texts.values(), ...richTexts.values()]) sink.add(`${text}\n`)
}

/** Returns the entries of a list that a table refers to. Long lists are stored in segments. */
function listEntries(store: Message, field: number, { find }: Objects): Message[] {
  const list = find(referencesOf(store, field)[0] ?? 0)
  if (!list) return []
  const segments = [...new Set(referencesOf(list, 4))].flatMap((id) => find(id) ?? [])
  return [list, ...segments].flatMap((part) => messagesOf(part, 3))
}

function richTextOf(entry: Message, { find, textOf }: Objects): string {
  const payload = find(referencesOf(entry, 9)[0] ?? 0)
  return payload ? referencesOf(payload, 1).map(textOf).join().replaceAll('\n', ' ') : ''
}

/** Returns the cells of a row by column, without empty ones. The row has an offset for each column, -1 for none. */
function cellsOf(row: Message): Uint8Array[] {
  const [cells] = bytesOf(row, 6)
  const [offsets] = bytesOf(row, 7)
  if (!cells || !offsets) return []
  const unit = numberOf(row, 8) === 1 ? 4 : 1
  const view = viewOf(offsets)
  const starts = Array.from({ length: offsets.length >> 1 }, (_, column) => view.getInt16(column * 2, true) * unit)
  return starts.filter((start) => start >= 0).map((start) => cells.subarray(start))
}

/** Returns the text of a cell: version, kind, flags of its values, values. */
function cellText(cell: Uint8Array, texts: ReadonlyMap<number, string>, richTexts: ReadonlyMap<number, string>): string {
  if (cell.length < valuesStart + 4 || cell[0] !== cellVersion) return ''
  const view = viewOf(cell)
  const flags = view.getUint32(8, true)
  let at = valuesStart
  /** Returns the offset of a value if the cell has it. */
  const take = (flag: number, size: number): number | null => {
    if ((flags & flag) === 0 || at + size > cell.length) return null
    at += size
    return at - size
  }
  const [decimal, double, seconds, key, richKey] = [take(1, 16), take(2, 8), take(4, 8), take(8, 4), take(16, 4)]
  const number =
    decimal === null ? (double === null ? null : view.getFloat64(double, true)) : readDecimal(cell.subarray(decimal, decimal + 16))
  const kind = cell[1]
  if (kind === kinds.text) return key === null ? '' : (texts.get(view.getUint32(key, true)) ?? '')
  if (kind === kinds.richText) return richKey === null ? '' : (richTexts.get(view.getUint32(richKey, true)) ?? '')
  if (kind === kinds.date) return seconds === null ? '' : formatTime(view.getFloat64(seconds, true))
  if (number === null) return ''
  if (kind === kinds.boolean) return number === 0 ? 'FALSE' : 'TRUE'
  return kind === kinds.number || kind === kinds.currency || kind === kinds.duration ? String(Number(number.toPrecision(15))) : ''
}

/** Reads a decimal number of 128 bits (IEEE 754, binary integer coding). */
function readDecimal(bytes: Uint8Array): number {
  const [low = 0, high = 0] = bytes.subarray(14)
  const exponent = ((high & 0x7f) << 7) + (low >> 1) - 0x1820
  const digits = bytes.subarray(0, 14).reduceRight((sum, byte) => sum * 256n + BigInt(byte), BigInt(low & 1))
  return Number(`${high & 0x80 ? '-' : ''}${digits}e${exponent}`)
}

function formatTime(seconds: number): string {
  const time = new Date(epoch + seconds * 1000)
  return Number.isNaN(time.getTime()) ? '' : time.toISOString().slice(0, 16).replace('T00:00', '').replace('T', ' ')
}
