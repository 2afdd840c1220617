/** Access: every route, requested by users without the right to. */
import { expect, test } from 'vitest'
import type { Access } from '../../src/http/route.ts'
import { allRoutes } from '../../src/server/http/assemble.ts'
import { startApp } from '../support/app.ts'

/** Every route without a token; a new public route has to be added here. */
const open = [
  'POST /api/auth/login',
  'POST /api/auth/register',
  'POST /api/auth/refresh',
  'GET /api/auth/oidc/login',
  'GET /api/auth/oidc/callback',
  'POST /api/auth/oidc/exchange',
  'GET /api/health/auth/oidc',
  'GET /api/auth/verify-email',
  'POST /api/auth/verify-email/resend',
  'GET /api/docs',
  'GET /api/public/shared/:token',
  'POST /api/public/shared/:token/verify',
  'POST /api/public/shared/:token/download',
  'POST /api/public/shared/:token/view',
  'GET /api/health',
  'GET /api/openapi.json',
  'GET /healthz',
  'GET /livez',
  'GET /metrics',
  'GET /readyz',
]

const pathOf = (path: string) => path.replaceAll(/:\w+/g, '01890a5d-ac96-774b-bcce-b302099a8057')

test('every route but the public ones answers 401 without a token', async () => {
  const { app, asStranger } = await startApp()
  const routes = allRoutes(app)
  expect(
    routes
      .filter(({ access }) => access === 'anyone')
      .map(({ method, path }) => `${method} ${path}`)
      .sort(),
  ).toEqual([...open].sort())
  for (const { method, path } of routes.filter(({ access }) => access !== 'anyone')) {
    for (const name of [path, path.replace('/api/', '/api/v1/')]) {
      const response = await asStranger.send(method, pathOf(name))
      expect([method, name, response.status]).toEqual([method, name, 401])
      expect(await response.json()).toMatchObject({ error: { code: 'UNAUTHORIZED', request_id: response.headers.get('x-request-id') } })
    }
  }
})

test('every route for admins answers 403 to a user', async () => {
  const { app, asAda } = await startApp()
  const admins = allRoutes(app).filter(({ access }) => access === ('admin' satisfies Access))
  expect(admins.length).toBeGreaterThan(5)
  for (const { method, path } of admins) {
    const response = await asAda.send(method, pathOf(path), method === 'GET' || method === 'DELETE' ? undefined : {})
    expect([method, path, response.status]).toEqual([method, path, 403])
  }
})
