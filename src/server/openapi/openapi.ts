/**
 * Describes the API in OpenAPI 3.1 from its route definitions. Zod converts the schemas; a zod OpenAPI library would still need these lines for
 * error codes by route, examples, security and parameters.
 */
import { z } from 'zod'
import { type Code, codes, defaultMessage } from '../../errors.ts'
import { schemaOf } from '../../http/input.ts'
import { hidesAnswer, type Route } from '../../http/route.ts'
import { ignoresToken } from '../http/authenticate.ts'
import { exampleOf, type JsonSchema } from './examples.ts'

type Media = Record<string, { schema: JsonSchema; example?: unknown; examples?: Record<string, { value: unknown }> }>

interface Operation {
  operationId: string
  tags: string[]
  summary: string
  description?: string
  deprecated?: true
  security?: Record<string, string[]>[]
  parameters: object[]
  requestBody?: { required: boolean; content: Media }
  responses: Record<string, { description: string; headers?: object; content?: Media }>
}

const ErrorBody = z.object({
  error: z.object({
    code: z.enum(Object.keys(codes) as [Code]),
    message: z.string(),
    details: z.record(z.string(), z.unknown()),
    timestamp: z.iso.datetime(),
    request_id: z.string(),
  }),
  retry_after_secs: z.int().optional(),
})

/** Returns the OpenAPI document. `publicUrl` is the address for clients. */
export function describe(routes: readonly Route[], publicUrl: string, version: string) {
  const paths: Record<string, Record<string, Operation>> = {}
  for (const route of routes) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'dms',
      version,
      summary: 'Document management with OCR and full-text search.',
      description:
        'Every path below /api is also served below /api/v1. A WebSocket at /ws delivers events. Timestamps are RFC 3339 in UTC, sizes are in bytes, durations in seconds, and ids are UUIDs.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: publicUrl }],
    components: {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer', bearerFormat: 'JWT' } },
      schemas: { Error: jsonSchemaOf(ErrorBody, 'output') },
    },
    paths,
  }
}

/** Returns a unique name such as `put_notifications_readAll`: words of a segment in camel case, segments separated by underscores. */
const operationIdOf = (method: string, path: string): string =>
  [method.toLowerCase(), ...path.split('/').filter((part) => part !== '' && part !== 'api')]
    .map((part) => part.replaceAll(/[^a-zA-Z0-9]+(\w?)/g, (_, letter: string) => letter.toUpperCase()))
    .join('_')

function operation(route: Route): Operation {
  const { shape, method, path, access } = route
  const bodies = requestOf(route)
  return {
    operationId: operationIdOf(method, path),
    tags: [path.split('/')[2] ?? path.slice(1)],
    summary: access === 'admin' ? `${shape.summary} (admins)` : shape.summary,
    ...(shape.description ? { description: shape.description } : {}),
    ...(shape.sunset ? { deprecated: true as const } : {}),
    ...(access === 'anyone' ? {} : { security: [{ bearer: [] }] }),
    parameters: [...pathParameters(route), ...queryParameters(shape.query), ...headerParameters(shape.headers)],
    ...(bodies ? { requestBody: bodies } : {}),
    responses: {
      ...errorResponses(route),
      ...successResponses(route),
      ...(hidesAnswer(access, method, shape) ? { 204: { description: 'Done, for an API token without the scope `read`; no body.' } } : {}),
    },
  }
}

function pathParameters({ path, shape: { ids = {} } }: Route): object[] {
  const names = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name)
  return names.map((name) => ({
    name,
    in: 'path',
    required: true,
    schema: name in ids ? { type: 'string', format: 'uuid' } : { type: 'string' },
  }))
}

const headerParameters = (headers: Readonly<Record<string, string>> = {}): object[] =>
  Object.entries(headers).map(([name, description]) => ({ name, in: 'header', required: false, description, schema: { type: 'string' } }))

function queryParameters(query: z.ZodType | undefined): object[] {
  if (!query) return []
  const { properties = {}, required = [] } = jsonSchemaOf(query, 'input')
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name) && schema.default === undefined,
    ...(schema.type === 'array' ? { style: 'form', explode: false } : {}),
    schema,
  }))
}

