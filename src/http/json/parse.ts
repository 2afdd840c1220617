/**
 * Parses JSON bodies with JSON.parse. Parses large lists in slices: an import of 10,000 users delays other requests by less than 100 ms (F27,
 * `bench/attackers.ts`). Marks values that PostgreSQL cannot store, and integers beyond 2^53 - 1: a schema refuses them by their path, or drops them
 * with an unknown field.
 */
import { AppError, invalid } from '../../errors.ts'
import { openYielder, type Yielder } from '../time-slices.ts'
import { type JsonScanner, type List, openJsonScanner, sliceBytes } from './scanner.ts'

/** Maximum size of a list element in a body that is parsed in slices, and of the body without its lists, in bytes. */
const maxElementBytes = 1 << 20
/** Maximum number of lists in a body that is parsed in slices. */
const maxLists = 1000

/** Parses the text of a field within the limits of bodies. Throws VALIDATION_ERROR, also for values that cannot be stored. */
export function parseJson(text: string): unknown {
  openJsonScanner().push(Buffer.from(text))
  const value = markUnstorable(parse(text, 'not valid JSON'))
  const issues = unstorableIn(value).map(({ path, message }) => ({ path: path.join('.'), message }))
  if (issues.length > 0) throw new AppError('VALIDATION_ERROR', { issues })
  return value
}

/** Parses bytes that the scanner has read, and marks unstorable values. Throws VALIDATION_ERROR. */
export async function parseScanned(bytes: Uint8Array, { lists }: JsonScanner): Promise<unknown> {
  const isLarge = bytes.length > maxElementBytes || lists.some(({ sliceBounds }) => sliceBounds.length > 0)
  return isLarge ? parseInSlices(bytes, lists) : markUnstorable(parse(decode(bytes)))
}

/** Replaces each list by its number, parses the rest, then parses the lists in slices. */
async function parseInSlices(bytes: Uint8Array, lists: readonly List[]): Promise<unknown> {
  if (lists.length > maxLists) throw invalid('', `more than ${maxLists} lists`)
  const rest: Uint8Array[] = []
  let end = 0
  for (const [index, list] of lists.entries()) {
    rest.push(bytes.subarray(end, list.start), Buffer.from(String(index)))
    end = list.end === -1 ? bytes.length : list.end
  }
  rest.push(bytes.subarray(end))
  const frame = Buffer.concat(rest)
  if (frame.length > maxElementBytes) throw invalid('', `more than ${maxElementBytes} bytes beside its lists`)
  const root = parse(decode(frame)) as [number] | Record<string, unknown>
  const pause = openYielder()
  if (Array.isArray(root)) return parseElements(bytes, lists[0] as List, [], pause)
  markUnstorable(root)
  // The last of several members with one key counts, but the lists of all must be valid.
  const keyOf = new Map(Object.entries(root ?? {}).flatMap(([key, value]) => (Array.isArray(value) ? [[value[0], key] as const] : [])))
  for (const [index, list] of lists.entries()) {
    const key = keyOf.get(index)
    const elements = await parseElements(bytes, list, key === undefined ? [] : [key], pause)
    if (key !== undefined) root[key] = elements
  }
  return root
}

async function parseElements(bytes: Uint8Array, { start, end, sliceBounds }: List, path: string[], pause: Yielder): Promise<unknown[]> {
  const elements: unknown[] = []
  let from = start
  for (const bound of [...sliceBounds, end]) {
    if (bound - from > maxElementBytes + sliceBytes)
      throw invalid([...path, elements.length].join('.'), `a member of more than ${maxElementBytes} bytes`)
    const slice = parse(`[${decode(bytes.subarray(from, bound), { ignoreBOM: true })}]`) as unknown[]
    // There is no element between two commas.
    if (slice.length === 0 && sliceBounds.length > 0) throw invalidJson()
    for (const element of slice) elements.push(markUnstorable(element))
    from = bound + 1
    await pause()
  }
  return elements
}

/** Decodes UTF-8. Drops a byte order mark at the start of a text; with `ignoreBOM` keeps it, as at the start of a slice. */
export function decode(bytes: Uint8Array, { ignoreBOM = false } = {}): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM }).decode(bytes)
  } catch {
    throw invalid('', 'the body is not valid UTF-8')
  }
}

const invalidJson = (problem = 'the body is not valid JSON') => invalid('', problem)

function parse(text: string, problem?: string): unknown {
  try {
    // A number must have 16 digits to lose one. The slow reviver is used for texts with such numbers only.
    return /\d{16}/.test(text) ? JSON.parse(text, exactInteger as Parameters<typeof JSON.parse>[1]) : JSON.parse(text)
  } catch {
    throw invalidJson(problem)
  }
}

/** Returns an integer beyond 2^53 - 1 as a bigint, which markUnstorable() marks. A JavaScript number would round it. */
const exactInteger = (_key: string, value: unknown, { source = '' }: { source?: string }): unknown =>
  typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? BigInt(source) : value

/** Marks in the place of unstorable values. JSON has no symbols, and no schema accepts one. */
const marks = {
  bigint: Symbol('an integer beyond 9007199254740991 (2^53 - 1): write it as a string'),
  infinity: Symbol('a number too large to be stored'),
  nul: Symbol('holds the character U+0000'),
  surrogate: Symbol('holds half of a surrogate pair'),
  prototype: Symbol('holds the key __proto__'),
}

/** Returns the value with a mark in the place of each value that cannot be stored. Changes arrays and objects in place. */
export function markUnstorable(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return markOf(value) ?? value
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) value[index] = markUnstorable(value[index])
    return value
  }
  const members = value as Record<string, unknown>
  // Assigning to an own member named __proto__ leaves the prototype as it is.
  for (const [key, member] of Object.entries(members)) {
    const marked = markUnstorable(member)
    if (marked !== member) members[key] = marked
  }
  return value
}

/** Returns the problem of a mark, null for other values. */
export const problemOf = (value: unknown): string | null => (typeof value === 'symbol' ? (value.description ?? null) : null)

/** Maximum number of problems that unstorableIn() returns. */
const maxProblems = 100

/** Returns the path and problem of each mark and each key that cannot be stored, at most 100. */
export function unstorableIn(root: unknown): { path: (string | number)[]; message: string }[] {
  const problems: { path: (string | number)[]; message: string }[] = []
  const path: (string | number)[] = []
  const add = (problem: string | null): void => {
    if (problem !== null && problems.length < maxProblems) problems.push({ path: [...path], message: problem })
  }
  const visit = (value: unknown): void => {
    add(problemOf(value))
    if (typeof value !== 'object' || value === null) return
    const isArray = Array.isArray(value)
    for (const [key, member] of Object.entries(value)) {
      if (!isArray) add(problemOf(key === '__proto__' ? marks.prototype : markOf(key)))
      path.push(key)
      visit(member)
      path.pop()
    }
  }
  visit(root)
  return problems
}

/** PostgreSQL stores neither U+0000 nor half of a surrogate pair, and JSON has no infinity (1e400). */
function markOf(value: unknown): symbol | null {
  if (typeof value === 'bigint') return marks.bigint
  if (typeof value === 'number') return Number.isFinite(value) ? null : marks.infinity
  if (typeof value !== 'string') return null
  if (value.includes('\0')) return marks.nul
  return value.isWellFormed() ? null : marks.surrogate
}
