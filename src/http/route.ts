/** Route definitions: access, input and output of an endpoint. The API description and tests are generated from them. */
import type { H3Event } from 'h3'
import type { z } from 'zod'
import { type Actor, isAdmin, type Scope } from '../actor.ts'
import { AppError, type Code } from '../errors.ts'
import { isId } from '../id.ts'
import type { Claims } from '../ports/identity-provider.ts'
import { parseInput, readJson, readJsonOrForm, readQuery } from './input.ts'

/** Claims that tell if a token is still valid. */
export type Session = Pick<Claims, 'sub' | 'jti' | 'exp' | 'ver'>

export type Access = 'anyone' | 'user' | 'admin'
export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

/** Returns the value of `Allow` for the methods of a path. HEAD goes with GET. */
export const allowedMethods = (methods: Iterable<string>): string =>
  [...methods].flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ')

export interface Shape<Query extends z.ZodType, Body extends z.ZodType> {
  /** One line for the API documentation. */
  summary: string
  /** Paragraph for the API documentation. */
  description?: string
  query?: Query
  body?: Body
  /** Maximum size of a JSON body of signed-in callers. Default: `limits.max_body_size`. */
  maxBodyBytes?: number
  /** The body may also be application/x-www-form-urlencoded. */
  acceptsForm?: boolean
  /** Descriptions of the request headers of this route, for the API documentation. */
  headers?: Readonly<Record<string, string>>
  /** Path parameters that are ids, with the error code for malformed ones. */
  ids?: Readonly<Record<string, Code>>
  /** Status of success. Default: 200, or 204 without `answer`. */
  status?: number
  answer?: z.ZodType
  /** Successful answers with other statuses. */
  otherAnswers?: Readonly<Record<number, z.ZodType>>
  /** Cost in calls (server/http/call-limit.ts). Default: 1. */
  cost?: number
  /** The answer is searched for. Few searches of one user run at once (server/http/turns.ts). */
  isSearch?: boolean
  /** Takes a turn for each step of its work (turnOf()), and none for itself. */
  takesTurns?: boolean
  /** The answer may be database.max_lag old (server/replica-reads.ts). Never set for rights. */
  readsReplica?: boolean
  /** The answer may have megabytes. The request waits until the caller has read earlier answers. */
  isLarge?: boolean
  /** The answer may take minutes. White space is sent meanwhile. Errors after five seconds close the connection without an answer. */
  isLong?: boolean
  /** Without a query string, the answer is read in the order of an index on a pipelined connection, which takes none from other callers. */
  isPipelined?: boolean
  /** Media types of answers other than JSON. */
  produces?: readonly string[]
  /** Fields and file field of a multipart body, for the API documentation. */
  form?: { fields: z.ZodType; file: string; many: boolean }
  /** Scope that an API token needs. Default: by method and access. `session` excludes API tokens. */
  scope?: Scope | 'session'
  /** The 201 answer has stored data, not only data of the request. */
  answersStored?: boolean
  /** API tokens also need the scope `read`, because the route lets others read. */
  needsRead?: boolean
  /** Writes requests to the audit log or not. Default: by method, scope and side effects. */
  audit?: boolean
  /** A GET that changes something. HEAD answers 200 and changes nothing. */
  hasSideEffects?: boolean
  /** Removal date of a deprecated route. */
  sunset?: Date
  /** Error codes beyond those implied by access, ids, query and body. */
  errors?: readonly Code[]
}

export interface Call<Query extends z.ZodType = z.ZodType, Body extends z.ZodType = z.ZodType> {
  event: H3Event
  query: z.output<Query>
  body: z.output<Body>
  param(name: string): string
  ip: string
}

/** A call of a signed-in user. */
export interface UserCall<Query extends z.ZodType = z.ZodType, Body extends z.ZodType = z.ZodType> extends Call<Query, Body> {
  actor: Actor
}

/** Limits of JSON bodies, in bytes. */
export interface BodyLimits {
  /** Maximum for all routes. */
  max_request_size: number
  max_body_size: number
  /** Maximum for anonymous callers. */
  max_body_size_anonymous: number
}

export interface Route {
  access: Access
  method: Method
  /** Path with `:name` for parameters. */
  path: string
  shape: Shape<z.ZodType, z.ZodType>
  handle(event: H3Event, limits: BodyLimits): Promise<unknown>
}

type Spec = `${Method} /${string}`

/** Defines a public route. `actor` is set for signed-in callers. */
export const anyone = <Query extends z.ZodType, Body extends z.ZodType>(
  spec: Spec,
  shape: Shape<Query, Body>,
  run: (call: Call<Query, Body> & { actor?: Actor | undefined }) => unknown,
): Route => route('anyone', spec, shape, (call) => run({ ...call, actor: call.event.context.actor }))

