import type { Rows } from '../support/route-table.ts'

export const rows: Rows = {
  'GET /api/audit': { good: () => ({ query: { outcome: 'ok' } }) },
  'GET /api/audit/verify': { good: () => ({}) },
}
