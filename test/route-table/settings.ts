import type { Rows } from '../support/route-table.ts'

export const rows: Rows = {
  'GET /api/settings': { good: () => ({}) },
  'PUT /api/settings': {
    good: () => ({ json: { theme: 'dark', language: 'de-AT' } }),
    errors: { USER_NOT_FOUND: ({ operator }) => ({ as: operator, json: {} }) },
  },
}
