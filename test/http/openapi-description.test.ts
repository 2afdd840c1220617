/** What the OpenAPI description says of bodies, answers, parameters and media types is what the server does. */
import { expect, test } from 'vitest'
import { describe as describeApi } from '../../src/server/openapi/openapi.ts'
import type { Schema } from '../support/data/schema-boundaries.ts'
import { nameOf, startWorld } from '../support/route-table.ts'

/** Every route with its description. */
async function described() {
  const { routes } = await startWorld()
  const { paths } = describeApi(routes, 'http://localhost', '0')
  const all = routes.map((route) => {
    const description = paths[route.path.replaceAll(/:(\w+)/g, '{$1}')]?.[route.method.toLowerCase()]
    if (!description) throw new Error(`${nameOf(route)} is not described`)
    return { route, name: nameOf(route), ...description }
  })
  return { paths, all }
}

test('every route describes its errors: 431 for all, 400, 413 and 415 with a body, 429 below /api', async () => {
  for (const { route, name, responses } of (await described()).all) {
    const { body, form } = route.shape
    const refusals = ['431', ...(body || form ? ['413', '415', '400'] : []), ...(route.path.startsWith('/api/') ? ['429'] : [])]
    expect([name, Object.keys(responses)]).toEqual([name, expect.arrayContaining(refusals)])
  }
})

test('a body is required in the description exactly where an empty one is refused', async () => {
  for (const { route, name, requestBody } of (await described()).all) {
    const { body } = route.shape
    if (body) expect([name, requestBody?.required]).toEqual([name, !body.safeParse({}).success])
  }
})

test('numbers in queries are described as numbers, not as strings of digits', async () => {
  for (const { name, parameters } of (await described()).all)
    for (const { in: place, schema } of parameters as { in: string; schema: Schema }[])
      if (place === 'query') expect([name, schema.pattern ?? '']).not.toEqual([name, expect.stringContaining('\\d{1,')])
})

test('the description has the media types of downloads and pictures', async () => {
  const { paths } = await described()
  const types = (path: string) => Object.keys(paths[path]?.get?.responses['200']?.content ?? {})
  expect(types('/api/documents/{id}/download')).toEqual(['*/*'])
  expect(types('/api/documents/{id}/view')).toEqual(['*/*'])
  expect(types('/api/documents/{id}/thumbnail')).toEqual(['image/webp', 'image/jpeg'])
})

test('the description has the limits of a comment', async () => {
  const of = (await described()).all.filter(({ name }) => /^(POST|PUT) .*\/comments(\/:comment_id)?$/.test(name))
  const lengths = of.map(({ requestBody }) => (requestBody?.content['application/json']?.schema as Schema | undefined)?.properties?.content)
  expect(lengths).toEqual(Array(2).fill(expect.objectContaining({ minLength: 1, maxLength: 10_000 })))
})
