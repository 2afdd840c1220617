/** Reads and validates the input of requests: query string, body, bearer token. */
import type { Readable } from 'node:stream'
import type { H3Event } from 'h3'
import { z } from 'zod'
import { isCalendarDate } from '../calendar.ts'
import { AppError, invalid } from '../errors.ts'
import { branchIssues, describeIssue, memberAt, orRequired } from './issue-text.ts'
import { decode, parseJson, parseScanned, problemOf, unstorableIn } from './json/parse.ts'
import { openJsonScanner } from './json/scanner.ts'
import { collectValues, RepeatedValue } from './named-values.ts'
import { openYielder } from './time-slices.ts'

interface Issue {
  path: string
  message: string
}

/** Maximum number of problems in an answer. */
const maxIssues = 100
/** Maximum length of the path or message of a problem. The path may contain keys of the request. */
const maxIssueLength = 500
/** Time for a body of this size, in milliseconds. A client that sends a byte now and then would keep its connection and buffers forever. */
const bodyTimeoutMs = (size: number): number => 60_000 + size / 16
/** Time to receive a body after which the rights of the caller are checked again. */
const recheckMs = 1000
/** Bytes scanned between two pauses. */
const scanBytes = 256 << 10

/** Returns the value as parsed by the schema. Throws VALIDATION_ERROR with the first 100 problems in `details.issues`. */
export function parseInput<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const result = schema.safeParse(value, { error: describeIssue })
  if (result.success) return result.data
  const issues = result.error.issues.flatMap((issue) => branchIssues(issue, value)).slice(0, maxIssues)
  throw new AppError('VALIDATION_ERROR', {
    issues: issues.map(({ path, message }) => issueOf(path, problemIn(memberAt(value, path)) ?? message)),
  })
}

const problemIn = (value: unknown): string | null => (value instanceof RepeatedValue ? 'given more than once' : problemOf(value))

const issueOf = (path: readonly PropertyKey[], message: string): Issue => ({
  path: path.join('.').slice(0, maxIssueLength).toWellFormed(),
  message: message.slice(0, maxIssueLength).toWellFormed(),
})

/** Returns the query string as an object. See collectValues(). */
export const readQuery = (event: H3Event): Record<string, unknown> => collectValues(event.url.searchParams)

/** Returns the JSON body, `{}` for an empty one. Throws PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE or VALIDATION_ERROR. */
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

/** Returns a JSON or application/x-www-form-urlencoded body. Throws like readJson(). */
export async function readJsonOrForm(event: H3Event, maxBytes: number): Promise<unknown> {
  if (!/^application\/x-www-form-urlencoded\s*(?:;|$)/i.test(event.req.headers.get('content-type') ?? '')) return readJson(event, maxBytes)
  return collectValues(new URLSearchParams(decode(await readBytes(event, maxBytes, async () => {}))))
}

/** Prevents cross-site requests: a form of another site can send text/plain without a preflight, but not JSON. */
function requireJson(event: H3Event): void {
  if (!/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(event.req.headers.get('content-type') ?? ''))
    throw new AppError('UNSUPPORTED_MEDIA_TYPE', { expected: 'application/json' })
}

/** Tells if a body has nothing but space and a byte order mark. */
const isBlank = (bytes: Uint8Array): boolean => bytes.length < 1024 && decode(bytes).trim() === ''

/**
 * Returns the chunks of the body. A consumer that stops early leaves the connection open, because a client that still sends must get the answer. A
 * client with `Expect: 100-continue` is asked for the body only now, after its headers were accepted. Throws UNSUPPORTED_MEDIA_TYPE for a compressed
 * body, whose size is unknown.
 */
export function readChunks(event: H3Event): AsyncIterable<Uint8Array> {
  const encoding = event.req.headers.get('content-encoding')
  if (encoding !== null && encoding.toLowerCase() !== 'identity')
    throw new AppError('UNSUPPORTED_MEDIA_TYPE', { expected: 'identity' }, 'Compressed bodies are not supported.')
  const response = event.runtime?.node?.res
  if (/^100-continue$/i.test(event.req.headers.get('expect') ?? '') && response && 'writeContinue' in response && !response.headersSent)
    response.writeContinue()
  // The stream of the socket avoids a copy through web streams.
  const request = event.runtime?.node?.req as Readable | undefined
  if (request) return { [Symbol.asyncIterator]: () => request.iterator({ destroyOnReturn: false }) }
  return (event.req.body ?? []) as AsyncIterable<Uint8Array>
}

