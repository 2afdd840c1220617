/** Assembles the API: processing of every request, then one line per domain. */
import type { IncomingMessage } from 'node:http'
import { H3, type H3Event } from 'h3'
import { isAdmin } from '../../actor.ts'
import type { App } from '../../app.ts'
import { routes as audit } from '../../audit/routes.ts'
import { authenticateToken } from '../../auth/auth.ts'
import { routes as oidc } from '../../auth/oidc-routes.ts'
import { routes as auth } from '../../auth/routes.ts'
import { routes as comments } from '../../comments/routes.ts'
import { routes as pages } from '../../documents/pages/routes.ts'
import { routes as renditions } from '../../documents/renditions/routes.ts'
import { routes as documents } from '../../documents/routes.ts'
import { routes as trash } from '../../documents/trash/routes.ts'
import { routes as versions } from '../../documents/versions/routes.ts'
import { AppError } from '../../errors.ts'
import { routes as holds } from '../../holds/routes.ts'
import { findAmbiguity } from '../../http/ambiguous-request.ts'
import { clientNetwork } from '../../http/rate-limit.ts'
import { allowedMethods, type Method, type Route } from '../../http/route.ts'
import { routes as labels } from '../../labels/routes.ts'
import { routes as metrics } from '../../metrics/routes.ts'
import { routes as notifications } from '../../notifications/routes.ts'
import { routes as ocr } from '../../ocr/routes.ts'
import { routes as search } from '../../search/routes.ts'
import { routes as settings } from '../../settings/routes.ts'
import { routes as publicLinks } from '../../shared-links/public-routes.ts'
import { routes as sharedLinks } from '../../shared-links/routes.ts'
import { routes as sources } from '../../sources/routes.ts'
import { routes as tokens } from '../../tokens/routes.ts'
import { routes as users } from '../../users/routes.ts'
import { servePage } from '../../web/routes.ts'
import type { EventLoopWatch } from '../event-loop.ts'
import { routes as health } from '../health.ts'
import { routes as prometheus } from '../metrics.ts'
import { documentation } from '../openapi/routes.ts'
import type { ReplicaReads } from '../replica-reads.ts'
import { type Answers, openAnswers } from './answer.ts'
import { isWatched, openAudit, type RunAudited } from './audit-requests.ts'
import type { AuthCache } from './auth-cache.ts'
import { authenticate, clearAuthCache, recheckRights, refuseDeletedCaller } from './authenticate.ts'
import { openCallLimit } from './call-limit.ts'
import { openClientIp } from './client-ip.ts'
import { allowOrigin } from './cross-origin.ts'
import { errorAnswer } from './error-answers.ts'
import { keepOpen } from './keep-open.ts'
import { redactPath, requestId } from './request-log.ts'
import { openRecorder, type Recorder } from './request-metrics.ts'
import { openTurns, type RunInTurn } from './turns.ts'

export interface Assembly {
  /** Routes to serve. Default: all. */
  routes?: readonly Route[]
  /** Tells if the server is about to stop. */
  isDraining?: () => boolean
  /** Caches the user of each token. Default: one query per request. */
  authCache?: AuthCache
  /** Answers reads. Default: the primary answers all. */
  replica?: ReplicaReads | null
  /** Gets requests in progress. */
  eventLoop?: Pick<EventLoopWatch, 'onRequest' | 'onAnswer'>
  /** Counts answers. Default: a new recorder. */
  recorder?: Recorder
}

/** Returns all routes, in the order of the specification. */
export function allRoutes(app: App, isDraining = () => false, recorder = openRecorder()): Route[] {
  const routes: Route[] = [
    ...[
      auth,
      oidc,
      users,
      tokens,
      documents,
      pages,
      trash,
      versions,
      renditions,
      search,
      ocr,
      settings,
      sources,
      labels,
      holds,
      notifications,
      metrics,
      sharedLinks,
      publicLinks,
      comments,
      audit,
    ].flatMap((domain) => domain(app)),
    ...health(app, isDraining),
    ...prometheus(app, recorder),
    ...documentation(app, () => routes),
  ]
  return routes
}

