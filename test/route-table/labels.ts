import type { Person, Rows, World } from '../support/route-table.ts'

const own = async (world: World, who: Person) => ({ params: { id: (await world.label(who)).id } })
const fields = (world: World, more: object = {}) => ({ name: world.word(), color: '#112233', ...more })

/** Labels are visible to everybody; documents are not. */
const onDocuments = {
  good: async (world: World, who: Person) => ({ ...(await own(world, who)), json: { document_ids: [await world.document(who)] } }),
  errors: {
    DOCUMENT_NOT_FOUND: async (world: World, who: Person) => ({
      ...(await own(world, who)),
      json: { document_ids: [await world.document(who), await world.document(world.bob)] },
    }),
  },
  others: 'DOCUMENT_NOT_FOUND',
  open: ['params.id'],
} as const

export const rows: Rows = {
  'GET /api/labels': { good: () => ({}) },
  'POST /api/labels': {
    good: (world) => ({ json: fields(world) }),
    errors: { DUPLICATE_RESOURCE: async (world, who) => ({ json: fields(world, { name: (await world.label(who)).name.toUpperCase() }) }) },
  },
  'PUT /api/labels/:id': {
    good: async (world, who) => ({ ...(await own(world, who)), json: { description: 'for the tax office' } }),
    errors: {
      FORBIDDEN: async (world) => ({ ...(await own(world, world.bob)), json: {} }),
      DUPLICATE_RESOURCE: async (world, who) => ({ ...(await own(world, who)), json: { name: (await world.label(world.bob)).name } }),
    },
    others: 'FORBIDDEN',
    open: ['params.id'],
  },
  'DELETE /api/labels/:id': {
    good: own,
    errors: { FORBIDDEN: (world) => own(world, world.bob) },
    others: 'FORBIDDEN',
    open: ['params.id'],
  },
  'POST /api/labels/:id/assign': onDocuments,
  'POST /api/labels/:id/unassign': onDocuments,
  'GET /api/labels/documents/:id': { good: async (world, who) => ({ params: { id: await world.document(who) } }) },
  'PUT /api/labels/documents/:id': {
    good: async (world, who) => ({ params: { id: await world.document(who) }, json: { label_ids: [(await world.label(who)).id] } }),
    open: ['json.label_ids'],
  },
}
