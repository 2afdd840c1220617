/** Every route: its success and every failure of its description. Missing rows go to test/route-table/all.ts. */
import { sql } from 'kysely'
import { expect, onTestFinished, test, vi } from 'vitest'
import { z } from 'zod'
import type { App } from '../../src/app.ts'
import { AppError, type Code, codes } from '../../src/errors.ts'
import type { Route } from '../../src/http/route.ts'
import { openApp } from '../../src/open-app.ts'
import { allRoutes, buildServer } from '../../src/server/http/assemble.ts'
import { ignoresToken } from '../../src/server/http/authenticate.ts'
import { describe as describeApi } from '../../src/server/openapi/openapi.ts'
import { rowOf, table } from '../route-table/all.ts'
import { startApp } from '../support/app.ts'
import { conforming } from '../support/conformance.ts'
import { nameOf, noId, type RouteRequest, type Row, silent, startWorld, usualOf, type World } from '../support/route-table.ts'
import { startRelay } from '../support/servers/relay.ts'
import { tokenFor } from '../support/servers/server.ts'

// Hundreds of requests: seconds on an idle machine.
vi.setConfig({ testTimeout: 180_000 })

interface Description {
  paths: Record<string, Record<string, { responses: Record<string, { content?: Record<string, { examples?: Record<string, unknown> }> }> }>>
}

/** A request with its expected answer and the reason. */
type Case = [why: string, code: Code, make: () => RouteRequest | Promise<RouteRequest>]

const big = 'x'.repeat(70_000)
const bad = { authorization: 'Bearer guess' }
/** Codes that the tests below provoke on all routes, and those of requests without a route (http.test.ts). */
const isElsewhere = (code: string): boolean =>
  ['RATE_LIMITED', 'INTERNAL_ERROR', 'SERVICE_UNAVAILABLE', 'STORAGE_UNAVAILABLE', 'HEADERS_TOO_LARGE'].includes(code)

