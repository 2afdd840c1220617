/** Values as PostgreSQL takes them in its binary form: of what is written by the hundreds of thousands it need not read a text then. */

/** OID of integer. */
const integerType = 23

/** An array of integers, of which there is at least one. Form: array_recv() of PostgreSQL. */
export function integers(numbers: ReadonlySet<number>): Buffer {
  const bytes = Buffer.allocUnsafe(20 + numbers.size * 8)
  const header = [1, 0, integerType, numbers.size, 1]
  let at = 0
  for (const value of header) at = bytes.writeInt32BE(value, at)
  for (const number of numbers) {
    at = bytes.writeInt32BE(4, at)
    at = bytes.writeInt32BE(number, at)
  }
  return bytes
}

/** Where a word stands, as 14 bits, and of which weight it is there: 0 for D to 3 for A. */
export const placeOf = (position: number, weight: number): number => (weight << 14) | Math.min(position, maxPosition)
export const positionOf = (place: number): number => place & maxPosition
export const weightOf = (place: number): number => place >> 14

const maxPosition = 0x3fff

/** A tsvector of these lexemes, each with its places, whose positions go up. Form: tsvectorrecv() of PostgreSQL, which puts the lexemes in order. */
export function tsvector(lexemes: ReadonlyMap<string, readonly number[]>): Buffer {
  let most = 4
  // A UTF-16 unit is three bytes at most.
  for (const [lexeme, places] of lexemes) most += lexeme.length * 3 + 3 + places.length * 2
  const bytes = Buffer.allocUnsafe(most)
  let at = bytes.writeInt32BE(lexemes.size, 0)
  for (const [lexeme, places] of lexemes) {
    at = writeText(bytes, lexeme, at)
    bytes[at++] = 0
    at = bytes.writeUInt16BE(places.length, at)
    for (const place of places) at = bytes.writeUInt16BE(place, at)
  }
  return bytes.subarray(0, at)
}

/** Most are short and ASCII. */
function writeText(bytes: Buffer, text: string, start: number): number {
  for (let index = 0; index < text.length; index++) {
    const code = text.charCodeAt(index)
    if (code > 127) return start + bytes.write(text, start)
    bytes[start + index] = code
  }
  return start + text.length
}
