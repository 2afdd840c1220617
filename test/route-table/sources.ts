import { Busy } from '../../src/db/lock.ts'
import { localFolder, type Person, type Rows, type World } from '../support/route-table.ts'

/** A folder of the server, which only admins may use as a source: it needs no other server. */
const folder = { type: 'local_folder', url: localFolder }
const fields = (world: World, more: object = {}) => ({ name: world.word(), sync_interval: 0, ...folder, ...more })
const own = async (world: World, who: Person) => ({ params: { id: await world.source(who) } })

const syncing = async (world: World, who: Person) => {
  const ask = await own(world, who)
  await world.clientOf(who).sources.sync(ask.params.id)
  return ask
}

export const rows: Rows = {
  'GET /api/sources': { good: () => ({}) },
  'POST /api/sources': {
    good: (world) => ({ as: world.admin.actor, json: fields(world) }),
    errors: {
      FORBIDDEN: (world) => ({ json: fields(world) }),
      CONFLICT: async (world) => {
        const { id, actor } = await world.person()
        for (let count = 0; count < 100; count++)
          await world.clientOf(world.admin).call('POST', '/api/sources', fields(world, { owner: id }))
        return { as: actor, json: fields(world, { type: 'webdav', url: 'https://dav.example.org/' }) }
      },
    },
    withIds: [(world, who) => ({ json: fields(world, { owner: who.id }) })],
  },
  'POST /api/sources/test': {
    good: ({ admin }) => ({ as: admin.actor, json: folder }),
    errors: { FORBIDDEN: () => ({ json: folder }) },
  },
  'GET /api/sources/:id': { good: own },
  'PUT /api/sources/:id': {
    good: async (world, who) => ({ ...(await own(world, who)), json: { name: world.word(), file_patterns: ['*.pdf'] } }),
    errors: { FORBIDDEN: async (world, who) => ({ ...(await own(world, who)), json: { url: '/etc' } }) },
  },
  'DELETE /api/sources/:id': {
    good: async (world, who) => ({ ...(await own(world, who)), query: { documents: 'delete' } }),
    errors: {
      RETENTION: async (world, who) => {
        const ask = await own(world, who)
        const id = await world.retained(who)
        await world.app.db.updateTable('documents').set({ source_id: ask.params.id }).where('id', '=', id).execute()
        return { ...ask, query: { documents: 'delete' } }
      },
    },
  },
  'POST /api/sources/:id/test': { good: own },
  'POST /api/sources/:id/sync': {
    good: async (world, who) => ({ ...(await own(world, who)), json: { full: true } }),
    errors: {
      SOURCE_SYNC_IN_PROGRESS: async (world, who) => ({ ...(await syncing(world, who)), json: {} }),
      CONFLICT: async (world, who) => {
        const ask = await own(world, who)
        await world.clientOf(who).sources.update(ask.params.id, { status: 'disabled' })
        return { ...ask, json: {} }
      },
    },
  },
  'POST /api/sources/:id/sync/plan': { good: async (world, who) => ({ ...(await own(world, who)), json: { max_files: 3 } }) },
  'GET /api/sources/:id/sync-status': { good: syncing },
  'GET /api/sources/:id/sync/status': { good: syncing },
  'POST /api/sources/:id/rollback': {
    good: async (world, who) => ({ ...(await own(world, who)), json: { before: '2026-01-01T00:00:00Z' } }),
    errors: {
      SOURCE_SYNC_IN_PROGRESS: async (world, who) => {
        const connect = async () => {
          throw new Busy('source', 'dms worker', null)
        }
        const app = { ...world.app, database: { ...world.app.database, connect } }
        return { ...(await own(world, who)), json: { before: '2026-01-01T00:00:00Z' }, app }
      },
    },
  },
  'POST /api/sources/:id/cancel': { good: syncing, errors: { CONFLICT: own } },
}