/** Throws PAYLOAD_TOO_LARGE if Content-Length is above `maxSize` bytes. */
export function rejectLargerThan(event: H3Event, maxSize: number, details: AppError['details'] = { max_bytes: maxSize }): void {
  if (Number(event.req.headers.get('content-length') ?? 0) > maxSize) throw new AppError('PAYLOAD_TOO_LARGE', details)
}

/** Returns the bearer token, or null without an Authorization header. Throws UNAUTHORIZED unless the header has exactly one token. */
export function bearerToken(event: H3Event): string | null {
  const header = event.req.headers.get('authorization')
  if (header === null) return null
  // Node keeps the first of several headers; only the raw list has all.
  const raw = event.runtime?.node?.req.rawHeaders ?? []
  const isRepeated = raw.filter((name, index) => index % 2 === 0 && name.toLowerCase() === 'authorization').length > 1
  const token = /^bearer ([^\s,]+)$/i.exec(header)?.[1]
  if (!token || isRepeated) throw new AppError('UNAUTHORIZED')
  return token
}

/** Returns the whole body. `take` receives each chunk on arrival and may throw to refuse the body. */
async function readBytes(event: H3Event, maxBytes: number, take: (chunk: Uint8Array) => Promise<void>): Promise<Buffer> {
  rejectLargerThan(event, maxBytes)
  // One buffer, because a list of chunks of one byte would occupy a hundred times their size.
  let bytes = Buffer.alloc(0)
  let size = 0
  const startedAt = performance.now()
  try {
    for await (const chunk of readChunks(event)) {
      size += chunk.length
      if (size > maxBytes) throw new AppError('PAYLOAD_TOO_LARGE', { max_bytes: maxBytes })
      if (performance.now() - startedAt > bodyTimeoutMs(size)) throw invalid('', 'the body arrives too slowly: send it again')
      await take(chunk)
      if (size > bytes.length) bytes = Buffer.concat([bytes], Math.min(maxBytes, Math.max(size, 2 * bytes.length)))
      bytes.set(chunk, size - chunk.length)
    }
  } catch (error) {
    throw error instanceof AppError ? error : invalid('', 'the body ended early')
  }
  await recheckAfterBody(event, startedAt)
  return bytes.subarray(0, size)
}

/** Throws UNAUTHORIZED if the caller has lost rights while the body arrived for more than a second. */
export async function recheckAfterBody({ context }: H3Event, startedAt: number): Promise<void> {
  if (performance.now() - startedAt > recheckMs) await context.recheckRights?.()
}

/** Returns the JSON Schema of an input or output, without refinements, which JSON Schema cannot express. */
export function schemaOf(type: z.ZodType, io: 'input' | 'output' = 'input'): object {
  const { $schema: _, ...schema } = z.toJSONSchema(type, { io, unrepresentable: 'any' })
  return schema
}

/** Returns the metadata of a list. The schema is made for the API description only, because it takes a third of the time to load all routes. */
const itemsOf = (item: z.ZodType): { readonly items: object } => ({
  get items() {
    return schemaOf(item)
  },
})

/** Boolean in a query string. The API description has its type as boolean. */
export const booleanText = z
  .enum(['true', 'false', '1', '0'])
  .meta({ type: 'boolean', enum: undefined })
  .transform((value) => value === 'true' || value === '1')
const textOfNumber = (text: z.ZodString, type: 'integer' | 'number', min: number, max: number) =>
  text.meta({ type, minimum: min, maximum: max, pattern: undefined }).transform(Number).pipe(z.number().min(min).max(max))
/** Integer in a query string. The API description has its type as integer. */
export const integerText = (min: number, max: number) =>
  textOfNumber(z.string().regex(/^-?\d{1,16}$/, 'a whole number'), 'integer', min, max)
