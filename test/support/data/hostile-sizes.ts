/** Values at their limits: bodies, fields, query parameters and expressions that take as long as possible. */
import { z } from 'zod'
import type { Route } from '../../../src/http/route.ts'
import type { RouteRequest } from '../route-table.ts'

export interface Attempt {
  /** description for a failed test */
  name: string
  /** builds it: up to 10 MB, and most runs send only some attempts */
  ask: () => RouteRequest
}

interface Schema {
  type?: string | string[]
  format?: string
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  enum?: unknown[]
  const?: unknown
  minimum?: number
  maximum?: number
  maxLength?: number
  maxItems?: number
  pattern?: string
}

/** Parts of long texts, each for another expensive case. */
const pieces: Readonly<Record<string, string>> = {
  letters: 'a',
  words: 'ab ',
  spaces: ' ',
  'compatibility forms': '\ufdfa',
  'combining marks': 'a\u0301\u0323',
  marks: '\u0301',
  emoji: '\u{1f9d1}\u200d\u{1f680}',
  quotes: '"',
  backslashes: '\\',
  brackets: '([{',
  'markup ': '<b>&',
  stars: '*a*?',
  braces: '{a,',
  dots: 'a.',
  digits: '9',
  'dashes ': '-a ',
  'at signs': 'a@a.',
  commas: 'a,',
  slashes: '../',
  'percent signs': '%_',
}

/** Further parts of search queries. */
const searchPieces: readonly string[] = [
  '"a b" ',
  'a OR ',
  '-a ',
  '-"a ',
  'title:a ',
  'label:"',
  'type:pdf,',
  'date:2026..',
  'a* ',
  '(a ',
  'ß',
  'status:',
  'e ',
  'lorem ',
]

const text = (piece: string, length: number): string =>
  piece
    .repeat(Math.ceil(length / piece.length))
    .slice(0, length)
    .toWellFormed()
const fitting = (piece: string, bytes: number): string => text(piece, Math.floor(bytes / (Buffer.byteLength(piece) / piece.length)))

const schemaOf = (type: z.ZodType): Schema => z.toJSONSchema(type, { io: 'input', unrepresentable: 'any' }) as Schema

