/** Routes about the server itself. */
import type { Rows } from '../support/route-table.ts'

export const rows: Rows = {
  'GET /api/metrics/system': { good: () => ({}) },
  'GET /api/metrics/ocr': { good: () => ({}) },
  'GET /healthz': { good: () => ({}) },
  'GET /livez': { good: () => ({}) },
  'GET /api/health': { good: () => ({}) },
  'GET /readyz': {
    good: () => ({}),
    also: {
      503: ({ app, but }) => ({
        app: but({ files: Object.assign(Object.create(app.files), { check: () => Promise.reject(new Error('no disk')) }) }),
      }),
    },
  },
  'GET /metrics': {
    good: () => ({ ip: '127.0.0.1' }),
    errors: {
      UNAUTHORIZED: () => ({ ip: '203.0.113.9' }),
      FORBIDDEN: ({ ada }) => ({ as: ada.actor, ip: '203.0.113.9' }),
    },
  },
  'GET /api/openapi.json': { good: () => ({}) },
  'GET /api/docs': { good: () => ({}) },
}
