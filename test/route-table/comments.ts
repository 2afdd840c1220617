import { noId, type Person, type Rows, type World } from '../support/route-table.ts'

const path = '/api/comments/documents/:document_id/comments'

const on = async (world: World, who: Person) => ({ params: { document_id: await world.document(who) } })
const own = async (world: World, who: Person) => {
  const document_id = await world.document(who)
  return { params: { document_id, comment_id: await world.comment(who, document_id) } }
}
const wrongContents = (make: typeof on) => ({
  COMMENT_CONTENT_EMPTY: async (world: World, who: Person) => ({ ...(await make(world, who)), json: { content: ' \n' } }),
  COMMENT_CONTENT_TOO_LONG: async (world: World, who: Person) => ({ ...(await make(world, who)), json: { content: 'x'.repeat(10_001) } }),
})

/** A user who sees the document and did not write the comment. */
const ofAnother = async (world: World, who: Person) => {
  const document_id = await world.document(who)
  return { params: { document_id, comment_id: await world.comment(world.admin, document_id) } }
}

export const rows: Rows = {
  [`GET ${path}`]: { good: on },
  [`POST ${path}`]: {
    good: async (world, who) => {
      const { params } = await own(world, who)
      return { params: { document_id: params.document_id }, json: { content: world.word(), parent_id: params.comment_id } }
    },
    errors: {
      ...wrongContents(on),
      COMMENT_NOT_FOUND: async (world, who) => ({ ...(await on(world, who)), json: { content: 'yes', parent_id: noId() } }),
      COMMENT_NESTING_TOO_DEEP: async (world, who) => {
        const { params } = await own(world, who)
        const { document_id } = params
        const { id } = await world.asAda.comments.create(document_id, { content: 'first', parent_id: params.comment_id })
        return { params: { document_id }, json: { content: 'second', parent_id: id } }
      },
      COMMENT_RATE_LIMITED: async (world, who) => {
        const { config } = world.app
        const app = world.but({ config: { ...config, limits: { ...config.limits, comments_per_minute: 1 } } })
        const ask = { ...(await on(world, who)), json: { content: 'again' }, app }
        await world.repeat(1, `POST ${path}`, ask)
        return ask
      },
      FORBIDDEN: async (world, who) => ({ ...(await on(world, who)), as: world.operator, json: { content: 'by nobody' } }),
    },
  },
  [`GET ${path}/count`]: { good: on },
  [`GET ${path}/:comment_id/replies`]: { good: async (world, who) => ({ ...(await own(world, who)), query: { limit: '5' } }) },
  [`PUT ${path}/:comment_id`]: {
    good: async (world, who) => ({ ...(await own(world, who)), json: { content: world.word() } }),
    errors: {
      ...wrongContents(own),
      COMMENT_PERMISSION_DENIED: async (world, who) => ({ ...(await ofAnother(world, who)), json: { content: 'mine now' } }),
    },
  },
  [`DELETE ${path}/:comment_id`]: { good: own, errors: { COMMENT_PERMISSION_DENIED: ofAnother } },
}