/** Every shape of a JSON value, of about this many bytes. */
function* shapes(bytes: number): Generator<[name: string, json: () => string]> {
  const list = (member: () => string, count: number) => () => {
    const text = member()
    return `[${Array.from({ length: Math.min(count, Math.floor(bytes / (text.length + 1))) }, () => text).join()}]`
  }
  const keys = (count: number, keyOf: (index: number) => string) =>
    `{${Array.from({ length: count }, (_, index) => `"${keyOf(index)}":0`).join()}}`
  const manyKeys = Math.min(90_000, Math.floor(bytes / 12))
  yield ['numbers', list(() => '0', 99_000)]
  yield ['more numbers than values may be', () => `[${text('0,', bytes - 4)}0]`.replace(',,', ',')]
  yield ['texts', list(() => '"a"', 99_000)]
  yield ['ids', list(() => '"01890a5d-ac96-774b-bcce-b302099a8057"', 99_000)]
  yield ['objects', list(() => '{}', 99_000)]
  yield ['nested', () => '['.repeat(bytes)]
  yield ['nested and closed', list(() => '['.repeat(60) + ']'.repeat(60), 1600)]
  yield ['keys', () => keys(manyKeys, (index) => `k${index}`)]
  yield ['numbered keys', () => keys(manyKeys, (index) => `${index * 7}`)]
  yield ['objects of keys', list(() => keys(100, (index) => `k${index}`), 900)]
  yield ['one key', () => `{${JSON.stringify('k'.repeat(bytes - 8))}:0}`]
  yield ['digits', () => '9'.repeat(bytes)]
  yield ['escapes', () => `"${text('\\u0041', bytes - (bytes % 6) - 6)}"`]
  for (const [name, piece] of Object.entries(pieces))
    yield [
      name,
      () =>
        JSON.stringify(fitting(piece, bytes * 0.9))
          .slice(0, bytes)
          .replace(/\\*"?$/, '"'),
    ]
}

/** Values of a schema at its maxima; none for those without one. */
function* maxima(schema: Schema, room: number): Generator<[name: string, value: () => unknown]> {
  const { anyOf, type, items, enum: choices, maxItems = 10_000, maxLength = 4000, maximum, properties, format } = schema
  if (anyOf) for (const one of anyOf) yield* maxima(one, room)
  else if (choices) return
  else if (type === 'string' && !format)
    for (const [name, piece] of Object.entries(pieces)) yield [name, () => text(piece, Math.min(maxLength, room))]
  else if (type === 'integer' || type === 'number') yield ['the maximum', () => maximum]
  else if (type === 'array' && items) {
    const [first] = maxima(items, 100)
    const member = sample(items)
    const size = JSON.stringify(member)?.length ?? 10
    const count = Math.min(maxItems, Math.floor(room / (size + 1)))
    yield [`${count} members (${first?.[0] ?? ''})`, () => Array.from({ length: count }, (_, index) => distinct(member, index))]
    const fewer = Math.min(maxItems, 100)
    for (const [name, value] of maxima(items, Math.floor(room / fewer)))
      yield [
        `${fewer} members of ${name}`,
        () => {
          const one = value()
          return Array.from({ length: fewer }, (_, index) => distinct(one, index))
        },
      ]
  } else if (type === 'object')
    for (const [key, inner] of Object.entries(properties ?? {}))
      for (const [name, value] of maxima(inner, room)) yield [`${key}: ${name}`, () => ({ ...(sample(schema) as object), [key]: value() })]
}

function sample({ anyOf, type, enum: choices, const: only, format, properties, items, minimum = 1 }: Schema): unknown {
  if (anyOf?.[0]) return sample(anyOf[0])
  if (only !== undefined) return only
  if (choices) return choices[0]
  if (type === 'object') return Object.fromEntries(Object.entries(properties ?? {}).map(([key, inner]) => [key, sample(inner)]))
  if (type === 'array') return items ? [sample(items)] : []
  if (type === 'integer' || type === 'number') return minimum
  if (type === 'boolean') return true
  if (format === 'date-time') return '2026-01-31T12:00:00Z'
  return format === 'uuid' ? '01890a5d-ac96-774b-bcce-b302099a8057' : 'word'
}

const distinct = (value: unknown, index: number): unknown =>
  typeof value === 'string' && value.length > 6 ? `${value.slice(0, -6)}${String(index % 1e6).padStart(6, '0')}` : value

const kinds = ['match', 'contains', 'exact'] as const
const clauseFields = ['any', 'title', 'content', 'filename', 'labels', 'metadata.a'] as const

/** Bodies of advanced search with the maximum number or length of conditions. */
function* expressions(): Generator<[name: string, json: () => object]> {
  const clauses = (count: number, length: number, piece: string, type: string, field: string) =>
    Array.from({ length: count }, (_, index) => ({ field, type, value: distinct(text(piece, length), index) }))
  for (const type of kinds)
    for (const field of clauseFields)
      for (const [count, length] of [
        [100, 100],
        [10, 1000],
      ] as const)
        for (const piece of ['a', 'ab ', 'lorem ', 'e ', '\ufdfa', 'a\u0301', '*', 'lorem w', ' a e '])
          for (const part of ['must', 'should', 'must_not'])
            if (part === 'should' || field === 'content' || field === 'any')
              yield [
                `${count} ${part} ${type} ${field} ${JSON.stringify(piece)}`,
                () => ({ query: { [part]: clauses(count, length, piece, type, field) } }),
              ]
}

/** Returns every attempt for a route, based on its good request. `bytes`: limit of its body. */
export function* attempts({ path, shape }: Route, good: RouteRequest, bytes: number, isQuick: boolean): Generator<Attempt> {
  const raw = (body: () => string) => () => ({ ...good, form: undefined, json: undefined, raw: body() }) as RouteRequest
  if (shape.body)
    for (const [name, json] of shapes(bytes - 2)) {
      yield { name: `body: ${name}`, ask: raw(json) }
      if (isQuick) return
    }
  if (isQuick) return
  if (shape.body) {
    const { properties, anyOf } = schemaOf(shape.body)
    const fields = Object.entries(properties ?? anyOf?.find((one) => one.properties)?.properties ?? {})
    const share = Math.floor((bytes - 2) / Math.max(1, fields.length)) - 40
    const allFields = (value: string) => `{${fields.map(([key]) => `${JSON.stringify(key)}:${value}`).join()}}`
    for (const [name, json] of shapes(share)) yield { name: `every field: ${name}`, ask: raw(() => allFields(json())) }
    for (const [key, schema] of fields)
      for (const [name, value] of maxima(schema, bytes / 2))
        yield { name: `${key}: ${name}`, ask: () => ({ ...good, json: { ...(good.json as object), [key]: value() } }) }
  }
  if (path === '/api/search/advanced') for (const [name, json] of expressions()) yield { name, ask: () => ({ ...good, json: json() }) }
  if (shape.query)
    for (const [key, schema] of Object.entries(schemaOf(shape.query).properties ?? {})) {
      const lengths = [Math.min(schema.maxLength ?? 15_000, 15_000)]
      for (const [name, piece] of [...Object.entries(pieces), ...(key === 'q' ? searchPieces.map((one) => [one, one] as const) : [])])
        for (const length of [...lengths, ...(key === 'q' ? [1000] : [])])
          yield { name: `?${key}: ${name} (${length})`, ask: () => ({ ...good, query: { ...good.query, [key]: text(piece, length) } }) }
      if (key === 'filters')
        for (const [name, json] of shapes(15_000))
          yield { name: `?filters: ${name}`, ask: () => ({ ...good, query: { ...good.query, filters: json() } }) }
    }
  if (shape.form)
    for (const key of Object.keys(schemaOf(shape.form.fields).properties ?? {}))
      for (const [name, json] of shapes(65_000))
        if (good.form) yield { name: `form ${key}: ${name}`, ask: () => withField(good, key, json()) }
}

/** Adds a field to the form. A text goes without its quotes. */
const withField = (good: RouteRequest, key: string, json: string): RouteRequest => ({
  ...good,
  form: good.form && { ...good.form, fields: { ...good.form.fields, [key]: json.startsWith('"') ? json.slice(1, -1) : json } },
})
