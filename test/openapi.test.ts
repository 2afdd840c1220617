import { expect, test } from 'vitest'
import { allRoutes } from '../src/server/server.ts'
import { startApp } from './support/app.ts'

interface Description {
  openapi: string
  paths: Record<string, Record<string, { operationId: string; responses: Record<string, { content?: object }>; requestBody?: object }>>
}

test('every route is described, with a name of its own, its good answer and its failures', async () => {
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
    expect([named(method, path), Object.keys(responses).some((status) => Number(status) < 300)]).toEqual([named(method, path), true])
    if (path.startsWith('/api/')) expect(Object.keys(responses)).toEqual(expect.arrayContaining(['429', '500', '503']))
  }
})

test('the page names every route, needs nothing from elsewhere and passes its own policy', async () => {
  const { app, asStranger } = await startApp()
  const response = await asStranger.send('GET', '/api/docs')
  expect(response.headers.get('content-security-policy')).toMatch(/^default-src 'none'; style-src 'sha256-/)
  const page = await response.text()
  for (const { path } of allRoutes(app)) expect(page).toContain(path.replaceAll(/:(\w+)/g, '{$1}'))
  expect(page).not.toMatch(/<script|<link|<img|url\(|(?:src|href)="(?!openapi\.json)/)
})