/** Builds the server of an App, for `h3.request()` and for sockets. */
export function buildServer(
  app: App,
  { isDraining, authCache, replica, eventLoop, recorder = openRecorder(), routes: routesOption }: Assembly = {},
): H3 {
  const primary = routesOption ?? allRoutes(app, isDraining, recorder)
  const routes = replica ? replica.combine(primary, allRoutes) : primary
  const ipOf = openClientIp(app.config.server.trusted_proxies)
  const answers = openAnswers(app.config, recorder.addAnswerBytes)
  const origins = app.config.server.cors_origins
  const h3 = new H3({
    silent: true,
    onRequest(event) {
      recorder.onRequest()
      eventLoop?.onRequest(event)
      event.context.startedAt = performance.now()
      requestId(event)
    },
    onError: (error, event) => errorAnswer(error, event, app.log, app.now()),
    onResponse(response, event) {
      eventLoop?.onAnswer(event)
      if (!event.context.isComplete) answers.addHeaders(event, response)
      if (event.context.sunset) response.headers.set('deprecation', event.context.sunset.toUTCString())
      clearAuthCache(event, authCache)
      if (origins.length > 0) allowOrigin(response.headers, event, origins)
      // h3 refuses a path that cannot be decoded before onRequest.
      if (event.context.startedAt === undefined) recorder.onRequest()
      const { route, failure: code, startedAt = performance.now() } = event.context
      const duration = (performance.now() - startedAt) / 1000
      recorder.onAnswer({ method: event.req.method, route, status: response.status, duration, code })
      if (app.config.log.access) logAccess(app, event, response.status)
    },
  })
  const limitCalls = openCallLimit(app)
  const costs = new Map<string, number>(
    routes.flatMap(({ method, path, shape: { cost } }) =>
      cost === undefined ? [] : prefixedPaths(path).map((each) => [`${method} ${each}`, cost] as const),
    ),
  )
  /** Requests without a valid token cost a call each. */
  const costOf = ({ context, req }: H3Event): number => {
    if (!context.actor) return 1
    return costs.get(`${req.method === 'HEAD' ? 'GET' : req.method} ${context.matchedRoute?.route}`) ?? 1
  }
  const countCall = async (event: H3Event): Promise<void> => {
    const { actor, ip = '' } = event.context
    if (isCounted(event)) await limitCalls(actor ? `user:${actor.id}` : `ip:${clientNetwork(ip)}`, costOf(event))
  }
  h3.use(async (event) => {
    const { req, res } = event.runtime?.node ?? {}
    const ambiguity = req ? findAmbiguity(req as IncomingMessage) : null
    if (ambiguity) {
      res?.setHeader('connection', 'close')
      throw ambiguity
    }
    event.context.ip ??= ipOf(event)
    event.context.reserveFile ??= (bytes) => answers.reserveFile(event, bytes)
    event.context.recheckRights = () => recheckRights(app, event)
    // A preflight has no token, and needs none.
    if (event.req.method === 'OPTIONS') return
    try {
      await authenticate(app, event, authCache)
    } catch (refusal) {
      // Guesses of tokens count as calls.
      await countCall(event)
      throw refusal
    }
    await countCall(event)
  })
  h3.all('/ws', ({ url }) => {
    throw new AppError(url.pathname === '/ws' ? 'UPGRADE_REQUIRED' : 'NOT_FOUND')
  })
  if (app.config.server.web && routesOption === undefined)
    servePage(app, h3, (token, { context: { ip = '' } }) =>
      (authCache ? authCache.authenticate(token) : authenticateToken(app, token)).catch(async (refusal) => {
        await limitCalls(`ip:${clientNetwork(ip)}`, 1)
        throw refusal
      }),
    )
  const [runAudited, runInTurn] = [openAudit(app), openTurns()]
  for (const [path, methods] of byPath(routes)) {
    const handle = dispatch(path, methods, app, { answers, runAudited, runInTurn })
    for (const each of prefixedPaths(path)) h3.all(each, handle)
  }
  return h3
}

/** Returns the paths of a route: below /api also with /api/v1. */
const prefixedPaths = (path: string): string[] => (path.startsWith('/api/') ? [path, path.replace('/api/', '/api/v1/')] : [path])

/** Tells if a request counts as a call: not preflights, admins, and commands on this machine. */
const isCounted = ({ context, req, url }: H3Event): boolean =>
  !context.isLocal && !(context.actor && isAdmin(context.actor)) && req.method !== 'OPTIONS' && url.pathname.startsWith('/api/')

function byPath(routes: readonly Route[]): Map<string, Map<Method, Route>> {
  const paths = new Map<string, Map<Method, Route>>()
  for (const route of routes) {
    const methods = paths.get(route.path) ?? new Map<Method, Route>()
    paths.set(route.path, methods.set(route.method, route))
  }
  return paths
}

function dispatch(
  path: string,
  methods: Map<Method, Route>,
  app: App,
  { answers, runAudited, runInTurn }: { answers: Answers; runAudited: RunAudited; runInTurn: RunInTurn },
) {
  const { limits, server } = app.config
  const allow = allowedMethods(methods.keys())
  const watched = new Set([...methods.values()].filter(isWatched))
  return async (event: H3Event) => {
    event.context.route = path
    if (event.req.method === 'OPTIONS') {
      const headers = new Headers({ allow })
      allowOrigin(headers, event, server.cors_origins, allow)
      return new Response(null, { status: 204, headers })
    }
    const method = event.req.method === 'HEAD' ? 'GET' : (event.req.method as Method)
    const route = methods.get(method)
    if (!route) throw new AppError('METHOD_NOT_ALLOWED', { allow })
    event.context.sunset = route.shape.sunset
    if (event.req.method === 'HEAD' && route.shape.hasSideEffects) return new Response(null)
    const handle = () => refuseDeletedCaller(app, event, () => route.handle(event, limits))
    const isPipelined = route.shape.isPipelined === true && event.url.search === ''
    const run = route.shape.isLarge ? () => answers.readLarge(event, handle, isPipelined) : handle
    const running = runInTurn(event, route, () => (watched.has(route) ? runAudited(event, route, run) : run()))
    const answer = await keepOpen(running, event, route, app.log)
    if (answer !== undefined && !(answer instanceof Response)) return answers.toResponse(event, answer as object)
    event.context.reservation?.release()
    return answer ?? ''
  }
}

function logAccess(app: App, event: H3Event, status: number): void {
  const { requestId: request_id, ip, actor, startedAt = performance.now() } = event.context
  const duration_ms = Math.round((performance.now() - startedAt) * 10) / 10
  app.log.info(
    { request_id, method: event.req.method, path: redactPath(event), status, duration_ms, ip, user_id: actor?.id ?? undefined },
    'request',
  )
}
