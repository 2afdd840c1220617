/** Reads the tokens of content streams (PDF 32000-1, 7.8.2) that the conversion needs. */

/** A string of bytes, a name with its slash, a number, or an array of these. Dictionaries are left out. */
export type Operand = Uint8Array | string | number | Operand[]

export interface Operation {
  readonly operator: string
  readonly operands: readonly Operand[]
}

/** An operator. */
interface Word {
  readonly word: string
}

const isWord = (token: Operand | Word): token is Word => typeof token === 'object' && 'word' in token

const whitespace = new Set([0, 9, 10, 12, 13, 32])
const delimiters = new Set([...'()<>[]{}/%'].map((character) => character.charCodeAt(0)))
/** Maximum nesting of arrays and of parentheses. */
const maxDepth = 100

/** Yields the operations of a content stream. An inline image is the operation BI with the entries of its dictionary. Throws on damaged syntax. */
export function* scanContent(bytes: Uint8Array): Generator<Operation> {
  let at = 0
  const isRegular = (byte: number | undefined): boolean => byte !== undefined && !whitespace.has(byte) && !delimiters.has(byte)

  function skipSpace(): void {
    for (; at < bytes.length; at++) {
      if (bytes[at] === 0x25) while (at < bytes.length && bytes[at] !== 10 && bytes[at] !== 13) at++
      else if (!whitespace.has(bytes[at]!)) return
    }
  }

  function readWord(): string {
    const start = at
    while (isRegular(bytes[at])) at++
    return Buffer.from(bytes.subarray(start, at)).toString('latin1')
  }

  function readString(): Uint8Array {
    const out: number[] = []
    let depth = 1
    for (at++; at < bytes.length; at++) {
      const byte = bytes[at]!
      if (byte === 0x5c) {
        const [, octal] = /^([0-7]{1,3})/.exec(Buffer.from(bytes.subarray(at + 1, at + 4)).toString('latin1')) ?? []
        if (octal) {
          out.push(Number.parseInt(octal, 8) & 255)
          at += octal.length
          continue
        }
        at++
        const escaped = { n: 10, r: 13, t: 9, b: 8, f: 12 }[String.fromCharCode(bytes[at] ?? 0)]
        if (bytes[at] === 13 && bytes[at + 1] === 10) at++
        else if (bytes[at] !== 10 && bytes[at] !== 13) out.push(escaped ?? bytes[at] ?? 0)
        continue
      }
      if (byte === 0x28) depth++
      if (byte === 0x29 && --depth === 0) break
      out.push(byte)
    }
    at++
    return Uint8Array.from(out)
  }

  function readHex(): Uint8Array {
    const end = bytes.indexOf(0x3e, at)
    if (end < 0) throw new Error('a string has no end')
    const digits = Buffer.from(bytes.subarray(at + 1, end))
      .toString('latin1')
      .replace(/\s/g, '')
    if (!/^[0-9a-f]*$/i.test(digits)) throw new Error('a string has other digits than hexadecimal ones')
    at = end + 1
    return Uint8Array.from(Buffer.from(digits.padEnd(digits.length + (digits.length & 1), '0'), 'hex'))
  }

  function readArray(depth: number): Operand[] {
    at++
    const items: Operand[] = []
    for (let item = read(depth); item !== null; item = read(depth)) items.push(isWord(item) ? item.word : item)
    return items
  }

  /** Returns an operand, an operator, or null at a closing bracket or the end. */
  function read(depth: number): Operand | Word | null {
    if (depth > maxDepth) throw new Error('arrays are nested too deeply')
    skipSpace()
    const byte = bytes[at]
    if (byte === undefined) return null
    if (byte === 0x28) return readString()
    if (byte === 0x3c && bytes[at + 1] !== 0x3c) return readHex()
    if (byte === 0x3c || byte === 0x3e) {
      at += bytes[at + 1] === byte ? 2 : 1
      return []
    }
    if (byte === 0x5b) return readArray(depth + 1)
    if (byte === 0x5d || byte === 0x29 || byte === 0x7b || byte === 0x7d) {
      at++
      return null
    }
    if (byte === 0x2f) {
      at++
      return `/${readWord().replace(/#([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))}`
    }
    const word = readWord()
    if (word === 'true' || word === 'false' || word === 'null') return word
    return /^[+-]*(\d+\.?\d*|\.\d+)(-\d*)?$/.test(word) ? Number.parseFloat(word) : { word }
  }

  let operands: Operand[] = []
  while (at < bytes.length) {
    const token = read(0)
    if (token === null) continue
    if (!isWord(token)) {
      operands.push(token)
      continue
    }
    if (token.word === 'ID') {
      at = endOfInlineImage(bytes, at)
      yield { operator: 'BI', operands }
    } else if (token.word !== 'BI') yield { operator: token.word, operands }
    operands = []
  }
}

/** Returns the position after the EI of an inline image: EI between white space, followed by text. */
function endOfInlineImage(bytes: Uint8Array, from: number): number {
  for (let at = from + 1; at + 1 < bytes.length; at++) {
    if (bytes[at] !== 0x45 || bytes[at + 1] !== 0x49 || !whitespace.has(bytes[at - 1]!)) continue
    const next = bytes.subarray(at + 2, at + 12)
    if ((next.length === 0 || whitespace.has(next[0]!)) && next.every((byte) => byte < 128 && (byte > 31 || whitespace.has(byte))))
      return at + 2
  }
  throw new Error('an inline image has no end')
}
