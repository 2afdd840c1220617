/** The description and the server agree: the server refuses exactly what exceeds the description of a parameter or field. */
import { expect, test, vi } from 'vitest'
import type { Route } from '../../src/http/route.ts'
import { describe as describeApi } from '../../src/server/openapi/openapi.ts'
import { rowOf } from '../route-table/all.ts'
import { type Boundary, boundaries, type Schema, sampleOf } from '../support/data/schema-boundaries.ts'
import { localFolder, nameOf, type RouteRequest, startWorld, usualOf, type World } from '../support/route-table.ts'

vi.setConfig({ testTimeout: 600_000 })

const clause = { field: 'title', value: 'words', type: 'match' }

/** Values for limits that a schema cannot express; undefined if no value suits the good request. */
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
  'POST /api/sources url': localFolder,
  'PUT /api/sources/:id type': 'local_folder',
  // Together with documents=transfer.
  'DELETE /api/users/:id ?to': undefined,
  // Together with seq.
  'GET /api/audit/verify ?hash': undefined,
}

interface Case extends Boundary {
  /** path in the issues of the server */
  field: string
  ask: RouteRequest
}

const describedIn = (paths: Paths, { path, method }: Route): Described =>
  paths[path.replaceAll(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()] as Described

type Paths = ReturnType<typeof describeApi>['paths']
type Described = ReturnType<typeof describeApi>['paths'][string][string]

function* cases(route: Route, { parameters, requestBody }: Described, good: RouteRequest): Generator<Case> {
  for (const { name, in: place, schema } of parameters as { name: string; in: string; schema: Schema }[])
    if (place === 'query')
      for (const { value, isInside } of adjusted(`${nameOf(route)} ?${name}`, boundaries(schema, true)))
        yield { value, isInside, field: name, ask: { ...good, query: { ...good.query, [name]: String(value) } } }
  const body = requestBody?.content['application/json']?.schema as Schema | undefined
  if (body) yield* bodyCases(route, body, good, [])
}

function* bodyCases(route: Route, schema: Schema, good: RouteRequest, path: readonly string[]): Generator<Case> {
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
  return [...list.filter(({ isInside }) => !isInside), ...(meant[name] === undefined ? [] : [{ value: meant[name], isInside: true }])]
}

/** Returns what is wrong with the answer, if anything. */
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

test('every query parameter and field is refused exactly beyond its described limits', async () => {
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

/** Inserts the changed part of a case into a new request. */
function changesOf({ field, value, ask }: Case, fresh: RouteRequest): Partial<RouteRequest> {
  if (ask.query && field in ask.query && String(value) === ask.query[field]) return { query: { ...fresh.query, [field]: String(value) } }
  const isOfGood = Object.keys(fresh.json ?? {}).every((key) => key in (ask.json as object))
  return { json: isOfGood ? put(fresh.json, field.split('.'), value) : ask.json }
}
