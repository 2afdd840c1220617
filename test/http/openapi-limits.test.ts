/** The description and the server agree: what it says of a parameter or a field is where the server begins to refuse. */
import { tmpdir } from 'node:os'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { expect, test, vi } from 'vitest'
import type { Route } from '../../src/http/route.ts'
import { describe as describeApi } from '../../src/server/openapi/openapi.ts'
import { rowOf } from '../route-table/all.ts'
import { type Ask, nameOf, startWorld, usualOf, type World } from '../support/route-table.ts'

vi.setConfig({ testTimeout: 600_000 })

interface Schema {
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

interface Boundary {
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

/** A value of the schema; undefined where only its pattern says what fits. */
function sampleOf({
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

/** The values on both sides of each limit of a schema. `isText`: in a query string, where all values are texts. */
function boundaries(schema: Schema, isText: boolean): Boundary[] {
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

const clause = { field: 'title', value: 'words', type: 'match' }

/** Where more has to fit than a schema can say: a value that does; undefined where none does for the good request. */
const meant: Readonly<Record<string, unknown>> = {
  // What was sent by e-mail, or began in this browser.
  'GET /api/auth/verify-email ?token': undefined,
  'GET /api/auth/oidc/callback ?state': undefined,
  // Labels and users that there are.
  'PUT /api/documents/:id labels': undefined,
  'PUT /api/labels/documents/:id label_ids': undefined,
  'POST /api/sources owner': undefined,
  // Together with the length of a page: the first limits.search_max_results results.
  'GET /api/search ?page': 1,
  'POST /api/search/advanced page': 1,
  'GET /api/search ?filters': '{}',
  // Together with the other conditions.
  'POST /api/search/advanced query.should': Array.from({ length: 99 }, () => clause),
  'POST /api/search/advanced query.must_not': Array.from({ length: 99 }, () => clause),
  'PUT /api/settings language': 'de-AT',
  'POST /api/sources url': tmpdir(),
  'PUT /api/sources/:id type': 'local_folder',
  // Together with seq.
  'GET /api/audit/verify ?hash': undefined,
}

interface Case extends Boundary {
  /** as the server's issues name it */
  field: string
  ask: Ask
}

const describedIn = (paths: Paths, { path, method }: Route): Described =>
  paths[path.replaceAll(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()] as Described

type Paths = ReturnType<typeof describeApi>['paths']
type Described = ReturnType<typeof describeApi>['paths'][string][string]

function* cases(route: Route, { parameters, requestBody }: Described, good: Ask): Generator<Case> {
  for (const { name, in: place, schema } of parameters as { name: string; in: string; schema: Schema }[])
    if (place === 'query')
      for (const { value, isInside } of adjusted(`${nameOf(route)} ?${name}`, boundaries(schema, true)))
        yield { value, isInside, field: name, ask: { ...good, query: { ...good.query, [name]: String(value) } } }
  const body = requestBody?.content['application/json']?.schema as Schema | undefined
  if (body) yield* bodyCases(route, body, good, [])
}

function* bodyCases(route: Route, schema: Schema, good: Ask, path: readonly string[]): Generator<Case> {
  for (const form of schema.anyOf ?? [schema]) {
    // Of a body with several forms each field is tried in its own.
    const base = schema.anyOf ? { ...good, json: sampleOf(form) } : good
    for (const [name, property] of Object.entries(form.properties ?? {})) {
      const here = [...path, name]
      for (const { value, isInside } of adjusted(`${nameOf(route)} ${here.join('.')}`, boundaries(property, false)))
        yield { value, isInside, field: here.join('.'), ask: { ...base, json: put(base.json, here, value) } }
      if (property.type === 'object') yield* bodyCases(route, property, base, here)
    }
  }
}

const put = (object: unknown, [key = '', ...rest]: readonly string[], value: unknown): object => ({
  ...(object as object),
  [key]: rest.length === 0 ? value : put((object as Record<string, unknown>)?.[key], rest, value),
})

function adjusted(name: string, list: Boundary[]): Boundary[] {
  // Opaque: only the server makes one.
  if (name.endsWith(' ?cursor')) return list.filter(({ isInside }) => !isInside)
  if (!(name in meant)) return list
  return [...list.filter(({ isInside }) => !isInside), ...inside(meant[name])]
}

/** What is wrong with the answer, if anything. */
async function disagreement(
  world: World,
  route: Route,
  described: Described,
  { field, value, isInside, ask }: Case,
): Promise<string | null> {
  const { actor } = usualOf(route, world)
  const response = await world.send(route, ask, actor)
  const text = await response.text()
  const shown = `${nameOf(route)} ${field}=${JSON.stringify(value)?.slice(0, 40)}: ${response.status}`
  if (!(String(response.status) in described.responses)) return `${shown}, which is not described`
  const { code = '', details } = response.status === 400 ? JSON.parse(text).error : {}
  const paths: string[] = details?.issues?.map(({ path }: { path: string }) => path) ?? []
  const isNamed =
    code.startsWith('COMMENT_CONTENT') ||
    paths.some((path) => path === field || path === '' || path.startsWith(`${field}.`) || field.startsWith(`${path}.`))
  if (isInside && isNamed) return `${shown} although the description allows it: ${text.slice(0, 300)}`
  if (!isInside && !isNamed) return `${shown} although the description does not allow it: ${text.slice(0, 200)}`
  return null
}

test('every query parameter and every field is refused exactly where its description ends', async () => {
  const world = await startWorld({ 'limits.max_request_size': '100MB', 'limits.shared_links_per_hour': 100_000 })
  const { paths } = describeApi(world.routes, 'http://localhost', '0')
  const found: string[] = []
  let count = 0
  for (const route of world.routes) {
    const described = describedIn(paths, route)
    const { who } = usualOf(route, world)
    // The settings that were tried before are not those that the others need.
    await world.asAda.call('PUT', '/api/settings', { notifications_enabled: true, items_per_page: 20 })
    for (const one of cases(route, described, await rowOf(route).good(world, who))) {
      count++
      const { ask } = one
      // Made anew where the last request has used it up.
      const fresh = one.isInside ? await rowOf(route).good(world, who) : ask
      const wrong = await disagreement(world, route, described, {
        ...one,
        ask: one.isInside ? { ...fresh, ...changesOf(one, fresh) } : ask,
      })
      if (wrong) found.push(wrong)
    }
  }
  expect(found).toEqual([])
  expect(count).toBeGreaterThan(300)
})

/** The changed part of a case, put into a request that was made anew. */
function changesOf({ field, value, ask }: Case, fresh: Ask): Partial<Ask> {
  if (ask.query && field in ask.query && String(value) === ask.query[field]) return { query: { ...fresh.query, [field]: String(value) } }
  const isOfGood = Object.keys(fresh.json ?? {}).every((key) => key in (ask.json as object))
  return { json: isOfGood ? put(fresh.json, field.split('.'), value) : ask.json }
}

test('whether a body is needed, what downloads are, and what every route can answer is described as it is', async () => {
  const { routes } = await startWorld()
  const { paths } = describeApi(routes, 'http://localhost', '0')
  for (const route of routes) {
    const { requestBody, responses, parameters } = describedIn(paths, route)
    const { body, form } = route.shape
    if (body) expect([nameOf(route), requestBody?.required]).toEqual([nameOf(route), !body.safeParse({}).success])
    const refusals = ['431', ...(body || form ? ['413', '415', '400'] : []), ...(route.path.startsWith('/api/') ? ['429'] : [])]
    expect([nameOf(route), Object.keys(responses)]).toEqual([nameOf(route), expect.arrayContaining(refusals)])
    for (const { in: place, schema } of parameters as { in: string; schema: Schema }[])
      if (place === 'query') expect([nameOf(route), schema.pattern ?? '']).not.toEqual([nameOf(route), expect.stringContaining('\\d{1,')])
  }
  const types = (path: string) => Object.keys(paths[path]?.get?.responses['200']?.content ?? {})
  expect(types('/api/documents/{id}/download')).toEqual(['*/*'])
  expect(types('/api/documents/{id}/view')).toEqual(['*/*'])
  expect(types('/api/documents/{id}/thumbnail')).toEqual(['image/webp', 'image/jpeg'])
})
