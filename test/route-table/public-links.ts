import type { Making, Rows, World } from '../support/route-table.ts'

const hour = 3_600_000

const to =
  (terms: object = {}, json?: object): Making<{ params: { token: string }; json?: object }> =>
  async (world, who) => ({ params: { token: (await world.link(who, terms)).token }, ...(json ? { json } : {}) })

const states = (json?: object) => ({
  SHARED_LINK_NOT_FOUND: () => ({ params: { token: 'x'.repeat(43) }, ...(json ? { json } : {}) }),
  SHARED_LINK_REVOKED: async (world: World) => {
    const { id, token } = await world.link(world.ada)
    await world.asAda.sharedLinks.revoke(id)
    return { params: { token }, ...(json ? { json } : {}) }
  },
  SHARED_LINK_EXPIRED: async (world: World) => {
    const expires_at = new Date(world.app.now().getTime() + hour).toISOString()
    const { token } = await world.link(world.ada, { expires_at })
    await world.later(hour + 60_000)
    return { params: { token }, ...(json ? { json } : {}) }
  },
  SHARED_LINK_MAX_VIEWS: async (world: World) => {
    const { token } = await world.link(world.ada, { max_views: 1 })
    await world.asStranger.publicLinks.download(token)
    return { params: { token }, ...(json ? { json } : {}) }
  },
})

/** Distinguished from another route of this kind by the address of the client. */
const spent = (path: string, times: number, ip: string): Making<object> => {
  return async (world, who) => {
    const ask = { ...(await to({}, {})(world, who)), ip }
    await world.repeat(times, `POST /api/public/shared/:token/${path}`, ask)
    return ask
  }
}

const fetched = (path: string, ip: string) => ({
  good: to({ password: 'open' }, { password: 'open' }),
  errors: {
    ...states({}),
    SHARED_LINK_PASSWORD_REQUIRED: to({ password: 'open' }, {}),
    SHARED_LINK_INVALID_PASSWORD: to({ password: 'open' }, { password: 'shut' }),
    SHARED_LINK_RATE_LIMITED: spent(path, 60, ip),
    RANGE_NOT_SATISFIABLE: (async (world, who) => ({
      ...(await to({}, {})(world, who)),
      headers: { range: 'bytes=100000-' },
    })) as Making<object>,
    PRECONDITION_FAILED: (async (world, who) => ({
      ...(await to({}, {})(world, who)),
      headers: { 'if-match': '"old"' },
    })) as Making<object>,
  },
})

export const rows: Rows = {
  'GET /api/public/shared/:token': { good: to(), errors: states() },
  'POST /api/public/shared/:token/verify': {
    good: to({ password: 'open' }, { password: 'open' }),
    errors: { ...states({}), SHARED_LINK_RATE_LIMITED: spent('verify', 10, '203.0.113.2') },
  },
  'POST /api/public/shared/:token/download': fetched('download', '203.0.113.3'),
  'POST /api/public/shared/:token/view': fetched('view', '203.0.113.4'),
}
