/** What came in with a request, checked: the one way from bytes to typed values. */
import type { H3Event } from 'h3'
import { z } from 'zod'
import { AppError, invalid } from '../errors.ts'
import { readChunks, rejectLargerThan } from './body.ts'
import { decode, openJsonScanner, parseJson, parseScanned, rejectUnstorable } from './json.ts'
import { openYielder } from './time-slices.ts'

interface Issue {
  path: string
  message: string
}

/** Problems that one answer names. */
const maxIssues = 100
/** Characters of a path or a message in such an answer; the path may hold keys of the request. */
const maxIssueLength = 500
/** Bytes scanned before other requests may pass. */
const scanBytes = 256 << 10

/** Checks a value against a schema; throws VALIDATION_ERROR with the first 100 problems in `details.issues`. */
export function parseInput<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const issues = result.error.issues.slice(0, maxIssues).map(issueOf)
  throw new AppError('VALIDATION_ERROR', { issues })
}

const issueOf = ({ path, message }: z.core.$ZodIssue): Issue => ({
  path: path.join('.').slice(0, maxIssueLength).toWellFormed(),
  message: message.slice(0, maxIssueLength).toWellFormed(),
})

/** Whether a path parameter can be an id at all; ids are looked up only when it can. */
export const isId = (value: string): boolean => /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(value)

/** The query string as one object; of a repeated parameter the last counts. */
export function readQuery(event: H3Event): Record<string, string> {
  const values = Object.fromEntries(event.url.searchParams)
  rejectUnstorable(values)
  return values
}

/** Returns the JSON body (`{}` where there is none). Throws PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, VALIDATION_ERROR. */
export async function readJson(event: H3Event, maxBytes: number): Promise<unknown> {
  const scanner = openJsonScanner()
  const pause = openYielder()
  const bytes = await readBytes(event, maxBytes, async (chunk) => {
    requireJson(event)
    for (let start = 0; start < chunk.length; start += scanBytes) {
      scanner.push(chunk.subarray(start, start + scanBytes))
      await pause()
    }
  })
  return isBlank(bytes) ? {} : parseScanned(bytes, scanner)
}

/** Returns a body that a form of a page may send too (application/x-www-form-urlencoded); of a repeated field the last counts. Throws as json() does. */
export async function readJsonOrForm(event: H3Event, maxBytes: number): Promise<unknown> {
  if (!/^application\/x-www-form-urlencoded\s*(?:;|$)/i.test(event.req.headers.get('content-type') ?? '')) return readJson(event, maxBytes)
  const values = Object.fromEntries(new URLSearchParams(decode(await readBytes(event, maxBytes, () => {}))))
  rejectUnstorable(values)
  return values
}

/** A form of a foreign page can send text/plain without a preflight, but not this. */
function requireJson(event: H3Event): void {
  if (!/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(event.req.headers.get('content-type') ?? ''))
    throw new AppError('UNSUPPORTED_MEDIA_TYPE', { expected: 'application/json' })
}

/** A body of nothing but space, with or without a byte order mark, counts as none. */
const isBlank = (bytes: Uint8Array): boolean => bytes.length < 1024 && decode(bytes).trim() === ''

/** Returns the whole body. `take` sees each chunk as it comes, and ends the reading by throwing. */
async function readBytes(event: H3Event, maxBytes: number, take: (chunk: Uint8Array) => void | Promise<void>): Promise<Buffer> {
  rejectLargerThan(event, maxBytes)
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of readChunks(event)) {
      size += chunk.length
      if (size > maxBytes) throw new AppError('PAYLOAD_TOO_LARGE', { max_bytes: maxBytes })
      await take(chunk)
      chunks.push(chunk)
    }
  } catch (error) {
    throw error instanceof AppError ? error : invalid('', 'the body ended early')
  }
  return Buffer.concat(chunks)
}

