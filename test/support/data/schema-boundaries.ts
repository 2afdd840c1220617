/** Values on both sides of each limit of a JSON schema. */
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'

export interface Schema {
  type?: string | string[]
  properties?: Record<string, Schema>
  items?: Schema
  anyOf?: Schema[]
  enum?: unknown[]
  const?: unknown
  format?: string
  pattern?: string
  minimum?: number
  maximum?: number
  minLength?: number
  maxLength?: number
  minItems?: number
  maxItems?: number
}

const ajv = new Ajv2020({ strict: false, validateFormats: true })
formats.default(ajv)

export interface Boundary {
  value: unknown
  isInside: boolean
}

const id = '01890a5d-ac96-774b-bcce-b302099a8057'
const samples: Readonly<Record<string, string>> = {
  uuid: id,
  guid: id,
  email: 'a@example.org',
  'date-time': '2036-01-31T12:00:00Z',
  date: '2036-01-31',
}

/** A value of the schema; undefined if only its pattern says what is valid. */
export function sampleOf({
  anyOf,
  type,
  enum: choices,
  const: only,
  format,
  pattern,
  items,
  minimum = 1,
  minLength = 0,
  properties,
}: Schema): unknown {
  if (anyOf?.[0]) return sampleOf(anyOf[0])
  if (only !== undefined) return only
  if (choices) return choices[0]
  if (type === 'integer' || type === 'number') return minimum
  if (type === 'boolean') return true
  if (type === 'array') return [sampleOf(items ?? {})]
  if (type === 'object') return Object.fromEntries(Object.entries(properties ?? {}).map(([key, inner]) => [key, sampleOf(inner)]))
  if (format) return samples[format]
  return [`x${'x'.repeat(minLength)}`, '#112233', 'deu+eng', 'a'.repeat(64)].find((text) => !pattern || new RegExp(pattern, 'u').test(text))
}

const inside = (...values: unknown[]): Boundary[] =>
  values.filter((value) => value !== undefined).map((value) => ({ value, isInside: true }))
const outside = (...values: unknown[]): Boundary[] => values.map((value) => ({ value, isInside: false }))

/** Returns values on both sides of each limit of a schema. `isText`: of a query string, where all values are strings. */
export function boundaries(schema: Schema, isText: boolean): Boundary[] {
  const {
    anyOf,
    type,
    enum: choices,
    const: only,
    format,
    pattern,
    minimum,
    maximum,
    minLength = 0,
    maxLength,
    minItems = 0,
    maxItems,
    items = {},
  } = schema
  const other = isText ? [] : outside(['of', 'another', 'type'])
  if (anyOf) {
    const isAllowed = ajv.compile(schema)
    return anyOf.flatMap((one) => boundaries(one, isText)).filter(({ value, isInside }) => isInside || !isAllowed(value))
  }
  if (only !== undefined) return [...inside(only), ...outside('no such value')]
  if (choices) return [...inside(choices[0], choices.at(-1)), ...outside('no such choice'), ...other]
  switch (type) {
    case 'integer':
    case 'number': {
      const step = type === 'integer' ? 1 : 0.001
      return [
        ...inside(minimum, maximum),
        ...(minimum === undefined || minimum - step < Number.MIN_SAFE_INTEGER ? [] : outside(minimum - step)),
        ...(maximum === undefined || maximum >= Number.MAX_SAFE_INTEGER ? [] : outside(maximum + step)),
        ...outside('none', ...(type === 'integer' ? [1.5] : [])),
        ...other,
      ]
    }
    case 'boolean':
      return [...inside(true, false), ...outside('maybe'), ...other]
    case 'array': {
      const member = sampleOf(items)
      const list = (count: number) => Array.from({ length: count }, () => member)
      if (isText) return [...inside(String(member)), ...(items.enum || items.format ? outside('none of these') : [])]
      return [
        ...(member === undefined ? [] : inside(list(maxItems ?? 1))),
        ...(maxItems === undefined ? [] : outside(list(maxItems + 1))),
        ...(minItems > 0 ? outside(list(minItems - 1)) : []),
        ...outside('no list'),
      ]
    }
    case 'object':
      return isText ? [] : outside('no object', 5)
    case 'string': {
      const isFree = !format && !pattern
      return [
        ...(isFree
          ? inside('x'.repeat(Math.max(minLength, 1)), ...(maxLength === undefined ? [] : ['x'.repeat(maxLength)]))
          : inside(sampleOf(schema))),
        ...(isFree || pattern === '\\S'
          ? []
          : outside(['\u2603 fits no pattern', '\u0001'].find((text) => !pattern || !new RegExp(pattern, 'u').test(text)))),
        ...(maxLength === undefined ? [] : outside('x'.repeat(maxLength + 1))),
        ...(minLength > 0 ? outside('x'.repeat(minLength - 1)) : []),
        ...(isText ? [] : outside(5)),
      ]
    }
    default:
      return []
  }
}
