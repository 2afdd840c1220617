/** Puts what is done through the API into the audit log, before whoever did it is answered. */
import type { H3Event } from 'h3'
import type { App } from '../../app.ts'
import { append, type NewEntry } from '../../audit/audit.ts'
import { AppError, type Code, codes } from '../../errors.ts'
import { type Route, scopeOf } from '../../http/route.ts'
import * as users from '../../users/users.ts'
import { requestId } from './request-id.ts'

/** Fields of requests whose values are told; of all others it is told that they were there. */
const auditedFields = new Set(
  'username role disabled name scopes user type documents to max_views expires_at priority on_conflict dry_run on_duplicate'.split(' '),
)

/** There a username is half of what opens another server. */
const auditedSourceFields: ReadonlySet<string> = new Set([...auditedFields].filter((name) => name !== 'username'))
const none: ReadonlySet<string> = new Set()

/** A request that is refused for anything else was a mistake, not an act. */
const auditedStatuses = new Set([401, 403, 409, 410, 429])

/** Whether requests of that route are acts: what changes something, and every way to sign in. */
export const isAudited = ({ method, access: door, shape }: Route): boolean =>
  shape.audit ?? (method !== 'GET' && scopeOf(door, method, shape) !== 'read')

const loginRoutes = new Set(['POST /api/auth/login', 'GET /api/auth/oidc/callback', 'POST /api/auth/oidc/exchange'])
const linkGuessCodes = new Set<Code | null>(['SHARED_LINK_INVALID_PASSWORD', 'SHARED_LINK_NOT_FOUND'])
const isSharedLinkRoute = ({ path }: Route): boolean => path.startsWith('/api/public/shared/')

/** Whether requests of that route pass here: acts, and where the address of a shared link can be guessed. */
export const isWatched = (route: Route): boolean => isAudited(route) || isSharedLinkRoute(route)

/** Whether that answer was to a guess. Who comes too late, too often or twice has guessed nothing. */
function isGuess(route: Route, code: Code): boolean {
  if (isSharedLinkRoute(route)) return linkGuessCodes.has(code)
  return loginRoutes.has(`${route.method} ${route.path}`) && [401, 403].includes(codes[code][0])
}

export type RunAudited = (event: H3Event, route: Route, run: () => Promise<unknown>) => Promise<unknown>

/** Runs routes that are watched; answers, or throws, what they do. */
export function openAudit(app: App): RunAudited {
  const write = batchWrites((entries: NewEntry[]) => append(app, entries))
  const tell = async (event: H3Event, route: Route, outcome: NewEntry['outcome'], code: Code | null): Promise<void> => {
    if (isAudited(route)) await write(await buildEntry(app, event, route, outcome, code))
  }
  const refused = async (event: H3Event, route: Route, code: Code, isAudited: boolean): Promise<void> => {
    // This very line is what fail2ban is told to look for.
    if (isGuess(route, code) && !event.context.isLocal)
      app.log.warn({ ip: event.context.ip ?? '', code, request_id: requestId(event) }, 'sign-in refused')
    if (isAudited) await tell(event, route, 'refused', code)
  }
  return async (event, route, run) => {
    let answer: unknown
    try {
      answer = await run()
    } catch (error) {
      const code = error instanceof AppError ? error.code : 'INTERNAL_ERROR'
      const { status = 500 } = error as { status?: number }
      // Whatever becomes of the log: what is answered is what went wrong first.
      if (status >= 500) await tell(event, route, 'failed', code).catch((cause) => app.log.error({ err: cause }, 'not in the audit log'))
      else await refused(event, route, code, auditedStatuses.has(status))
      throw error
    }
    const { refusal } = event.context
    await (refusal ? refused(event, route, refusal, true) : tell(event, route, 'ok', null))
    return answer
  }
}

async function buildEntry(app: App, event: H3Event, route: Route, outcome: NewEntry['outcome'], code: Code | null): Promise<NewEntry> {
  const { actor, input, params = {}, ip = '' } = event.context
  // Of what strangers send not even a name is kept: people type passwords into the wrong field.
  const known = actor ? (route.path.startsWith('/api/sources') ? auditedSourceFields : auditedFields) : none
  const fields = redactFields(input, known)
  const query = redactFields(Object.fromEntries(event.url.searchParams), known)
  const who = actor ?? (await findClaimedUser(app, input))
  return {
    at: app.now(),
    actor_id: who?.id ?? null,
    actor: who?.username ?? 'anonymous',
    via: actor?.via ?? 'api',
    ip,
    action: `${route.method} ${route.path}`,
    target: Object.entries(params).map(target).join(' '),
    outcome,
    code,
    details: { ...(fields ? { fields } : {}), ...(query ? { query } : {}), ...event.context.auditDetails },
    request_id: requestId(event),
  }
}

/** Who somebody said to be that did not get in, where there is such a user. */
async function findClaimedUser(app: App, input: unknown): Promise<{ id: string; username: string } | undefined> {
  const name = (input as { username?: unknown; password?: unknown } | undefined)?.username
  return typeof name === 'string' && 'password' in (input as object) ? users.findByIdentifier(app.db, name) : undefined
}

/** The token of a shared link is a credential: no more of it is told than tells one from the other. */
const target = ([name, value]: [string, string]): string => `${name}=${name === 'token' ? `${value.slice(0, 6)}…` : value.slice(0, 200)}`

function redactFields(input: unknown, known: ReadonlySet<string>): Record<string, unknown> | null {
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return null
  const fields = Object.entries(input).filter(([, value]) => value !== undefined)
  if (fields.length === 0) return null
  return Object.fromEntries(fields.slice(0, 50).map(([name, value]) => [name.slice(0, 100), known.has(name) ? shorten(value) : '…']))
}

/** At most a line. */
const shorten = (value: unknown): unknown => {
  const text = JSON.stringify(value)
  return text.length <= 200 ? value : `${text.slice(0, 200)}…`
}

/** One write at a time, each with all that came while the last one ran: the log is one chain, and would make everybody wait. */
function batchWrites<T>(write: (items: T[]) => Promise<void>): (item: T) => Promise<void> {
  let waiting: T[] = []
  let next: Promise<void> | null = null
  let running: Promise<void> = Promise.resolve()
  return (item) => {
    waiting.push(item)
    next ??= running.then(() => {
      const items = waiting
      waiting = []
      next = null
      const written = write(items)
      running = written.catch(() => {})
      return written
    })
    return next
  }
}
