/** Ids of other users in every parameter of every route: answered like unknown ids, without any change. */
import { randomBytes } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import type { Route } from '../../src/http/route.ts'
import { rowOf } from '../route-table/all.ts'
import { upload } from '../support/app.ts'
import { normal } from '../support/normal.ts'
import { fieldsOf, nameOf, noId, type RouteRequest, type Row, startWorld, type World } from '../support/route-table.ts'
import { rowsOf } from '../support/rows-of.ts'

// Hundreds of requests: seconds on an idle machine.
vi.setConfig({ testTimeout: 180_000 })

type Bag = 'params' | 'query' | 'json' | 'form'
/** A parameter that takes an id. */
interface Place {
  bag: Bag
  name: string
}

/** Names of fields that refer to objects. */
const isIdName = (name: string): boolean => /(?:^|_)(?:ids?|owner|labels|filters|sha256)$|^user$/.test(name)

const bags: readonly Bag[] = ['params', 'query', 'json', 'form']
const bagOf = (ask: RouteRequest, bag: Bag): Record<string, unknown> =>
  (bag === 'form' ? ask.form?.fields : (ask[bag] as Record<string, unknown> | undefined)) ?? {}

const placesIn = (ask: RouteRequest): Place[] =>
  bags.flatMap((bag) => Object.keys(bagOf(ask, bag)).flatMap((name) => (bag === 'params' || isIdName(name) ? [{ bag, name }] : [])))

const formatted = ({ bag, name }: Place): string => `${bag}.${name}`

function filled(ask: RouteRequest, { bag, name }: Place, value: unknown): RouteRequest {
  const values = { ...bagOf(ask, bag), [name]: value }
  if (bag === 'form')
    return { ...ask, form: { ...(ask.form as NonNullable<RouteRequest['form']>), fields: values as Record<string, string> } }
  return { ...ask, [bag]: values }
}

/** Returns the request with ids and checksums that do not exist. */
const ofNothing = <T>(value: T): T =>
  JSON.parse(
    JSON.stringify(value)
      .replaceAll(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, noId)
      .replaceAll(/[0-9a-f]{64}/g, () => randomBytes(32).toString('hex')),
  )

/** Returns the parameters in the description of a route, including optional ones. */
function describedPlaces({ path, shape }: Route): string[] {
  const params = [...path.matchAll(/:(\w+)/g)].map(([, name]) => ({ bag: 'params' as const, name: name as string }))
  const inputs = [
    ['query', shape.query],
    ['json', shape.body],
    ['form', shape.form?.fields],
  ] as const
  const named = inputs.flatMap(([bag, schema]) =>
    fieldsOf(schema)
      .filter(isIdName)
      .map((name) => ({ bag, name })),
  )
  return [...new Set([...params, ...named].map(formatted))]
}

/** Returns two requests of Bob that must have equal answers: one with an id of Ada, one with an unknown id. */
interface Pair {
  about: string
  theirs: RouteRequest
  nothing: RouteRequest
  /** its object is visible to everybody: only rows of Ada count */
  isOpen: boolean
}

async function pairsOf(row: Row, world: World): Promise<Pair[]> {
  const { ada, bob } = world
  const open = row.open ?? []
  const pairs: Pair[] = []
  for (const make of [row.good, ...(row.withIds ?? [])]) {
    const whole = await make(world, ada)
    const places = placesIn(whole)
    const closed = places.filter((place) => !open.includes(formatted(place)))
    const nothing = closed.reduce((ask, place) => filled(ask, place, ofNothing(bagOf(whole, place.bag)[place.name])), whole)
    if (places.length > 0) pairs.push({ about: 'all of it', theirs: whole, nothing, isOpen: closed.length === 0 })
    for (const place of places) {
      const value = bagOf(whole, place.bag)[place.name]
      const isOpen = open.includes(formatted(place))
      const pair = async (about: string, of: (own: unknown, given: unknown) => unknown) => {
        const [first, second] = [await make(world, bob), await make(world, bob)]
        const own = (ask: RouteRequest) => bagOf(ask, place.bag)[place.name]
        const theirs = filled(first, place, of(own(first), value))
        pairs.push({ about, theirs, nothing: filled(second, place, of(own(second), ofNothing(value))), isOpen })
      }
      await pair(formatted(place), (_, given) => given)
      if (Array.isArray(value)) await pair(`${formatted(place)} beside Bob's`, (own, given) => [...(own as []), ...(given as [])])
    }
  }
  return pairs
}