/** Defines a route for signed-in users. */
export const user = <Query extends z.ZodType, Body extends z.ZodType>(
  spec: Spec,
  shape: Shape<Query, Body>,
  run: (call: UserCall<Query, Body>) => unknown,
): Route => route('user', spec, shape, (call) => run({ ...call, actor: requireActor(call.event) }), requireActor)

/** Defines a route for admins. */
export const admin = <Query extends z.ZodType, Body extends z.ZodType>(
  spec: Spec,
  shape: Shape<Query, Body>,
  run: (call: UserCall<Query, Body>) => unknown,
): Route => route('admin', spec, shape, (call) => run({ ...call, actor: requireAdmin(call.event) }), requireAdmin)

function route<Query extends z.ZodType, Body extends z.ZodType>(
  access: Access,
  spec: Spec,
  shape: Shape<Query, Body>,
  run: (call: Call<Query, Body>) => unknown,
  checkAccess: (event: H3Event) => unknown = () => {},
): Route {
  const [method, path] = spec.split(' ') as [Method, string]
  const ids = Object.entries(shape.ids ?? {})
  const scope = scopeOf(access, method, shape)
  return {
    access,
    method,
    path,
    shape,
    async handle(event, limits) {
      checkAccess(event)
      const scopes = event.context.actor?.scopes
      if (scopes) requireScope(scopes, scope)
      if (scopes && shape.needsRead) requireScope(scopes, 'read')
      const params = event.context.params ?? {}
      for (const [name, code] of ids) if (!isId(params[name] ?? '')) throw new AppError(code)
      const call: Call<Query, Body> = {
        event,
        query: (shape.query ? parseInput(shape.query, readQuery(event)) : undefined) as z.output<Query>,
        // A read that the replica failed to answer is repeated.
        body: (event.context.input ??
          (shape.body ? parseInput(shape.body, await readBody(event, shape, limits)) : undefined)) as z.output<Body>,
        param: (name) => (shape.ids && name in shape.ids ? (params[name] ?? '').toLowerCase() : decodeURIComponent(params[name] ?? '')),
        ip: event.context.ip ?? '127.0.0.1',
      }
      event.context.input = call.body
      const answer = await run(call)
      if (scopes && !scopes.includes('read') && hidesAnswer(access, method, shape)) {
        event.res.status = 204
        event.context.headers = {}
        return undefined
      }
      event.res.status ??= shape.status ?? (answer === undefined ? 204 : 200)
      return answer
    },
  }
}

const readBody = (event: H3Event, shape: Shape<z.ZodType, z.ZodType>, limits: BodyLimits): Promise<unknown> =>
  (shape.acceptsForm ? readJsonOrForm : readJson)(event, maxBytesOf(event, shape, limits))

function maxBytesOf({ context }: H3Event, { maxBodyBytes }: Shape<z.ZodType, z.ZodType>, limits: BodyLimits): number {
  const isTrusted = context.actor !== undefined || context.isLocal === true
  return Math.min(limits.max_request_size, isTrusted ? (maxBodyBytes ?? limits.max_body_size) : limits.max_body_size_anonymous)
}

/** Returns the scope that an API token needs for a route; null for public routes. */
export function scopeOf(access: Access, method: Method, { scope }: Pick<Shape<z.ZodType, z.ZodType>, 'scope'>): Scope | 'session' | null {
  if (scope) return scope
  if (access === 'anyone') return null
  if (access === 'admin') return 'admin'
  return method === 'GET' ? 'read' : 'write'
}

/**
 * Tells if a route sends 204 without a body to API tokens that lack the scope `read`, because its answer would show stored data. A 201 shows only
 * what the request contained, unless `answersStored` is set.
 */
export const hidesAnswer = (access: Access, method: Method, shape: Shape<z.ZodType, z.ZodType>): boolean =>
  shape.answer !== undefined &&
  (shape.status !== 201 || shape.answersStored === true) &&
  method !== 'GET' &&
  scopeOf(access, method, shape) === 'write'

function requireScope(scopes: readonly Scope[], needed: Scope | 'session' | null): void {
  if (needed === null || scopes.some((scope) => scope === needed || (scope === 'write' && needed === 'upload'))) return
  const message = needed === 'session' ? 'API tokens cannot do this: log in.' : `This API token lacks the scope "${needed}".`
  throw new AppError('FORBIDDEN', { scope: needed }, message)
}

function requireActor(event: H3Event): Actor {
  if (!event.context.actor) throw new AppError('UNAUTHORIZED')
  return event.context.actor
}

function requireAdmin(event: H3Event): Actor {
  const actor = requireActor(event)
  if (!isAdmin(actor)) throw new AppError('FORBIDDEN')
  return actor
}
