/**
 * Limits of JSON bodies, checked on their bytes before JSON.parse creates any value. Fault F27 (hostile JSON) needs them: without limits, its
 * bodies blocked the event loop for 20 to 59 s and took 3.1 GB.
 */
import { invalid } from '../../errors.ts'

/** Maximum nesting of arrays and objects. */
export const maxDepth = 64
/** Maximum number of values: the body, and every member of its arrays and objects. */
export const maxValues = 100_000
/** Maximum number of names outside of lists, and in one element of a list. JSON.parse takes 1 µs for each new name. */
export const maxNames = 10_000
/** Maximum length of a number. JSON.parse takes 0.1 s for a million digits. */
const maxNumberLength = 1000
/** Size of the slices of a list, in bytes and in names. */
export const sliceBytes = 256 << 10
const sliceNames = 5000

/** Byte offsets of an array that is the body itself or a direct member of it. */
export interface List {
  /** Offset behind the opening bracket. */
  start: number
  /** Offset of the closing bracket; -1 if it is missing. */
  end: number
  /** Offsets of commas between elements, about a slice apart. */
  sliceBounds: number[]
}

export interface JsonScanner {
  /** Scans the next bytes. Throws VALIDATION_ERROR at the first byte beyond a limit. */
  push(chunk: Uint8Array): void
  readonly lists: readonly List[]
}

const [quote, backslash, comma, colon, openBracket, closeBracket, openBrace, closeBrace] = [0x22, 0x5c, 0x2c, 0x3a, 0x5b, 0x5d, 0x7b, 0x7d]

/** Opens a scanner. It ignores syntax errors; JSON.parse reports them. */
export function openJsonScanner(): JsonScanner {
  const lists: List[] = []
  let list: List | null = null
  let listDepth = 0
  let isListRoot = false
  let lastBound = 0
  let namesSinceBound = 0
  /** Names outside of lists, or in the current element of a list. */
  let names = 0
  let namesOutside = 0
  let offset = 0
  let depth = 0
  let values = 1
  let isInString = false
  let isEscaped = false
  /** Length of the current number, `true`, `false` or `null`. */
  let literalLength = 0
  /** The current array or object has no member yet. */
  let isEmpty = false

  const countValue = (position: number): void => {
    if (++values > maxValues) throw invalid('', `more than ${maxValues} values, at byte ${position}`)
  }
  const open = (byte: number, position: number): void => {
    countValue(position)
    if (++depth > maxDepth) throw invalid('', `nested more than ${maxDepth} deep, at byte ${position}`)
    isEmpty = true
    if (depth === 1) isListRoot = byte === openBracket
    if (byte !== openBracket || list || (depth !== 1 && (depth !== 2 || isListRoot))) return
    list = { start: position + 1, end: -1, sliceBounds: [] }
    lists.push(list)
    listDepth = depth
    lastBound = position
    namesSinceBound = 0
    namesOutside = names
    names = 0
  }
  const close = (position: number): void => {
    // The opening bracket counted the first member, which an empty array or object does not have.
    if (isEmpty) values--
    isEmpty = false
    if (list && depth === listDepth) {
      list.end = position
      list = null
      names = namesOutside
    }
    depth--
  }
  const separate = (position: number): void => {
    countValue(position)
    isEmpty = false
    if (!list || depth !== listDepth) return
    namesSinceBound += names
    names = 0
    if (position - lastBound < sliceBytes && namesSinceBound < sliceNames) return
    list.sliceBounds.push(position)
    lastBound = position
    namesSinceBound = 0
  }
  const countName = (position: number): void => {
    isEmpty = false
    if (++names > maxNames) throw invalid('', `more than ${maxNames} names, at byte ${position}`)
  }

  return {
    push(chunk) {
      for (let index = 0; index < chunk.length; index++) {
        const byte = chunk[index] as number
        const literalBefore = literalLength
        literalLength = 0
        if (isInString) {
          if (isEscaped) isEscaped = false
          else if (byte === backslash) isEscaped = true
          else if (byte === quote) isInString = false
        } else if (byte === comma) separate(offset + index)
        else if (byte === colon) countName(offset + index)
        else if (byte === openBracket || byte === openBrace) open(byte, offset + index)
        else if (byte === closeBracket || byte === closeBrace) close(offset + index)
        else if (byte > 0x20) {
          isEmpty = false
          isInString = byte === quote
          if (!isInString) literalLength = literalBefore + 1
          if (literalLength > maxNumberLength)
            throw invalid('', `a number of more than ${maxNumberLength} characters, at byte ${offset + index}`)
        }
      }
      offset += chunk.length
    },
    lists,
  }
}
