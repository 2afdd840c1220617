/**
 * JSON bodies within a budget. A scan of the bytes limits nesting and the number of values before any of them exists; a large body is then
 * parsed in slices, so that other requests are answered in between. The grammar itself is JSON.parse's throughout.
 */
import { invalid } from '../errors.ts'
import { openYielder, type Yielder } from './time-slices.ts'

/** Levels of arrays and objects. */
export const maxDepth = 64
/** Values of a body: every member of an array or object, and the body itself. */
export const maxValues = 100_000
/** Names of members, outside of lists or in one member of a list that is new costs JSON.parse a microsecond. */
export const maxNames = 10_000
/** Characters of a number. One of a million digits takes JSON.parse a tenth of a second. */
const maxNumberLength = 1000
/** A list that is longer is parsed in slices of about this many bytes or names. */
const sliceBytes = 256 << 10
const sliceNames = 5000
/** The longest member of a list in a body that is parsed in slices, and the most that may stand beside its lists. */
const maxElementBytes = 1 << 20
/** Lists that such a body may have. */
const maxLists = 1000

/** An array that is the body itself, or a member of it. Offsets in bytes. */
interface List {
  /** of the byte behind `[` */
  start: number
  /** of the closing bracket */
  end: number
  /** of commas between members, a slice apart */
  sliceBounds: number[]
}

export interface JsonScanner {
  /** Reads on. Throws VALIDATION_ERROR at the first byte that passes a limit. */
  push(chunk: Uint8Array): void
  readonly values: number
  readonly lists: readonly List[]
}

const [quote, backslash, comma, colon, openBracket, closeBracket, openBrace, closeBrace] = [0x22, 0x5c, 0x2c, 0x3a, 0x5b, 0x5d, 0x7b, 0x7d]

/** Makes a scanner, which takes a body chunk by chunk. What is no JSON passes: JSON.parse refuses it. */
export function openJsonScanner(): JsonScanner {
  const lists: List[] = []
  let list: List | null = null
  let listDepth = 0
  let isListRoot = false
  let lastCut = 0
  let namesSinceCut = 0
  /** outside of lists, or in the member of a list that is being read */
  let names = 0
  let namesOutside = 0
  let offset = 0
  let depth = 0
  let values = 1
  let isInString = false
  let isEscaped = false
  /** bytes of the number, `true`, `false` or `null` that is being read */
  let literalLength = 0
  /** nothing but space since a bracket was opened */
  let isOpened = false

  const add = (position: number): void => {
    if (++values > maxValues) throw invalid('', `more than ${maxValues} values, at byte ${position}`)
  }
  const open = (byte: number, position: number): void => {
    add(position)
    if (++depth > maxDepth) throw invalid('', `nested more than ${maxDepth} deep, at byte ${position}`)
    isOpened = true
    if (depth === 1) isListRoot = byte === openBracket
    if (byte !== openBracket || list || (depth !== 1 && (depth !== 2 || isListRoot))) return
    list = { start: position + 1, end: -1, sliceBounds: [] }
    lists.push(list)
    listDepth = depth
    lastCut = position
    namesSinceCut = 0
    namesOutside = names
    names = 0
  }
  const close = (position: number): void => {
    // An empty array or object holds no value: what was counted when it was opened was its first.
    if (isOpened) values--
    isOpened = false
    if (list && depth === listDepth) {
      list.end = position
      list = null
      names = namesOutside
    }
    depth--
  }
  const separate = (position: number): void => {
    add(position)
    isOpened = false
    if (!list || depth !== listDepth) return
    namesSinceCut += names
    names = 0
    if (position - lastCut < sliceBytes && namesSinceCut < sliceNames) return
    list.sliceBounds.push(position)
    lastCut = position
    namesSinceCut = 0
  }
  const name = (position: number): void => {
    isOpened = false
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
        else if (byte === colon) name(offset + index)
        else if (byte === openBracket || byte === openBrace) open(byte, offset + index)
        else if (byte === closeBracket || byte === closeBrace) close(offset + index)
        else if (byte > 0x20) {
          isOpened = false
          isInString = byte === quote
          if (!isInString) literalLength = literalBefore + 1
          if (literalLength > maxNumberLength)
            throw invalid('', `a number of more than ${maxNumberLength} characters, at byte ${offset + index}`)
        }
      }
      offset += chunk.length
    },
    get values() {
      return values
    },
    lists,
  }
}

/** Parses text within the limits of bodies. Throws VALIDATION_ERROR. */
export function parseJson(text: string): unknown {
  openJsonScanner().push(Buffer.from(text))
  const value = parse(text)
  rejectUnstorable(value)
  return value
}

/** Parses what the scanner has read, in slices where it has long lists. Throws VALIDATION_ERROR. */
export async function parseScanned(bytes: Uint8Array, { lists }: Pick<JsonScanner, 'lists'>): Promise<unknown> {
  if (bytes.length > maxElementBytes || lists.some(({ sliceBounds: cuts }) => cuts.length > 0)) return parseInSlices(bytes, lists)
  const value = parse(decode(bytes))
  rejectUnstorable(value)
  return value
}

