/** Encodes values in PostgreSQL's binary format, which it reads several times as fast as text. */

const int2Oid = 21

/** Encodes a smallint[]. Ascending numbers are indexed fastest. Format: array_recv() in PostgreSQL's source. */
export function smallints(numbers: Int16Array): Buffer {
  if (numbers.length === 0) return Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, int2Oid])
  const bytes = Buffer.alloc(20 + numbers.length * 6)
  const header = [1, 0, int2Oid, numbers.length, 1]
  let at = 0
  for (const value of header) at = bytes.writeInt32BE(value, at)
  for (const number of numbers) {
    bytes[at + 3] = 2
    bytes[at + 4] = number >> 8
    bytes[at + 5] = number
    at += 6
  }
  return bytes
}

const maxPosition = 0x3fff

/** Encodes a position (14 bits) with its weight (2 bits: 0 for D to 3 for A), as tsvector does. */
export const weighted = (position: number, weight: number): number => (weight << 14) | Math.min(position, maxPosition)
export const positionOf = (value: number): number => value & maxPosition
export const weightOf = (value: number): number => value >> 14

/** Encodes a tsvector of lexemes with ascending weighted positions. Format: tsvectorrecv() in PostgreSQL's source, which sorts the lexemes. */
export function tsvector(lexemes: ReadonlyMap<string, readonly number[]>): Buffer {
  let most = 4
  // A UTF-16 unit takes at most three bytes.
  for (const [lexeme, positions] of lexemes) most += lexeme.length * 3 + 3 + positions.length * 2
  const bytes = Buffer.allocUnsafe(most)
  let at = bytes.writeInt32BE(lexemes.size, 0)
  for (const [lexeme, positions] of lexemes) {
    at = writeText(bytes, lexeme, at)
    bytes[at++] = 0
    at = writeUint16(bytes, positions.length, at)
    for (const position of positions) at = writeUint16(bytes, position, at)
  }
  return bytes.subarray(0, at)
}

/** Writes a number below 65,536, without the checks of Buffer. Returns the offset after it. */
function writeUint16(bytes: Buffer, value: number, at: number): number {
  bytes[at] = value >> 8
  bytes[at + 1] = value
  return at + 2
}

/** Writes UTF-8. ASCII text, the usual case, needs no call of the encoder. */
function writeText(bytes: Buffer, text: string, start: number): number {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code > 127) return start + bytes.write(text, start)
    bytes[start + index] = code
  }
  return start + text.length
}
