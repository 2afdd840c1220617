/** Writes requests to the audit log before they are answered. */
import type { H3Event } from 'h3'
import type { App } from '../../app.ts'
import { type NewEntry, openAuditLog } from '../../audit/audit.ts'
import { shareNextRun } from '../../concurrency.ts'
import { AppError, type Code, codes } from '../../errors.ts'
import { type Route, scopeOf } from '../../http/route.ts'
import { isId } from '../../id.ts'
import * as users from '../../users/users.ts'
import { requestId } from './request-log.ts'

/** Fields whose values are logged. Of other fields, only the name is logged. */
const auditedFields = new Set(
  'username role disabled name scopes user type documents to max_views expires_at priority on_conflict dry_run on_duplicate permanent'.split(
    ' ',
  ),
)

/** Logged fields of routes of sources. Leaves out the username, a credential for another server. */
const auditedSourceFields: ReadonlySet<string> = new Set([...auditedFields].filter((name) => name !== 'username'))

/** Statuses of refusals that are logged. Others are mistakes in the request. */
const auditedStatuses = new Set([401, 403, 409, 410, 429])

const isRead = ({ method, access, shape }: Route): boolean => method === 'GET' || scopeOf(access, method, shape) === 'read'

/** Tells if requests of a route are logged: changes and logins. */
export const isAudited = (route: Route): boolean => route.shape.audit ?? (!isRead(route) || route.shape.hasSideEffects === true)

const loginRoutes = new Set(['POST /api/auth/login', 'GET /api/auth/oidc/callback', 'POST /api/auth/oidc/exchange'])
const linkGuessCodes = new Set<Code | null>(['SHARED_LINK_INVALID_PASSWORD', 'SHARED_LINK_NOT_FOUND'])
const isSharedLinkRoute = ({ path }: Route): boolean => path.startsWith('/api/public/shared/')

/** Tells if requests of a route need runAudited(): logged requests, and requests with guessable tokens of shared links. */
export const isWatched = (route: Route): boolean => isAudited(route) || isSharedLinkRoute(route)

/** Tells if a refusal is of a wrong credential. Expired or repeated requests and rate limits are not. */
function isGuess(route: Route, code: Code): boolean {
  if (isSharedLinkRoute(route)) return linkGuessCodes.has(code)
  return loginRoutes.has(`${route.method} ${route.path}`) && [401, 403].includes(codes[code][0])
}

export type RunAudited = (event: H3Event, route: Route, run: () => Promise<unknown>) => Promise<unknown>

/** Returns the function that runs watched routes. It returns or throws their result. */
export function openAudit(app: App): RunAudited {
  const write = batchWrites(openAuditLog(app))
  const log = async (event: H3Event, route: Route, outcome: NewEntry['outcome'], code: Code | null): Promise<void> => {
    if (isAudited(route) && event.req.method !== 'HEAD') await write(await buildEntry(app, event, route, outcome, code))
  }
  const notLogged = (cause: unknown): void => app.log.error({ err: cause }, 'not in the audit log')
  const refused = async (event: H3Event, route: Route, code: Code, isAudited: boolean): Promise<void> => {
    // The filter of fail2ban in deploy/ matches this line.
    if (isGuess(route, code) && !event.context.isLocal)
      app.log.warn({ ip: event.context.ip ?? '', code, request_id: requestId(event) }, 'sign-in refused')
    if (isAudited) await log(event, route, 'refused', code)
  }
  return async (event, route, run) => {
    let answer: unknown
    try {
      answer = await run()
    } catch (error) {
      const code = error instanceof AppError ? error.code : 'INTERNAL_ERROR'
      const { status = 500 } = error as { status?: number }
      // Nothing was tried, and anybody can send a flood of them.
      if (error instanceof AppError && 'overload' in error.details) throw error
      // A failure of the log does not replace the original error.
      if (status >= 500) await log(event, route, 'failed', code).catch(notLogged)
      else await refused(event, route, code, auditedStatuses.has(status))
      throw error
    }
    const { refusal } = event.context
    if (answer instanceof Response && answer.status === 304) return answer
    if (refusal) await refused(event, route, refusal, true)
    // Downloads continue while the database is read-only.
    else
      await log(event, route, 'ok', null).catch(async (error) => {
        if (isRead(route)) return notLogged(error)
        // The answer is not sent: nobody reads its file, and it needs no memory.
        event.context.reservation?.release()
        if (answer instanceof Response) await answer.body?.cancel()
        throw error
      })
    return answer
  }
}

