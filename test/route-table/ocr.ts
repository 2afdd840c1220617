import type { Person, Row, Rows, World } from '../support/route-table.ts'

const own = async (world: World, who: Person) => ({ params: { id: (await world.job(who)).id } })
const cancelled = async (world: World, who: Person) => {
  const ask = await own(world, who)
  await world.asAda.ocrQueue.cancel(ask.params.id)
  return ask
}

const retry: Row = {
  good: async (world, who) => ({ params: { id: await world.document(who) }, json: { priority: 'high' } }),
  errors: {
    CONFLICT: async (world, who) => ({ params: { id: await world.document(who) }, json: {}, app: world.but({ ocr: null }) }),
    FORBIDDEN: async (world, who) => ({ params: { id: await world.document(who) }, json: { priority: 'urgent' } }),
  },
}

export const rows: Rows = {
  'POST /api/documents/:id/retry-ocr': retry,
  'POST /api/documents/:id/ocr/retry': retry,
  'GET /api/ocr/queue/status': { good: () => ({}) },
  'POST /api/ocr/queue/pause': { good: (world) => ({ as: world.admin.actor }) },
  'POST /api/ocr/queue/resume': { good: (world) => ({ as: world.admin.actor }) },
  'POST /api/ocr/queue/recover': { good: (world) => ({ as: world.admin.actor }) },
  'GET /api/ocr/queue': { good: () => ({ query: { status: 'pending', priority: 'normal' } }) },
  'POST /api/ocr/queue/retry': {
    good: async (world, who) => ({ json: { ids: [await world.failedJob(who)] } }),
    errors: {
      CONFLICT: async (world, who) => ({ json: { ids: [await world.failedJob(who)] }, app: world.but({ ocr: null }) }),
    },
  },
  'GET /api/ocr/queue/:id': { good: own },
  'PUT /api/ocr/queue/:id/priority': {
    good: async (world, who) => ({ ...(await own(world, who)), json: { priority: 'high' } }),
    errors: {
      CONFLICT: async (world, who) => ({ ...(await cancelled(world, who)), json: { priority: 'high' } }),
      FORBIDDEN: async (world, who) => ({ ...(await own(world, who)), json: { priority: 'urgent' } }),
    },
  },
  'DELETE /api/ocr/queue/:id': { good: own, errors: { CONFLICT: cancelled } },
  'GET /api/ocr/languages': { good: () => ({}) },
}
