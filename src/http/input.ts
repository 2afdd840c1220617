/** What came in with a request, checked: the one way from bytes to typed values. */
import type { H3Event } from 'h3'
import { z } from 'zod'
import { AppError, invalid } from '../errors.ts'
import { bodyOf, refuseLonger } from './body.ts'

interface Issue {
  path: string
  message: string
}

/** Nesting past this is nobody's data. */
const maxDepth = 64

/** Checks a value against a schema; throws VALIDATION_ERROR with every problem in `details.issues`. */
export function check<S extends z.ZodType>(schema: S, value: unknown): z.output<S> {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const issues = result.error.issues.map((issue): Issue => ({ path: issue.path.join('.'), message: issue.message }))
  throw new AppError('VALIDATION_ERROR', { issues })
}

/** Whether a path parameter can be an id at all; ids are looked up only when it can. */
export const isId = (value: string): boolean => /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(value)

/** The query string as one object; of a repeated parameter the last counts. */
export function query(event: H3Event): Record<string, string> {
  const values = Object.fromEntries(event.url.searchParams)
  refuseUnkeepable(values)
  return values
}

/** The JSON body (`{}` where there is none). Throws PAYLOAD_TOO_LARGE, UNSUPPORTED_MEDIA_TYPE, VALIDATION_ERROR. */
export async function json(event: H3Event, maxSize: number): Promise<unknown> {
  const text = await body(event, maxSize)
  if (text.trim() === '') return {}
  const type = event.req.headers.get('content-type') ?? ''
  // Not only tidiness: a form in a foreign page can send text/plain without asking, but not this.
  if (!/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(type))
    throw new AppError('UNSUPPORTED_MEDIA_TYPE', { expected: 'application/json' })
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    throw invalid('', 'the body is not valid JSON')
  }
  refuseUnkeepable(value)
  return value
}

/** The same where a form of a page may send it too (application/x-www-form-urlencoded); of a repeated field the last counts. */
export async function jsonOrForm(event: H3Event, maxSize: number): Promise<unknown> {
  if (!/^application\/x-www-form-urlencoded\s*(?:;|$)/i.test(event.req.headers.get('content-type') ?? '')) return json(event, maxSize)
  const values = Object.fromEntries(new URLSearchParams(await body(event, maxSize)))
  refuseUnkeepable(values)
  return values
}

async function body(event: H3Event, maxSize: number): Promise<string> {
  refuseLonger(event, maxSize)
  const chunks: Uint8Array[] = []
  let size = 0
  try {
    for await (const chunk of bodyOf(event)) {
      size += chunk.length
      if (size > maxSize) throw new AppError('PAYLOAD_TOO_LARGE', { max_bytes: maxSize })
      chunks.push(chunk)
    }
  } catch (error) {
    throw error instanceof AppError ? error : invalid('', 'the body ended early')
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.concat(chunks))
  } catch {
    throw invalid('', 'the body is not valid UTF-8')
  }
}

/** PostgreSQL keeps neither U+0000 nor half of a surrogate pair, and JSON has no infinity (1e400): refused here, by name, instead of failing there. */
function refuseUnkeepable(root: unknown): void {
  const todo: [value: unknown, path: string, depth: number][] = [[root, '', 0]]
  for (let next = todo.pop(); next; next = todo.pop()) {
    const [value, path, depth] = next
    if (depth > maxDepth) throw invalid(path, `nested more than ${maxDepth} deep`)
    if (typeof value === 'string') refuseText(value, path)
    else if (typeof value === 'number' && !Number.isFinite(value)) throw invalid(path, 'a number too large to be kept')
    else if (value && typeof value === 'object')
      for (const [key, inner] of Object.entries(value)) {
        refuseText(key, path)
        if (key === '__proto__') throw invalid(path, 'holds the key __proto__')
        todo.push([inner, path ? `${path}.${key}` : key, depth + 1])
      }
  }
}

function refuseText(text: string, path: string): void {
  if (text.includes('\0')) throw invalid(path, 'holds the character U+0000')
  if (!text.isWellFormed()) throw invalid(path, 'holds half of a surrogate pair')
}

/** Query-string forms of things that are not strings. */
export const flag = z.enum(['true', 'false', '1', '0']).transform((value) => value === 'true' || value === '1')
export const wholeNumber = (min: number, max: number) =>
  z
    .string()
    .regex(/^-?\d{1,15}$/, 'a whole number')
    .transform(Number)
    .pipe(z.number().min(min).max(max))
const aMoment = 'an RFC 3339 date or date and time'
/** Four digits also in UTC: what is answered must be RFC 3339 again. */
const isInOurEra = (moment: Date): boolean => moment.getUTCFullYear() >= 0 && moment.getUTCFullYear() <= 9999
/** RFC 3339, or a bare date, which means its first moment in UTC. */
export const moment = z
  .union([z.iso.datetime({ offset: true, error: aMoment }), z.iso.date(aMoment)], aMoment)
  .transform((value) => new Date(value))
  .refine(isInOurEra, aMoment)
/** The same for the end of a time span: a bare date means its last moment. */
export const lastMoment = z
  .union([z.iso.datetime({ offset: true, error: aMoment }), z.iso.date(aMoment).transform((day) => `${day}T23:59:59.999Z`)], aMoment)
  .transform((value) => new Date(value))
  .refine(isInOurEra, aMoment)
/** A field of a form that holds an object as JSON. */
export const jsonObject = z
  .string()
  .max(1 << 20)
  .transform((text, context) => {
    try {
      const value: unknown = JSON.parse(text)
      refuseUnkeepable(value)
      return value
    } catch (error) {
      context.addIssue({ code: 'custom', message: error instanceof AppError ? error.message : 'not valid JSON' })
      return z.NEVER
    }
  })
  .pipe(z.record(z.string(), z.unknown()))
export const commaSeparated = z.string().transform((value) =>
  value
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== ''),
)
