import { sql } from 'kysely'
import type { Person, Rows, World } from '../support/route-table.ts'

const own = async (world: World, who: Person) => ({ params: { id: (await world.label(who)).id } })
const fields = (world: World, more: object = {}) => ({ name: world.word(), color: '#112233', ...more })

/** Adds labels to the database. */
const addLabels = (world: World, count: number, creator: string | null) =>
  sql<{ id: string }>`
    insert into labels (name, name_key, color, created_by)
    select name, name, '#112233', ${creator}::uuid from generate_series(1, ${count}) n, lateral (select ${world.word()} || n as name) named
    returning id`.execute(world.app.db)

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
    errors: {
      DUPLICATE_RESOURCE: async (world, who) => ({ json: fields(world, { name: (await world.label(who)).name.toUpperCase() }) }),
      CONFLICT: async (world) => {
        const { id, actor } = await world.person()
        await addLabels(world, 10_000, id)
        return { as: actor, json: fields(world) }
      },
    },
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
  'POST /api/labels/:id/assign': {
    ...onDocuments,
    errors: {
      ...onDocuments.errors,
      CONFLICT: async (world, who) => {
        const request = await onDocuments.good(world, who)
        const { rows } = await addLabels(world, 1000, null)
        const [document_id = ''] = request.json.document_ids
        await world.app.db
          .insertInto('document_labels')
          .values(rows.map(({ id }) => ({ document_id, label_id: id })))
          .execute()
        return request
      },
    },
  },
  'POST /api/labels/:id/unassign': onDocuments,
  'GET /api/labels/documents/:id': { good: async (world, who) => ({ params: { id: await world.document(who) } }) },
  'PUT /api/labels/documents/:id': {
    good: async (world, who) => ({ params: { id: await world.document(who) }, json: { label_ids: [(await world.label(who)).id] } }),
    open: ['json.label_ids'],
    errors: {
      PRECONDITION_FAILED: async (world, who) => ({
        params: { id: await world.document(who) },
        json: { label_ids: [] },
        headers: { 'if-match': '"old"' },
      }),
    },
  },
}
