import type { Person, Row, Rows, World } from '../support/route-table.ts'

const own = async (world: World, who: Person) => ({ params: { id: await world.document(who) } })
const file = (world: World) => ({ filename: `${world.word()}.txt`, bytes: `bytes of ${world.word()}` })

/** A document with two versions, and a path to one of them. */
const version = (number: string) => async (world: World, who: Person) => {
  const { params } = await own(world, who)
  const { filename, bytes } = file(world)
  const upload = { filename, size: bytes.length, open: () => [Buffer.from(bytes)] }
  await world.clientOf(who).documents.replace(params.id, upload)
  return { params: { ...params, number } }
}

const unknown = { VERSION_NOT_FOUND: version('9') }
const changed = {
  PRECONDITION_FAILED: async (world: World, who: Person) => ({ ...(await version('1')(world, who)), headers: { 'if-match': '"old"' } }),
}

const bytes: Row = {
  good: version('1'),
  errors: {
    ...unknown,
    ...changed,
    RANGE_NOT_SATISFIABLE: async (world, who) => ({ ...(await version('1')(world, who)), headers: { range: 'bytes=100000-' } }),
  },
}

export const rows: Rows = {
  'PUT /api/documents/:id/file': {
    good: async (world, who) => ({ ...(await own(world, who)), form: { fields: {}, field: 'file', files: [file(world)] } }),
    also: {
      200: async (world, who) => {
        const { params } = await own(world, who)
        const stored = await world.clientOf(who).documents.download(params.id)
        return { params, form: { fields: {}, field: 'file', files: [{ filename: 'same.txt', bytes: await stored.text() }] } }
      },
    },
    errors: {
      PRECONDITION_FAILED: async (world, who) => ({
        ...(await own(world, who)),
        form: { fields: {}, field: 'file', files: [file(world)] },
        headers: { 'if-match': '"old"' },
      }),
    },
  },
  'GET /api/documents/:id/versions': { good: own },
  'GET /api/documents/:id/versions/:number/download': bytes,
  'GET /api/documents/:id/versions/:number/view': bytes,
  'GET /api/documents/:id/versions/:number/text': { good: version('1'), errors: unknown },
  'POST /api/documents/:id/versions/:number/restore': {
    good: version('1'),
    also: { 200: version('2') },
    errors: { ...unknown, ...changed },
  },
  'DELETE /api/documents/:id/versions/:number': {
    good: version('1'),
    errors: {
      ...unknown,
      ...changed,
      CONFLICT: async (world, who) => ({ params: { ...(await own(world, who)).params, number: '1' } }),
      RETENTION: async (world, who) => ({ params: { id: await world.retained(who), number: '1' } }),
    },
  },
}
