/** Derives examples from JSON schemas. */

export interface JsonSchema {
  type?: string | string[]
  format?: string
  properties?: Record<string, JsonSchema>
  required?: string[]
  items?: JsonSchema
  enum?: unknown[]
  const?: unknown
  anyOf?: JsonSchema[]
  oneOf?: JsonSchema[]
  default?: unknown
  examples?: unknown[]
  pattern?: string
  minimum?: number
  minLength?: number
  additionalProperties?: JsonSchema | boolean
  $ref?: string
}

const strings: Readonly<Record<string, string>> = {
  uuid: '01928c3e-5c7a-7b52-9d6e-3f1a2b4c5d6e',
  'date-time': '2026-01-31T12:00:00.000Z',
  date: '2026-01-31',
  email: 'ada@example.org',
  uri: 'https://dms.example.org',
}

/** Returns a value that the schema allows, with all properties. */
export function exampleOf(schema: JsonSchema): unknown {
  if (schema.examples?.length) return schema.examples[0]
  if (schema.default !== undefined) return schema.default
  if (schema.const !== undefined) return schema.const
  if (schema.enum) return schema.enum[0]
  const variant = (schema.anyOf ?? schema.oneOf)?.find(({ type }) => type !== 'null')
  if (variant) return exampleOf(variant)
  switch (Array.isArray(schema.type) ? schema.type[0] : schema.type) {
    case 'object':
      return Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, property]) => [name, exampleOf(property)]))
    case 'array':
      return schema.items ? [exampleOf(schema.items)] : []
    case 'integer':
    case 'number':
      return schema.minimum !== undefined && schema.minimum > 1 ? schema.minimum : 1
    case 'boolean':
      return true
    case 'string':
      return stringOf(schema)
    default:
      return {}
  }
}

function stringOf({ format = '', pattern = '', minLength = 0 }: JsonSchema): string {
  if (strings[format]) return strings[format]
  if (pattern.includes('[0-9a-f]{6}') || pattern.includes('[0-9a-fA-F]{6}')) return '#3366cc'
  if (pattern.includes('[0-9a-f]{64}')) return '9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08'
  if (/\\w\{2,20\}/.test(pattern)) return 'deu+eng'
  return 'text'.padEnd(minLength, '.')
}
