import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { expect, test } from 'vitest'
import { allRoutes } from '../../src/server/http/assemble.ts'
import { startApp } from '../support/app.ts'

type Content = Record<string, { schema: object | { $ref: string }; example?: unknown; examples?: Record<string, { value: unknown }> }>

interface Operation {
  operationId: string
  requestBody?: { content: Content }
  responses: Record<string, { description: string; content?: Content }>
}

interface Description {
  openapi: string
  paths: Record<string, Record<string, Operation>>
}

test('every route is described with a unique name, its success and its failures', async () => {
  const { app, asStranger } = await startApp()
  const description = await asStranger.call<Description>('GET', '/api/openapi.json')
  expect(description.openapi).toBe('3.1.0')
  const operations = Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })),
  )
  const named = (method: string, path: string) => `${method.toUpperCase()} ${path}`
  expect(operations.map(({ method, path }) => named(method, path)).sort()).toEqual(
    allRoutes(app)
      .map(({ method, path }) => named(method, path.replaceAll(/:(\w+)/g, '{$1}')))
      .sort(),
  )
  expect(new Set(operations.map(({ operationId }) => operationId)).size).toBe(operations.length)
  for (const { method, path, responses } of operations) {
    expect([named(method, path), Object.keys(responses).some((status) => Number(status) < 400)]).toEqual([named(method, path), true])
    if (path.startsWith('/api/')) expect(Object.keys(responses)).toEqual(expect.arrayContaining(['429', '500', '503']))
  }
})

test('the page shows every route, loads nothing from other servers and satisfies its own policy', async () => {
  const { app, asStranger } = await startApp()
  const response = await asStranger.send('GET', '/api/docs')
  expect(response.headers.get('content-security-policy')).toMatch(
    /^default-src 'none'; style-src 'sha256-[\w+/=]{44}'; script-src 'sha256-[\w+/=]{44}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$/,
  )
  const page = await response.text()
  for (const { path } of allRoutes(app)) expect(page).toContain(path.replaceAll(/:(\w+)/g, '{$1}'))
  expect(page).not.toMatch(/<script[^>]|<link|<img|url\(|(?:src|href)="(?!openapi\.json|#)/)
  const ids = new Set(Array.from(page.matchAll(/ id="([^"]+)"/g), ([, id]) => id))
  const anchors = Array.from(page.matchAll(/ href="#([^"]+)"/g), ([, id]) => id)
  expect(anchors.length).toBeGreaterThan(allRoutes(app).length)
  expect(anchors.filter((id) => !ids.has(id))).toEqual([])
})

test('every JSON body and answer has an example that fits its schema, every failure one for each code', async () => {
  const { app, asStranger } = await startApp()
  const description = await asStranger.call<Description>('GET', '/api/openapi.json')
  const ajv = new Ajv2020({ strict: false, validateFormats: true })
  formats.default(ajv)
  ajv.addSchema({ $id: 'api', ...description })
  const expectExamples = (about: string, content: Content = {}) => {
    for (const { schema, example, examples = {} } of Object.entries(content).flatMap(([type, media]) =>
      type.includes('json') ? [media] : [],
    )) {
      const validate = ajv.compile('$ref' in schema ? { $ref: `api${schema.$ref}` } : schema)
      const all = [...(example === undefined ? [] : [example]), ...Object.values(examples).map(({ value }) => value)]
      expect.soft([about, all.length > 0]).toEqual([about, true])
      for (const one of all) expect.soft([about, one, validate(one), validate.errors]).toEqual([about, one, true, null])
    }
  }
  for (const { method, path, shape } of allRoutes(app)) {
    const name = `${method} ${path}`
    const operation = description.paths[path.replaceAll(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()]
    expect.soft([name, operation?.requestBody !== undefined]).toEqual([name, Boolean(shape.body ?? shape.form)])
    expectExamples(`${name} body`, operation?.requestBody?.content)
    for (const [status, { description: codes, content }] of Object.entries(operation?.responses ?? {})) {
      expectExamples(`${name} ${status}`, content)
      const failures = Object.entries(content?.['application/json']?.examples ?? {})
      if (failures.length === 0) continue
      expect.soft([name, failures.map(([code]) => code).join(', ')]).toEqual([name, codes])
      for (const [code, { value }] of failures) expect.soft([name, value]).toMatchObject([name, { error: { code } }])
    }
  }
})

test('openapi.json and its page are created once, with a strong ETag for each encoding, and answer 304', async () => {
  const { asStranger } = await startApp()
  for (const path of ['/api/openapi.json', '/api/docs']) {
    const ask = async (headers: Record<string, string>, method = 'GET') => {
      const response = await asStranger.send(method, path, undefined, headers)
      const bytes = Buffer.from(await response.arrayBuffer())
      return { status: response.status, bytes, header: (name: string) => response.headers.get(name) }
    }
    const plain = await ask({})
    expect([plain.status, plain.header('etag')]).toEqual([200, expect.stringMatching(/^"[\w-]{43}"$/)])
    expect([plain.header('content-encoding'), plain.header('vary')]).toEqual([null, 'accept-encoding'])
    for (const [encoding, accepted, decode] of [
      ['br', 'gzip, deflate, br, zstd', brotliDecompressSync],
      ['br', '*', brotliDecompressSync],
      ['gzip', 'gzip, br;q=0', gunzipSync],
      ['gzip', 'br;q=0.5, gzip;q=0.8, *;q=0.1', gunzipSync],
    ] as const) {
      const packed = await ask({ 'accept-encoding': accepted })
      expect([accepted, packed.header('content-encoding')]).toEqual([accepted, encoding])
      expect(packed.header('content-length')).toBe(String(packed.bytes.length))
      expect(packed.bytes.length).toBeLessThan(plain.bytes.length / 8)
      expect(decode(packed.bytes).equals(plain.bytes)).toBe(true)
      expect(packed.header('etag')).not.toBe(plain.header('etag'))
      const same = await ask({ 'accept-encoding': accepted, 'if-none-match': `"other", ${packed.header('etag')}` })
      expect([same.status, same.bytes.length, same.header('etag')]).toEqual([304, 0, packed.header('etag')])
      expect((await ask({ 'accept-encoding': accepted, 'if-none-match': String(plain.header('etag')) })).status).toBe(200)
    }
    for (const accepted of ['', 'deflate', 'identity', 'br;q=0, gzip;q=0', 'identity;q=0'])
      expect([accepted, (await ask({ 'accept-encoding': accepted })).header('content-encoding')]).toEqual([accepted, null])
    const head = await ask({ 'accept-encoding': 'br' }, 'HEAD')
    expect([head.status, head.bytes.length, head.header('content-encoding')]).toEqual([200, 0, 'br'])
  }
})