function requestOf({ shape: { body, form, acceptsForm } }: Route): Operation['requestBody'] {
  if (body) {
    const schema = jsonSchemaOf(body, 'input')
    const media = { schema, example: exampleOf(schema) }
    const required = !body.safeParse({}).success
    return { required, content: { 'application/json': media, ...(acceptsForm ? { 'application/x-www-form-urlencoded': media } : {}) } }
  }
  if (!form) return undefined
  const fields = jsonSchemaOf(form.fields, 'input')
  const file = { type: 'string', format: 'binary' }
  const properties = { ...fields.properties, [form.file]: form.many ? { type: 'array', items: file } : file }
  return { required: true, content: { 'multipart/form-data': { schema: { type: 'object', properties, required: [form.file] } } } }
}

function successResponses({
  method,
  shape: { answer, otherAnswers = {}, status, produces, summary, headers = {} },
}: Route): Operation['responses'] {
  const others = Object.entries(otherAnswers).map(([other, type]) => [
    other,
    isRedirect(other) ? redirectAnswer : jsonAnswer(type, summary),
  ])
  return {
    ...successAnswer(answer, status, produces, summary),
    ...('Range' in headers ? { 206: { description: 'The requested range.', content: bytesOf(produces) } } : {}),
    ...(method === 'GET' && 'If-None-Match' in headers ? { 304: { description: 'Not modified; no body.' } } : {}),
    ...Object.fromEntries(others),
  }
}

const isRedirect = (status: string | number | undefined): boolean => Number(status) >= 300

const redirectAnswer = { description: 'Redirect to Location, without a body.' }

const bytesOf = (types: readonly string[] = []): Media => Object.fromEntries(types.map((type) => [type, { schema: { type: 'string' } }]))

function successAnswer(
  answer: z.ZodType | undefined,
  status: number | undefined,
  produces: readonly string[] | undefined,
  summary: string,
): Operation['responses'] {
  if (produces) return { 200: { description: summary, content: bytesOf(produces) } }
  if (!answer && isRedirect(status)) return { [String(status)]: redirectAnswer }
  if (!answer) return { [status ?? 204]: { description: 'Done; no body.' } }
  return { [status ?? 200]: jsonAnswer(answer, summary) }
}

function jsonAnswer(answer: z.ZodType, description: string) {
  const schema = jsonSchemaOf(answer, 'output')
  return { description, content: { 'application/json': { schema, example: exampleOf(schema) } } }
}

/** Returns all error codes of a route: those implied by its access, ids and input, and its own. */
function codesOf({ access, path, shape }: Route): Set<Code> {
  const isCounted = path.startsWith('/api/')
  const readsToken = !ignoresToken(path)
  return new Set<Code>([
    'HEADERS_TOO_LARGE',
    ...(shape.query || shape.body || shape.form ? (['VALIDATION_ERROR'] as const) : []),
    // Public routes refuse invalid tokens too.
    ...(readsToken ? (['UNAUTHORIZED'] as const) : []),
    // An API token may lack the scope, and users may not call routes for admins.
    ...(access === 'anyone' ? [] : (['FORBIDDEN'] as const)),
    ...Object.values(shape.ids ?? {}),
    ...(shape.body || shape.form ? (['PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE'] as const) : []),
    ...(shape.errors ?? []),
    ...(isCounted ? (['RATE_LIMITED'] as const) : []),
    // The call limit and tokens need the database.
    ...(isCounted || readsToken ? (['INTERNAL_ERROR', 'SERVICE_UNAVAILABLE'] as const) : []),
  ])
}

function errorResponses(route: Route): Operation['responses'] {
  const byStatus = Map.groupBy(codesOf(route), (code) => codes[code][0])
  return Object.fromEntries(
    [...byStatus].map(([status, group]) => {
      const schema = { $ref: '#/components/schemas/Error' }
      const examples = Object.fromEntries(group.map((code) => [code, { value: failureExample(code) }]))
      const headers = status === 429 ? { headers: { 'Retry-After': { description: 'Seconds to wait.', schema: { type: 'integer' } } } } : {}
      return [status, { description: group.join(', '), ...headers, content: { 'application/json': { schema, examples } } }]
    }),
  )
}

function failureExample(code: Code): z.infer<typeof ErrorBody> {
  const [status] = codes[code]
  const retryAfter = status === 429 ? { retry_after_secs: 30 } : {}
  const issues = code === 'VALIDATION_ERROR' ? { issues: [{ path: 'name', message: 'must not be empty' }] } : {}
  const error = {
    code,
    message: defaultMessage(code, retryAfter),
    details: { ...retryAfter, ...issues },
    timestamp: '2026-01-31T12:00:00.000Z',
    request_id: '0c6f1f9e',
  }
  return { error, ...retryAfter }
}

const jsonSchemaOf = (type: z.ZodType, io: 'input' | 'output'): JsonSchema => schemaOf(type, io)