/** The JSON Schema of a value as it comes in, for `meta`. */
function schemaOf(type: z.ZodType): object {
  const { $schema: _, ...schema } = z.toJSONSchema(type, { io: 'input', unrepresentable: 'any' })
  return schema
}

/** Query-string forms of things that are not strings; the description says what they stand for. */
export const booleanText = z
  .enum(['true', 'false', '1', '0'])
  .meta({ type: 'boolean', enum: undefined })
  .transform((value) => value === 'true' || value === '1')
export const integerText = (min: number, max: number) =>
  z
    .string()
    .regex(/^-?\d{1,16}$/, 'a whole number')
    .meta({ type: 'integer', minimum: min, maximum: max, pattern: undefined })
    .transform(Number)
    .pipe(z.number().min(min).max(max))
const timestampMessage = 'an RFC 3339 date or date and time'
/** RFC 3339, the format of answers, has years of four digits. */
const hasFourDigitYear = (date: Date): boolean => date.getUTCFullYear() >= 0 && date.getUTCFullYear() <= 9999
/** RFC 3339, or a bare date, which means its first moment in UTC. */
export const moment = z
  .union([z.iso.datetime({ offset: true, error: timestampMessage }), z.iso.date(timestampMessage)], timestampMessage)
  .transform((value) => new Date(value))
  .refine(hasFourDigitYear, timestampMessage)
/** End of a time span: RFC 3339, or a bare date, which means its last moment in UTC. */
export const endTimestampText = z
  .union(
    [z.iso.datetime({ offset: true, error: timestampMessage }), z.iso.date(timestampMessage).transform((day) => `${day}T23:59:59.999Z`)],
    timestampMessage,
  )
  .transform((value) => new Date(value))
  .refine(hasFourDigitYear, timestampMessage)
/** Text that holds JSON, within the limits of bodies. */
export const jsonText = (maxLength: number) =>
  z
    .string()
    .max(maxLength, { abort: true })
    .transform((text, context) => {
      try {
        return parseJson(text)
      } catch (error) {
        const [issue] = (error as AppError).details.issues as Issue[]
        context.addIssue({ code: 'custom', message: issue?.message ?? 'not valid JSON' })
        return z.NEVER
      }
    })
/** Any JSON object. As a `z.record` 100,000 keys would take a tenth of a second. */
export const jsonRecord = z
  .custom<Record<string, unknown>>((value) => typeof value === 'object' && value !== null && !Array.isArray(value), 'not a JSON object')
  .meta({ type: 'object', additionalProperties: {} })
/** A field of a form that holds an object as JSON. */
export const jsonObject = jsonText(1 << 20).pipe(jsonRecord)

/** An array whose length is checked before its members, and whose members are checked until `maxIssues` are wrong. */
export const listOf = <Item extends z.ZodType>(item: Item, max: number, min = 0): z.ZodType<z.output<Item>[], z.input<Item>[]> => {
  const items = schemaOf(item)
  const list = z
    .array(z.unknown())
    .min(min)
    .max(max, { abort: true })
    .meta({ items })
    .transform((values, context) => {
      const checked: z.output<Item>[] = []
      let wrong = 0
      for (const [index, value] of values.entries()) {
        const { data, error, success } = item.safeParse(value)
        if (success) checked.push(data)
        else for (const issue of error.issues) context.addIssue({ ...issue, path: [index, ...issue.path] })
        if (!success && ++wrong === maxIssues) break
      }
      return checked
    })
  return list as unknown as z.ZodType<z.output<Item>[], z.input<Item>[]>
}
const split = (value: string): string[] =>
  value
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '')
/** A list in a form. */
export const commaSeparated = z.string().transform(split)
/** A list in a query string, separated by commas; an empty one asks for nothing in particular. */
export const commaList = <Item extends z.ZodType<unknown, string>>(item: Item) =>
  z
    .string()
    .meta({ type: 'array', items: schemaOf(item) })
    .transform(split)
    .pipe(z.array(item))
