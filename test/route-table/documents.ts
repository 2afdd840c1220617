import type { Making, Person, Row, Rows, World } from '../support/route-table.ts'
import { withRendition } from './renditions.ts'

/** A GIF of one pixel. */
const picture = 'GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;'

const own = async (world: World, who: Person) => ({ params: { id: await world.document(who) } })
const file = (world: World) => ({ filename: `${world.word()}.txt`, bytes: `bytes of ${world.word()}` })
const one = (world: World, fields: Record<string, string> = {}) => ({ form: { fields, field: 'file', files: [file(world)] } })
const two = (world: World, fields: Record<string, string> = {}) => ({ form: { fields, field: 'files', files: [file(world), file(world)] } })

const again =
  (on_duplicate: string): Making<object> =>
  async (world) => {
    const filename = `${world.word()}.txt`
    await world.document(world.ada, filename)
    return { form: { fields: { on_duplicate }, field: 'file', files: [{ filename, bytes: `bytes of ${filename}` }] } }
  }

/** A request with the Idempotency-Key of another one. */
const keyOfAnother =
  (path: string, make: (world: World) => object): Making<object> =>
  async (world) => {
    const headers = { 'idempotency-key': world.word() }
    await world.repeat(1, path, { ...make(world), headers })
    return { ...make(world), headers }
  }

const upload = (path: string): Row => ({
  good: (world) => one(world, { title: world.word(), on_duplicate: 'allow' }),
  also: { 200: again('return') },
  errors: {
    FORBIDDEN: (world) => one(world, { owner: world.bob.username }),
    DUPLICATE_RESOURCE: again('reject'),
    IDEMPOTENCY_KEY_REUSED: keyOfAnother(path, one),
  },
  withIds: [
    async (world, who) => one(world, { labels: (await world.label(who)).id }),
    (world, who) => one(world, { owner: who.id }),
    (world, who) => ({ ...one(world), query: { owner: who.id } }),
  ],
  open: ['form.labels'],
})

const bytes: Row = {
  good: own,
  errors: {
    RANGE_NOT_SATISFIABLE: async (world, who) => ({ ...(await own(world, who)), headers: { range: 'bytes=100000-' } }),
    PRECONDITION_FAILED: async (world, who) => ({ ...(await own(world, who)), headers: { 'if-match': '"old"' } }),
  },
}

export const rows: Rows = {
  'GET /api/documents': {
    good: () => ({ query: { status: 'pending,failed' } }),
    withIds: [
      async (world, who) => ({ query: { label_ids: (await world.label(who)).id } }),
      async (world, who) => ({ query: { owner: who.id, source_id: await world.source(who) } }),
    ],
  },
  'POST /api/documents/upload': upload('POST /api/documents/upload'),
  'POST /api/documents': upload('POST /api/documents'),
  'POST /api/documents/bulk-upload': {
    good: (world) => two(world),
    errors: {
      FORBIDDEN: (world) => two(world, { owner: world.bob.username }),
      IDEMPOTENCY_KEY_REUSED: keyOfAnother('POST /api/documents/bulk-upload', two),
    },
    withIds: [
      async (world, who) => two(world, { default_labels: (await world.label(who)).id }),
      (world, who) => two(world, { owner: who.id }),
      (world, who) => ({ ...two(world), query: { owner: who.id } }),
    ],
    open: ['form.default_labels'],
  },
  'POST /api/documents/known': {
    good: async (world, who) => ({ json: { sha256: [(await world.clientOf(who).documents.get(await world.document(who))).sha256] } }),
    errors: { FORBIDDEN: (world) => ({ json: { sha256: ['0'.repeat(64)], owner: world.bob.username } }) },
    withIds: [(_world, who) => ({ json: { sha256: ['0'.repeat(64)], owner: who.id } })],
  },
  'POST /api/documents/batch-get': {
    good: async (world, who) => ({ json: { ids: [await world.document(who)], with_text: true } }),
    withIds: [async (world, who) => ({ json: { ids: [await world.document(who)] } })],
  },
  'GET /api/documents/:id': { good: own },
  'PUT /api/documents/:id': {
    good: async (world, who) => ({
      ...(await own(world, who)),
      json: { title: world.word(), labels: [(await world.label(who)).id], metadata: { shelf: 3 } },
    }),
    errors: {
      PRECONDITION_FAILED: async (world, who) => ({ ...(await own(world, who)), json: {}, headers: { 'if-match': '"old"' } }),
      RETENTION: async (world, who) => ({ params: { id: await world.retained(who) }, json: { retain_until: '2099-01-01' } }),
    },
    open: ['json.labels'],
  },
  'DELETE /api/documents/:id': {
    good: own,
    errors: {
      PRECONDITION_FAILED: async (world, who) => ({ ...(await own(world, who)), headers: { 'if-match': '"old"' } }),
      RETENTION: async (world, who) => ({ params: { id: await world.retained(who) }, query: { permanent: 'true' } }),
    },
  },
  'GET /api/documents/:id/deletion': {
    good: own,
    errors: { RETENTION: async (world, who) => ({ params: { id: await world.retained(who) }, query: { permanent: 'true' } }) },
  },
  'POST /api/documents/:id/undelete': {
    good: async (world, who) => ({ params: { id: await world.trashed(who) } }),
    errors: { CONFLICT: own },
  },
  'GET /api/trash': { good: () => ({ query: { per_page: '5' } }), withIds: [(_world, who) => ({ query: { owner: who.id } })] },
  'GET /api/trash/deletion': {
    good: () => ({}),
    withIds: [(_world, who) => ({ query: { owner: who.id } })],
    errors: {
      RETENTION: ({ app, but }) => ({ app: but({ config: { ...app.config, documents: { ...app.config.documents, worm: true } } }) }),
    },
  },
  'DELETE /api/trash': {
    good: async (world, who) => {
      await world.trashed(who)
      return {}
    },
    withIds: [(_world, who) => ({ query: { owner: who.id } })],
    errors: {
      RETENTION: ({ app, but }) => ({ app: but({ config: { ...app.config, documents: { ...app.config.documents, worm: true } } }) }),
    },
  },
  'GET /api/documents/:id/download': {
    ...bytes,
    also: { ...bytes.also, 202: withRendition('pending') },
    errors: {
      ...bytes.errors,
      RENDITION_NOT_FOUND: async (world, who) => ({ ...(await own(world, who)), query: { rendition: 'pdfa' } }),
      RENDITION_UNAVAILABLE: withRendition('refused'),
    },
  },
  'GET /api/documents/:id/view': bytes,
  'GET /api/documents/:id/thumbnail': {
    good: async (world, who) => ({ ...(await own(world, who)), query: { width: '10', height: '10' } }),
  },
  'GET /api/documents/:id/pages': { good: own },
  'GET /api/documents/:id/pages/:number/image': {
    good: async (world, who) => ({
      params: { id: await world.document(who, `${world.word()}.gif`, Buffer.from(picture, 'latin1')), number: '1' },
    }),
    errors: { PAGE_IMAGE_NOT_FOUND: async (world, who) => ({ params: { ...(await own(world, who)).params, number: '2' } }) },
  },
  'GET /api/documents/:id/text': { good: own },
}
