/** Objects of Pages, Numbers and Keynote since 2013: messages of Protocol Buffers, packed by Snappy, in the files that end in `.iwa`. */
import { unpackSnappy } from '../../unpack/snappy.ts'

/** Maximum unpacked size of a chunk. Apple writes 64 KiB. */
const maxChunkBytes = 16 * 1024 * 1024
const chunkHeaderBytes = 4

/** Values of a message by the numbers of their fields. */
export type Message = ReadonlyMap<number, readonly (number | Uint8Array)[]>

export interface IwaObject {
  readonly id: number
  /** number of the kind of message */
  readonly type: number
  readonly bytes: Uint8Array
}

/** Finds objects by their ids, and their texts. */
export interface Objects {
  find(id: number): Message | undefined
  textOf(id: number): string
}

/** Reads the objects of a file, up to any damage. */
export function readObjects(file: Uint8Array): IwaObject[] {
  const bytes = unpackFile(file)
  const objects: IwaObject[] = []
  for (let at = 0; at < bytes.length; ) {
    const length = readVarint(bytes, at)
    const start = length.end + length.value
    const header = parseMessage(bytes.subarray(length.end, start))
    const infos = messagesOf(header, 2)
    if (infos.length === 0) break
    at = start
    for (const info of infos) {
      const end = at + numberOf(info, 3)
      objects.push({ id: numberOf(header, 1), type: numberOf(info, 1), bytes: bytes.subarray(at, end) })
      at = end
    }
  }
  return objects
}

/** Unpacks the chunks of a file: a zero, the size in three bytes, a block of Snappy. */
function unpackFile(file: Uint8Array): Uint8Array {
  const chunks: Uint8Array[] = []
  for (let at = 0; at + chunkHeaderBytes <= file.length && file[at] === 0; ) {
    const end = at + chunkHeaderBytes + file[at + 1]! + 256 * file[at + 2]! + 65_536 * file[at + 3]!
    chunks.push(unpackSnappy(file.subarray(at + chunkHeaderBytes, end), maxChunkBytes))
    at = end
  }
  return Buffer.concat(chunks)
}

function readVarint(bytes: Uint8Array, start: number): { value: number; end: number } {
  let value = 0
  let end = start
  for (let factor = 1; end < bytes.length; factor *= 128) {
    const byte = bytes[end++]!
    value += (byte & 0x7f) * factor
    if (byte < 0x80) break
  }
  return { value, end }
}

/** Parses a message, up to any damage. Numbers of fixed size are bytes. */
export function parseMessage(bytes: Uint8Array): Message {
  const fields = new Map<number, (number | Uint8Array)[]>()
  for (let at = 0; at < bytes.length; ) {
    const { value: tag, end: start } = readVarint(bytes, at)
    const kind = tag & 7
    const length = kind === 2 ? readVarint(bytes, start) : { value: kind === 1 ? 8 : 4, end: start }
    if (kind !== 0 && kind !== 1 && kind !== 2 && kind !== 5) break
    const number = kind === 0 ? readVarint(bytes, start) : null
    at = number ? number.end : length.end + length.value
    const value = number ? number.value : bytes.subarray(length.end, at)
    const field = Math.floor(tag / 8)
    const values = fields.get(field)
    if (values) values.push(value)
    else fields.set(field, [value])
  }
  return fields
}

/** Returns the first number in a field, 0 if there is none. */
export function numberOf(message: Message, field: number): number {
  const [value = 0] = message.get(field) ?? []
  return typeof value === 'number' ? value : 0
}

export const bytesOf = (message: Message, field: number): Uint8Array[] =>
  (message.get(field) ?? []).filter((value) => typeof value !== 'number')

export const messagesOf = (message: Message, field: number): Message[] => bytesOf(message, field).map(parseMessage)

export const textsOf = (message: Message, field: number): string[] => bytesOf(message, field).map((bytes) => Buffer.from(bytes).toString())

/** Returns the ids of the objects to which a field refers. */
export const referencesOf = (message: Message, field: number): number[] =>
  messagesOf(message, field).map((reference) => numberOf(reference, 1))
