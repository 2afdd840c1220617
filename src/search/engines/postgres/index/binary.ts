/** Encodes values in PostgreSQL's binary format, which it reads several times as fast as text. */

const int2Oid = 21

/** Encodes a smallint[], sorted: then the sort of the keys for the index is one pass. Format: array_recv() in PostgreSQL's source. */
export function smallints(numbers: ReadonlySet<number>): Buffer {
  if (numbers.size === 0) return Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, int2Oid])
  const bytes = Buffer.allocUnsafe(20 + numbers.size * 6)
  const header = [1, 0, int2Oid, numbers.size, 1]
  let at = 0
  for (const value of header) at = bytes.writeInt32BE(value, at)
  for (const number of Int16Array.from(numbers).sort()) {
    at = bytes.writeInt32BE(2, at)
    at = bytes.writeInt16BE(number, at)
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
    at = bytes.writeUInt16BE(positions.length, at)
    for (const position of positions) at = bytes.writeUInt16BE(position, at)
  }
  return bytes.subarray(0, at)
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