/** Returns the codes in the description of a route. */
const codesIn = (paths: Description['paths'], { path, method }: Route): string[] =>
  Object.values(paths[path.replaceAll(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()]?.responses ?? {}).flatMap(({ content }) =>
    Object.keys(content?.['application/json']?.examples ?? {}),
  )

/** Sends requests over sockets, with the limit of requests; answers are checked against the description. */
function openDoor(app: App) {
  const server = buildServer(app)
  let ip = ''
  const send = conforming(app, async (request) => server.request(request, undefined, { ip }))
  return (from: string, route: Route, authorization?: string): Promise<Response> => {
    ip = from
    return send(emptyRequest(route, authorization === undefined ? {} : { authorization }))
  }
}

/** Sends a request that is meant to be refused early. */
const emptyRequest = ({ method, path }: Route, headers: HeadersInit): Request =>
  new Request(new URL(path.replaceAll(/:\w+/g, noId()), 'http://dms'), { method, headers })

/** Returns the failures that access, ids and input of a route imply. */
function implied(route: Route, row: Row, world: World): Case[] {
  const { access, path, shape } = route
  const { who } = usualOf(route, world)
  const good = () => row.good(world, who)
  const but = (change: (ask: RouteRequest) => RouteRequest) => async () => change(await good())
  const theirs = row.others ?? Object.values(shape.ids ?? {})[0]
  const cases: Case[] = []
  if (access !== 'anyone') cases.push(['without a token', 'UNAUTHORIZED', but((ask) => ({ ...ask, as: null }))])
  if (!ignoresToken(path)) cases.push(['with a bad token', 'UNAUTHORIZED', but((ask) => ({ ...ask, as: null, headers: bad }))])
  if (access !== 'anyone')
    cases.push(['with an API token that may do nothing', 'FORBIDDEN', but((ask) => ({ ...ask, as: { ...who.actor, scopes: [] } }))])
  if (access === 'admin') cases.push(['as a user', 'FORBIDDEN', but((ask) => ({ ...ask, as: world.ada.actor }))])
  if (access === 'user' && theirs) cases.push(['as somebody else', theirs, but((ask) => ({ ...ask, as: world.bob.actor }))])
  for (const [name, code] of Object.entries(shape.ids ?? {}))
    for (const id of ['nonsense', noId()])
      cases.push([`with ${id} as ${name}`, code, but((ask) => ({ ...ask, params: { ...ask.params, [name]: id } }))])
  const known = Object.keys(shape.query instanceof z.ZodObject ? shape.query.shape : {})
  const unstorable = Object.fromEntries(known.map((name) => [name, '\0']))
  if (known.length > 0) cases.push(['with U+0000', 'VALIDATION_ERROR', but((ask) => ({ ...ask, query: { ...ask.query, ...unstorable } }))])
  if (shape.body) {
    cases.push(['with text for a body', 'VALIDATION_ERROR', but(({ json: _, ...ask }) => ({ ...ask, raw: '"text"' }))])
    cases.push(['with half a body', 'VALIDATION_ERROR', but(({ json: _, ...ask }) => ({ ...ask, raw: '{"a":' }))])
    cases.push(['with a large body', 'PAYLOAD_TOO_LARGE', but(({ json: _, ...ask }) => ({ ...ask, raw: `{"a":"${big}"}` }))])
    cases.push(['as plain text', 'UNSUPPORTED_MEDIA_TYPE', but((ask) => ({ ...ask, headers: { 'content-type': 'text/plain' } }))])
  }
  if (shape.form) {
    const { file: field } = shape.form
    const files = [{ filename: 'big.txt', bytes: big }]
    cases.push(['without a file', 'VALIDATION_ERROR', but((ask) => ({ ...ask, form: { field, files: [] } }))])
    cases.push(['with a large file', 'PAYLOAD_TOO_LARGE', but((ask) => ({ ...ask, form: { field, files } }))])
    cases.push(['with JSON for a form', 'UNSUPPORTED_MEDIA_TYPE', but(({ form: _, ...ask }) => ({ ...ask, json: {} }))])
  }
  return cases
}

const named = (route: Route, row: Row, world: World): Case[] =>
  Object.entries(row.errors ?? {}).map(([code, make]) => ['', code as Code, () => make(world, usualOf(route, world).who)])

const goodStatus = ({ shape: { status, answer, produces } }: Route): number => status ?? (answer || produces ? 200 : 204)

/** Checks that an answer is the error body of the specification. */
async function expectFailure(response: Response, code: Code, about: string): Promise<void> {
  const text = await response.text()
  expect.soft([about, response.status, /"code":"(\w+)"/.exec(text)?.[1]]).toEqual([about, codes[code][0], code])
  if (!text.startsWith('{"error"')) return
  const { error, ...rest } = JSON.parse(text)
  expect.soft(Object.keys(error).sort(), about).toEqual(['code', 'details', 'message', 'request_id', 'timestamp'])
  expect.soft([error.request_id, typeof error.message], about).toEqual([response.headers.get('x-request-id'), 'string'])
  expect.soft(new Date(error.timestamp).toISOString(), about).toBe(error.timestamp)
  const wait = Number(response.headers.get('retry-after') ?? 0)
  if (codes[code][0] === 429) {
    expect.soft(wait, about).toBeGreaterThan(0)
    expect.soft([rest.retry_after_secs, error.details.retry_after_secs], about).toEqual([wait, wait])
  }
  if (code === 'INTERNAL_ERROR') expect.soft([error.message, error.details], about).toEqual([codes[code][1], {}])
  if (code === 'VALIDATION_ERROR') {
    expect.soft(error.details.issues, about).not.toEqual([])
    for (const issue of error.details.issues ?? [])
      expect.soft(issue, about).toEqual({ path: expect.any(String), message: expect.stringMatching(/./) })
  }
}

test('every route has a row, and every row a route', async () => {
  const { routes } = await startWorld()
  expect(Object.keys(table).sort()).toEqual(routes.map(nameOf).sort())
})

test('every route succeeds, and returns each error code of its description', async () => {
  const world = await startWorld()
  const { paths } = await world.asStranger.call<Description>('GET', '/api/openapi.json')
  for (const route of world.routes) {
    const name = nameOf(route)
    const row = rowOf(route)
    const { who, actor } = usualOf(route, world)
    const statusOf = async (make: Row['good']) => {
      const response = await world.send(route, await make(world, who), actor)
      return [name, response.status, response.status < 400 ? '' : await response.text()]
    }
    expect.soft(await statusOf(row.good)).toEqual([name, goodStatus(route), ''])
    expect.soft([name, ...Object.keys(row.also ?? {})]).toEqual([name, ...Object.keys(route.shape.otherAnswers ?? {})])
    for (const [status, make] of Object.entries(row.also ?? {}))
      expect.soft((await statusOf(make)).slice(0, 2)).toEqual([name, Number(status)])

    const cases = [...implied(route, row, world), ...named(route, row, world)]
    for (const [why, code, make] of cases) await expectFailure(await world.send(route, await make(), actor), code, `${name} ${code} ${why}`)

    const namedErrors = (route.shape.errors ?? []).filter((code) => code !== 'STORAGE_UNAVAILABLE')
    expect.soft([name, ...Object.keys(row.errors ?? {}).sort()]).toEqual([name, ...namedErrors.sort()])
    const others = (given: readonly string[]) => [name, ...new Set(given.filter((code) => !isElsewhere(code)))].sort()
    expect.soft(others(codesIn(paths, route))).toEqual(others(cases.map(([, code]) => code)))
  }
})

test('429 RATE_LIMITED on every route below /api after the requests of a minute are used, and on no other', async () => {
  const dms = await startApp({ 'limits.api_calls_per_minute': 1 })
  const send = openDoor(dms.app)
  const token = await tokenFor(dms.app, dms.ada)
  for (const [at, route] of allRoutes(dms.app).entries()) {
    const name = nameOf(route)
    for (const authorization of [undefined, `Bearer ${token}`]) {
      await send(`203.0.113.${at}`, route, authorization)
      const response = await send(`203.0.113.${at}`, route, authorization)
      if (route.path.startsWith('/api/')) await expectFailure(response, 'RATE_LIMITED', name)
      else expect.soft([name, response.status]).not.toEqual([name, 429])
    }
  }
})

test('503 SERVICE_UNAVAILABLE on every route that needs the database while it is unreachable, and success afterwards', async () => {
  const world = await startWorld()
  const relay = await startRelay(world.databaseUrl)
  const config = { ...world.app.config, database: { ...world.app.config.database, url: relay.url } }
  const opened = await openApp(config, silent, { migrate: 'never', now: world.app.now })
  onTestFinished(() => opened.close())
  const app = { ...opened, identities: world.app.identities }
  const asks = await Promise.all(world.routes.map(async (route) => ({ route, ask: await goodOf(route, world) })))
  await relay.cut()
  for (const { route, ask } of asks) await expectGoodOr('SERVICE_UNAVAILABLE', world, route, { ...ask, app })
  await expectOnAll('SERVICE_UNAVAILABLE', world, app)
  await relay.resume()
  for (const { route, ask } of asks) await expectGoodOr(null, world, route, { ...ask, app })
})

test('503 STORAGE_UNAVAILABLE on every route that needs the document store while it is unreachable, and on no other', async () => {
  const world = await startWorld()
  const fails = () => Promise.reject(new AppError('STORAGE_UNAVAILABLE', { retry_after_secs: 30 }))
  const files = new Proxy(world.app.files, { get: () => fails })
  const asks = await Promise.all(world.routes.map(async (route) => ({ route, ask: await goodOf(route, world) })))
  const refused: string[] = []
  for (const { route, ask } of asks) {
    const response = await world.send(route, { ...ask, app: { ...world.app, files } }, usualOf(route, world).actor)
    if (response.status === 503 && route.path !== '/readyz') {
      await expectFailure(response, 'STORAGE_UNAVAILABLE', nameOf(route))
      expect.soft([nameOf(route), response.headers.get('retry-after')]).toEqual([nameOf(route), '30'])
      refused.push(nameOf(route))
    }
  }
  const { paths } = describeApi(allRoutes(world.app), '', '') as unknown as Description
  const declared = world.routes.filter((route) => codesIn(paths, route).includes('STORAGE_UNAVAILABLE')).map(nameOf)
  expect(refused.sort()).toEqual(declared.sort())
})

test('500 INTERNAL_ERROR on every route with an internal error, without its cause', async () => {
  const world = await startWorld()
  const asks = await Promise.all(world.routes.map(async (route) => ({ route, ask: await goodOf(route, world) })))
  await sql`alter schema public rename to elsewhere`.execute(world.app.db)
  for (const { route, ask } of asks) await expectGoodOr('INTERNAL_ERROR', world, route, ask)
  await expectOnAll('INTERNAL_ERROR', world, world.app)
})

const goodOf = async (route: Route, world: World): Promise<RouteRequest> => rowOf(route).good(world, usualOf(route, world).who)

/** Checks that the good request succeeds or fails with this code: not every route needs what is missing. */
async function expectGoodOr(code: Code | null, world: World, route: Route, ask: RouteRequest): Promise<void> {
  const name = nameOf(route)
  const response = await world.send(route, ask, usualOf(route, world).actor)
  const isDeclared = response.status === goodStatus(route) || String(response.status) in (route.shape.otherAnswers ?? {})
  if (code !== null && !isDeclared) await expectFailure(response, code, name)
  else expect.soft([name, isDeclared, response.status]).toEqual([name, true, response.status])
}

/** Checks each route whose description has the code, with a token and with the limit of requests. */
async function expectOnAll(code: Code, { ada }: World, { config, ...rest }: App): Promise<void> {
  const app = { ...rest, config: { ...config, limits: { ...config.limits, api_calls_per_minute: 100 } } }
  const send = openDoor(app)
  const authorization = `Bearer ${await tokenFor(app, ada)}`
  for (const [at, route] of allRoutes(app).entries()) {
    const name = nameOf(route)
    const response = await send(`203.0.113.${at}`, route, authorization)
    if (codesIn(describeApi([route], '', '').paths, route).includes(code)) await expectFailure(response, code, name)
    else expect.soft([name, response.ok || String(response.status) in (route.shape.otherAnswers ?? {})]).toEqual([name, true])
  }
}