async function buildEntry(app: App, event: H3Event, route: Route, outcome: NewEntry['outcome'], code: Code | null): Promise<NewEntry> {
  const { actor, input, params = {}, ip = '' } = event.context
  const fieldsOfRoute = route.path.startsWith('/api/sources') ? auditedSourceFields : auditedFields
  // Values of anonymous requests are not logged: users type passwords into wrong fields.
  const loggedFields: ReadonlySet<string> = actor ? fieldsOfRoute : new Set()
  const fields = redactFields(input, loggedFields)
  const query = redactFields(Object.fromEntries(event.url.searchParams), loggedFields)
  const who = actor ?? (isClaim(route, code) ? await findClaimedUser(app, input) : undefined)
  return {
    at: app.now(),
    actor_id: who?.id ?? null,
    actor: who?.username ?? 'anonymous',
    via: actor?.via ?? 'api',
    ip,
    action: `${route.method} ${route.path}`,
    target: [...Object.entries(params).map(target), ...documentIdsOf(event).map((id) => `document_id=${id}`)].join(' '),
    outcome,
    code,
    details: { ...(fields ? { fields } : {}), ...(query ? { query } : {}), ...event.context.auditDetails },
    request_id: requestId(event),
  }
}

/** Returns whether an anonymous request comes from the user it names. A refused registration does not: somebody else has that name already. */
const isClaim = ({ method, path }: Route, code: Code | null): boolean => code === null || loginRoutes.has(`${method} ${path}`)

/** Returns the user named in a login or registration, if it exists. */
async function findClaimedUser(app: App, input: unknown): Promise<{ id: string; username: string } | undefined> {
  const name = (input as { username?: unknown; password?: unknown } | undefined)?.username
  return typeof name === 'string' && 'password' in (input as object) ? users.findByIdentifier(app.db, name) : undefined
}

/** Maximum number of documents that an entry names. */
const maxDocumentIds = 1000

/** Returns the documents of a request: set by its handler, else in the body of a signed-in caller. */
function documentIdsOf({ context: { actor, documentIds, input } }: H3Event): readonly string[] {
  const { document_id, document_ids } = (input ?? {}) as { document_id?: unknown; document_ids?: unknown }
  const named = actor ? [document_id, document_ids].flat() : []
  return (documentIds ?? named.filter((id) => typeof id === 'string' && isId(id))).slice(0, maxDocumentIds) as string[]
}

/** Returns a path parameter for the log. The token of a shared link is a credential and is cut to a prefix. */
const target = ([name, value]: [string, string]): string => `${name}=${name === 'token' ? `${value.slice(0, 6)}…` : value.slice(0, 200)}`

function redactFields(input: unknown, loggedFields: ReadonlySet<string>): Record<string, unknown> | null {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return null
  const fields = Object.entries(input).filter(([, value]) => value !== undefined)
  if (fields.length === 0) return null
  return Object.fromEntries(fields.slice(0, 50).map(([name, value]) => [name.slice(0, 100), loggedFields.has(name) ? shorten(value) : '…']))
}

const shorten = (value: unknown): unknown => {
  const text = JSON.stringify(value)
  return text.length <= 200 ? value : `${text.slice(0, 200)}…`
}

/** Batches items that arrive during a write into the next one. The log is a hash chain, which is appended to by one writer at a time. */
function batchWrites<T>(write: (items: T[]) => Promise<void>): (item: T) => Promise<void> {
  let waiting: T[] = []
  const writeWaiting = shareNextRun(() => {
    const items = waiting
    waiting = []
    return write(items)
  })
  return (item) => {
    waiting.push(item)
    return writeWaiting()
  }
}
