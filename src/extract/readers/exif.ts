/** Reads the time at which a picture was taken. */
import { isCalendarDate } from '../../calendar.ts'
import { viewOf } from '../bytes.ts'

/** Tags of the directories: the time of a change, the directory of the camera, the times of the exposure and of the scan. */
const tags = { changed: 0x0132, camera: 0x8769, taken: 0x9003, digitized: 0x9004 } as const
const entryBytes = 12
const maxEntries = 1000

/** Returns the time of an Exif block, or of a TIFF file, as `YYYY-MM-DDThh:mm:ss`; undefined without one. Times of Exif have no time zone. */
export function readExifTime(block: Uint8Array): string | undefined {
  const header = Buffer.from(block.buffer, block.byteOffset, Math.min(block.length, 6)).toString('latin1')
  const bytes = header === 'Exif\0\0' ? block.subarray(6) : block
  const view = viewOf(bytes)
  if (bytes.length < 8 || (bytes[0] !== 0x49 && bytes[0] !== 0x4d)) return undefined
  const isLittle = bytes[0] === 0x49
  if (view.getUint16(2, isLittle) !== 42) return undefined
  const main = readDirectory(view, view.getUint32(4, isLittle), isLittle)
  const camera = main.get(tags.camera)
  const times = camera === undefined ? undefined : readDirectory(view, camera, isLittle)
  return readTime(bytes, times?.get(tags.taken)) ?? readTime(bytes, times?.get(tags.digitized)) ?? readTime(bytes, main.get(tags.changed))
}

/** Returns the 32-bit value of each tag of a directory. For longer values it is their offset. */
function readDirectory(view: DataView, at: number, isLittle: boolean): Map<number, number> {
  const values = new Map<number, number>()
  if (at + 2 > view.byteLength) return values
  const count = Math.min(view.getUint16(at, isLittle), maxEntries)
  for (let entry = at + 2; entry < at + 2 + count * entryBytes && entry + entryBytes <= view.byteLength; entry += entryBytes)
    values.set(view.getUint16(entry, isLittle), view.getUint32(entry + 8, isLittle))
  return values
}

function readTime(bytes: Uint8Array, at: number | undefined): string | undefined {
  if (at === undefined) return undefined
  const text = Buffer.from(bytes.subarray(at, at + 19)).toString('latin1')
  const [, year, month, day, time] = /^(\d{4})[:-](\d\d)[:-](\d\d)[ T](\d\d:\d\d:\d\d)$/.exec(text) ?? []
  const date = `${year}-${month}-${day}`
  return isCalendarDate(date) ? `${date}T${time}` : undefined
}
