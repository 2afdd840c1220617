/** Requests generated from the description of the API only, as anybody with openapi.json could send. */
import fc from 'fast-check'

export interface Schema {
  readonly type?: string | readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
  readonly enum?: readonly unknown[]
  readonly const?: unknown
  readonly format?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly pattern?: string
}

interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly schema: Schema
}

interface Described {
  readonly parameters: readonly Parameter[]
  readonly requestBody?: { content: Readonly<Record<string, { schema: Schema; example?: unknown }>> }
}

export interface Description {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>
}

export interface Operation {
  /** as `GET /api/labels/{id}` */
  readonly name: string
  readonly method: string
  readonly path: string
  readonly inPath: readonly string[]
  readonly query: Readonly<Record<string, Schema>>
  /** of a JSON body */
  readonly body: Schema | null
  /** a body that fits the description */
  readonly example: unknown
  /** of a multipart body */
  readonly form: Schema | null
}

export const operationsOf = ({ paths }: Description): Operation[] =>
  Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([verb, { parameters, requestBody }]): Operation => {
      const method = verb.toUpperCase()
      const named = (where: string) => parameters.filter((one) => one.in === where)
      const json = requestBody?.content['application/json']
      return {
        name: `${method} ${path}`,
        method,
        path,
        inPath: named('path').map(({ name }) => name),
        query: Object.fromEntries(named('query').map(({ name, schema }) => [name, schema])),
        body: json?.schema ?? null,
        example: json?.example,
        form: requestBody?.content['multipart/form-data']?.schema ?? null,
      }
    }),
  )

/** Returns the path with its parameters, and the query. */
export function addressOf({ path }: Operation, params: Readonly<Record<string, string>>, query: Readonly<Record<string, string>>): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent((params[name] ?? '').toWellFormed()))
  const search = new URLSearchParams(query).toString()
  return search === '' ? filled : `${filled}?${search}`
}

/** Internal details that no answer may contain: libraries, paths, and messages of the database. */
export const insides =
  /\n\s+at |node_modules|\.ts:\d|\/src\/|\bKysely|syntax error at|violates|duplicate key value|relation "|invalid byte sequence|ECONNREFUSED/

const texts = [
  '',
  ' ',
  'a',
  "'; --",
  '%_\\',
  'a\0b',
  '\ud800',
  '../..',
  '9'.repeat(16),
  '2026-02-30',
  '#00ff00',
  'é\u0301\u202e',
  'x'.repeat(1100),
]
const odd = fc.oneof(fc.jsonValue({ maxDepth: 3 }), fc.constantFrom(null, -1, 1.5, 2 ** 53, 1e300, [], {}, true, ...texts))

/** Values that fit a schema, and one in eight that does not. */
export const valueFor = (schema: Schema): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 7, arbitrary: goodOf(schema) }, { weight: 1, arbitrary: odd })

function goodOf(schema: Schema): fc.Arbitrary<unknown> {
  if (schema.anyOf) return fc.oneof(...schema.anyOf.map(valueFor))
  if (schema.enum) return fc.constantFrom(...schema.enum)
  if ('const' in schema) return fc.constant(schema.const)
  const { type = 'object', properties = {}, required = [], items = {}, minimum = -10, maximum = 200 } = schema
  const kinds: Readonly<Record<string, () => fc.Arbitrary<unknown>>> = {
    string: () => textOf(schema),
    integer: () => fc.oneof(fc.integer({ min: Math.max(minimum, -(2 ** 31)), max: Math.min(maximum, 2 ** 31) }), fc.maxSafeInteger()),
    number: () => fc.double(),
    boolean: () => fc.boolean(),
    null: () => fc.constant(null),
    array: () => fc.array(valueFor(items), { maxLength: 4 }),
    object: () =>
      fc.record(Object.fromEntries(Object.entries(properties).map(([name, inner]) => [name, valueFor(inner)])), {
        requiredKeys: [...required],
      }),
  }
  const [first = 'object', ...others] = typeof type === 'string' ? [type] : type
  return fc.oneof(...[first, ...others].map((kind) => (kinds[kind] ?? (() => odd))()))
}

function textOf({ format, pattern = '' }: Schema): fc.Arbitrary<string> {
  const wild = fc.oneof(fc.string({ unit: 'binary', maxLength: 30 }), fc.constantFrom(...texts))
  if (format === 'uuid') return fc.oneof(fc.uuid(), wild)
  if (format === 'email') return fc.oneof(fc.emailAddress(), wild)
  if (format === 'date-time')
    return fc.oneof(
      fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
      wild,
    )
  if (pattern.includes('\\d{1,15}')) return fc.oneof(fc.nat(200).map(String), fc.bigInt({ min: 0n, max: 10n ** 18n }).map(String), wild)
  return fc.oneof(wild, fc.stringMatching(/^\w{1,12}$/))
}