test('ids of other users are answered like unknown ids on every route, and nothing of theirs changes', async () => {
  const world = await startWorld()
  const requests: string[] = []
  for (const route of world.routes.filter(({ access }) => access !== 'anyone')) {
    const row = rowOf(route)
    const pairs = await pairsOf(row, world)
    const before = await rowsOf(world.app, world.ada.id)
    for (const { about, theirs, nothing, isOpen } of pairs) {
      const name = `${nameOf(route)} ${about}`
      const answers = []
      for (const ask of [theirs, nothing]) {
        const response = await world.send(route, { ...ask, as: world.bob.actor }, null)
        answers.push([name, response.status, normal(await response.text())])
      }
      if (!isOpen) expect.soft(answers[0]).toEqual(answers[1])
      requests.push(name)
    }
    expect.soft(await rowsOf(world.app, world.ada.id), nameOf(route)).toEqual(before)
    const given = await Promise.all([row.good, ...(row.withIds ?? [])].map((make) => make(world, world.ada)))
    expect.soft([nameOf(route), ...new Set(given.flatMap(placesIn).map(formatted))]).toEqual(expect.arrayContaining(describedPlaces(route)))
  }
  expect(requests.length).toBeGreaterThan(50)
})

test('lists, counts, facets and totals of one user are equal before and after another user created one of everything', async () => {
  const world = await startWorld()
  const { ada, asAda, asBob, runJobs } = world
  const label = await world.label(ada)
  await upload(asBob, 'bytes of bob.txt', 'bob')
  await runJobs()
  // The load of the host changes by itself.
  const routes = world.routes.filter(
    ({ method, path, access }) => method === 'GET' && access === 'user' && !path.includes(':') && path !== '/api/metrics/system',
  )
  const look = async () => {
    const answers: Record<string, string> = {}
    for (const route of routes) {
      const response = await world.send(route, await rowOf(route).good(world, world.bob), world.bob.actor)
      answers[nameOf(route)] = `${response.status} ${normal(await response.text())}`
    }
    const filters = [
      {},
      { owner: ada.id },
      { owner: ada.username },
      { label_ids: [label.id] },
      { labels: [label.name] },
      { status: ['pending' as const] },
    ]
    for (const [at, filter] of filters.entries()) {
      answers[`search ${at}`] = normal(JSON.stringify(await asBob.search.query('bytes', { filters: filter })))
      answers[`advanced ${at}`] = normal(JSON.stringify(await asBob.search.advanced({ filters: filter })))
    }
    for (const filter of [{ owner: ada.id }, { owner: ada.username }, { label_ids: label.id }])
      answers[JSON.stringify(filter)] = normal(JSON.stringify(await asBob.documents.page(filter)))
    for (const q of ['ada', '-nothing']) answers[q] = normal(JSON.stringify(await asBob.search.query(q)))
    const condition = { field: 'title', value: 'bytes', type: 'contains' } as const
    answers.advanced = normal(JSON.stringify(await asBob.search.advanced({ query: { must: [condition] } })))
    return answers
  }
  const before = await look()
  const { id } = await upload(asAda, 'bytes of ada.html', '<p>ada</p>')
  await asAda.labels.assign(label.id, [id])
  await world.comment(ada, id)
  await world.link(ada)
  await world.failedJob(ada)
  await world.notification(ada)
  await world.source(ada)
  await runJobs(['index'])
  expect((await world.asAdmin.search.query('bytes')).total).toBeGreaterThan(1)
  expect(await look()).toEqual(before)
})