/** The lists are taken out, each leaving its number in its place; the rest is parsed, and then the lists, slice by slice. */
async function parseInSlices(bytes: Uint8Array, lists: readonly List[]): Promise<unknown> {
  const pause = openYielder()
  if (lists.length > maxLists) throw invalid('', `more than ${maxLists} lists`)
  const rest: Uint8Array[] = []
  let end = 0
  for (const [index, list] of lists.entries()) {
    rest.push(bytes.subarray(end, list.start), Buffer.from(String(index)))
    end = list.end === -1 ? bytes.length : list.end
  }
  rest.push(bytes.subarray(end))
  if (rest.reduce((sum, part) => sum + part.length, 0) > maxElementBytes)
    throw invalid('', `more than ${maxElementBytes} bytes beside its lists`)
  const root = parse(decode(Buffer.concat(rest)))
  if (!Array.isArray(root)) rejectUnstorable(root)
  const keys = Array.isArray(root) ? [] : Object.keys(root as object)
  const keyOf = new Map(keys.flatMap((key) => (isPlaceholder(root, key) ? [[(root as WithPlaceholders)[key]?.[0], key] as const] : [])))
  for (const [index, list] of lists.entries()) {
    const key = keyOf.get(index)
    const members = await parseMembers(bytes, list, key ?? '', pause)
    if (Array.isArray(root)) return members
    // Of a repeated key the last counts; its other lists must be JSON all the same.
    if (key !== undefined) (root as Record<string, unknown>)[key] = members
  }
  return root
}

type WithPlaceholders = Record<string, [number]>

const isPlaceholder = (root: unknown, key: string): boolean => Array.isArray((root as Record<string, unknown>)[key])

async function parseMembers(bytes: Uint8Array, { start, end, sliceBounds: cuts }: List, path: string, pause: Yielder): Promise<unknown[]> {
  const members: unknown[] = []
  const bounds = [start - 1, ...cuts, end]
  for (const [index, bound] of bounds.slice(1).entries()) {
    const from = (bounds[index] as number) + 1
    const place = path ? `${path}.${members.length}` : String(members.length)
    if (bound - from > maxElementBytes + sliceBytes) throw invalid(place, `a member of more than ${maxElementBytes} bytes`)
    const slice = parse(`[${decode(bytes.subarray(from, bound), true)}]`) as unknown[]
    // Nothing between two commas.
    if (slice.length === 0 && cuts.length > 0) throw invalidJson()
    for (const [offset, member] of slice.entries()) rejectUnstorable(member, `${path ? `${path}.` : ''}${members.length + offset}`)
    for (const member of slice) members.push(member)
    await pause()
  }
  return members
}

/** A byte order mark is no part of a text that begins with it, and of no slice of one. */
export function decode(bytes: Uint8Array, ignoreBOM = false): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM }).decode(bytes)
  } catch {
    throw invalid('', 'the body is not valid UTF-8')
  }
}

const invalidJson = () => invalid('', 'the body is not valid JSON')

function parse(text: string): unknown {
  try {
    // Sixteen digits are the fewest that a number can lose some of; the slower way is for bodies that hold them.
    return /\d{16}/.test(text) ? JSON.parse(text, exactInteger as Parameters<typeof JSON.parse>[1]) : JSON.parse(text)
  } catch {
    throw invalidJson()
  }
}

/** Keeps an integer that a JavaScript number would round as a bigint, for refuseUnstorable() to find. `source`: the text of a primitive value. */
const exactInteger = (_key: string, value: unknown, { source = '' }: { source?: string }): unknown =>
  typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? BigInt(source) : value

/** PostgreSQL stores neither U+0000 nor half of a surrogate pair, and JSON has no infinity (1e400): refused here, by name, instead of failing there. */
export function rejectUnstorable(root: unknown, path = ''): void {
  const found = findUnstorable(root)
  if (found) throw invalid([...(path ? [path] : []), ...found.path.reverse()].join('.'), found.message)
}

interface Unstorable {
  /** innermost first */
  path: string[]
  message: string
}

/** Paths are made for what was found only. The scan has limited the nesting. */
function findUnstorable(value: unknown): Unstorable | null {
  if (typeof value === 'string') return checkText(value)
  if (typeof value === 'number') return Number.isFinite(value) ? null : { path: [], message: 'a number too large to be stored' }
  if (typeof value === 'bigint') return { path: [], message: 'an integer beyond 9007199254740991 (2^53 - 1): write it as a string' }
  if (typeof value !== 'object' || value === null) return null
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) {
      const found = findUnstorable(value[index])
      if (found) return prependPath(String(index), found)
    }
    return null
  }
  for (const key of Object.keys(value)) {
    const found = key === '__proto__' ? { path: [], message: 'holds the key __proto__' } : checkText(key)
    if (found) return found
    const inner = findUnstorable((value as Record<string, unknown>)[key])
    if (inner) return prependPath(key, inner)
  }
  return null
}

const prependPath = (key: string, found: Unstorable): Unstorable => ({ ...found, path: [...found.path, key] })

function checkText(text: string): Unstorable | null {
  if (text.includes('\0')) return { path: [], message: 'holds the character U+0000' }
  return text.isWellFormed() ? null : { path: [], message: 'holds half of a surrogate pair' }
}