/** Decimal number in a query string. The API description has its type as number. */
export const numberText = (min: number, max: number) =>
  textOfNumber(z.string().regex(/^\d{1,16}(\.\d{1,16})?$/, 'a number'), 'number', min, max)
/** An id in any case, which becomes lower case as PostgreSQL writes it: texts of ids are compared. */
export const idText = z.guid(orRequired('an id')).toLowerCase()
const timestampMessage = orRequired('an RFC 3339 date or date and time')
const dateText = z.iso.date(timestampMessage)
/** Tells if RFC 3339 can represent the year. */
const hasFourDigitYear = (date: Date): boolean => date.getUTCFullYear() >= 0 && date.getUTCFullYear() <= 9999
/** RFC 3339 timestamp, or what `day` accepts. */
const timestampOr = (day: z.ZodType<string, string>) =>
  z
    .union([z.iso.datetime({ offset: true, ...timestampMessage }), day], timestampMessage)
    .transform((value) => new Date(value))
    .refine(hasFourDigitYear, timestampMessage)
/** RFC 3339 timestamp, or a date, which means its first moment in UTC. */
export const moment = timestampOr(dateText)
/** End of a time span: an RFC 3339 timestamp, or a date. A date stands for its last moment in UTC. */
export const endTimestampText = timestampOr(dateText.transform((day) => `${day}T23:59:59.999Z`))
/** Calendar date, without time and time zone. */
export const calendarDate = z.iso
  .date({ ...orRequired('a date such as 2026-03-17'), abort: true })
  .refine(isCalendarDate, 'a date such as 2026-03-17')
/** JSON as text, within the limits of bodies. */
export const jsonText = (maxLength: number) =>
  z
    .string()
    .max(maxLength, { abort: true })
    .transform((text, context) => {
      try {
        return parseJson(text)
      } catch (error) {
        for (const { path, message } of (error as AppError).details.issues as Issue[])
          context.addIssue({ code: 'custom', message, path: path === '' ? [] : [path] })
        return z.NEVER
      }
    })
/** Any JSON object that can be stored. `z.record` would take 0.1 s for 100,000 keys. */
export const jsonRecord = z
  .custom<Record<string, unknown>>()
  .superRefine((value, context) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) context.addIssue('not a JSON object')
    else for (const problem of unstorableIn(value)) context.addIssue({ code: 'custom', ...problem })
  })
  .meta({ type: 'object', additionalProperties: {} })
/** JSON object in a form field. */
export const jsonObject = jsonText(1 << 20).pipe(jsonRecord)

/** Array whose length is checked before its elements. Validation stops after `maxIssues` invalid elements. */
export const listOf = <Item extends z.ZodType>(item: Item, max: number, min = 0): z.ZodType<z.output<Item>[], z.input<Item>[]> => {
  const list = z
    .array(z.unknown())
    .min(min)
    .max(max, { abort: true })
    .meta(itemsOf(item))
    .transform((values, context) => {
      const items: z.output<Item>[] = []
      let invalidCount = 0
      for (const [index, value] of values.entries()) {
        const { data, error, success } = item.safeParse(value, { error: describeIssue })
        if (success) items.push(data)
        else for (const issue of error.issues) context.addIssue({ ...issue, path: [index, ...issue.path] })
        if (!success && ++invalidCount === maxIssues) break
      }
      return items
    })
  return list as unknown as z.ZodType<z.output<Item>[], z.input<Item>[]>
}
const split = (value: string | RepeatedValue): string[] =>
  (typeof value === 'string' ? value : value.joined)
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '')
const listText = z.custom<string>((value) => typeof value === 'string' || value instanceof RepeatedValue, 'a text')
/** List in a form, separated by commas or with a repeated name. */
export const commaSeparated = listText.meta({ type: 'string' }).transform(split)
/** List in a query string, separated by commas or with a repeated name. */
export const commaList = <Item extends z.ZodType<unknown, string>>(item: Item) =>
  listText
    .meta(Object.assign(itemsOf(item), { type: 'array' as const }))
    .transform(split)
    .pipe(z.array(item))
