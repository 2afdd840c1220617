/** Hostile values in every parameter of every route: refused or harmless, never 5xx. */
import { expect, test, vi } from 'vitest'
import type { Route } from '../../src/http/route.ts'
import { rowOf } from '../route-table/all.ts'
import { fieldsOf, nameOf, type RouteRequest, startWorld, usualOf, type World } from '../support/route-table.ts'

// Hundreds of requests: seconds on an idle machine.
vi.setConfig({ testTimeout: 180_000 })

const texts: readonly string[] = [
  "'; drop table users; --",
  '(select pg_sleep(5))',
  'constructor',
  '%_\\',
  'foo & | !( :* <->',
  'a\0b',
  'half \ud800 of a pair',
  '9223372036854775808',
  '275760-09-13T00:00:00.001Z',
  '{01890a5d-ac96-774b-bcce-b302099a8057}',
  '\u202e\u{1f4a9}'.repeat(500),
]
const others: readonly unknown[] = [null, -0.5, 1e300, [[['x']]], { constructor: { prototype: { x: 1 } } }, ['a\0b'], { a: 'a\0b' }]

type Attempt = [place: string, value: unknown, ask: RouteRequest]

/** The good request with one hostile value. */
function attempts({ path, shape }: Route, good: RouteRequest): Attempt[] {
  const { params = {}, query = {}, json, form } = good
  const paths = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name)
  const each = (names: readonly string[], values: readonly unknown[], fill: (name: string, value: unknown) => RouteRequest) =>
    names.flatMap((name) => values.map((value): Attempt => [name, value, fill(name, value)]))
  return [
    ...each(paths, texts, (name, value) => ({ ...good, params: { ...params, [name]: String(value).toWellFormed() } })),
    ...each(fieldsOf(shape.query), texts, (name, value) => ({ ...good, query: { ...query, [name]: String(value) } })),
    ...each(fieldsOf(shape.body), [...texts, ...others], (name, value) => ({ ...good, json: { ...(json as object), [name]: value } })),
    ...each(fieldsOf(shape.form?.fields), texts, (name, value) => ({
      ...good,
      form: { field: 'file', files: [], ...form, fields: { ...form?.fields, [name]: String(value) } },
    })),
  ]
}

async function attack(world: World, route: Route): Promise<number> {
  const { who, actor } = usualOf(route, world)
  const all = attempts(route, await rowOf(route).good(world, who))
  for (const [place, value, ask] of all) {
    // Disables limits on actions.
    await world.later(200_000)
    const response = await world.send(route, ask, actor)
    const answer = response.status < 500 ? '' : await response.text()
    expect.soft([nameOf(route), place, value, answer]).toEqual([nameOf(route), place, value, ''])
  }
  return all.length
}

test('hostile values are refused or harmless, in every parameter and field of every route', async () => {
  const world = await startWorld()
  let requests = 0
  for (const route of world.routes) requests += await attack(world, route)
  expect(requests).toBeGreaterThan(1000)
  expect(({} as Record<string, unknown>).x).toBeUndefined()
  const { count } = await world.app.db
    .selectFrom('users')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow()
  expect(count).toBeGreaterThan(2)
})
