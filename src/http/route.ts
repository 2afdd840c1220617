/** A route says on its own line who may call it, what goes in and what comes out; documentation and tests read the same line. */
import type { H3Event } from 'h3'
import type { z } from 'zod'
import { type Actor, isAdmin, type Scope } from '../actor.ts'
import { AppError, type Code } from '../errors.ts'
import type { Claims } from '../ports/identity-provider.ts'
import { isId, parseInput, readJson, readJsonOrForm, readQuery } from './input.ts'

declare module 'h3' {
  interface H3EventContext {
    actor?: Actor
    /** the token that the actor came with */
    session?: Session
    requestId?: string
    /** of the client, after trusted proxies */
    ip?: string
    startedAt?: number
    /** path of the route that was found, with `:name` for parameters */
    route?: string
    /** when that route goes away, where that is known */
    sunset?: Date | undefined
    /** for the answer, names in lower case; `event.res.headers` does the same, five times as slowly */
    headers?: Record<string, string>
    /** the answer has what every answer carries */
    isComplete?: boolean
    /** what the answer says went wrong */
    failure?: Code
    /** what was refused in an answer that is none of a failure */
    refusal?: Code
    /** what came in as a body, checked */
    input?: unknown
    /** what the audit log holds of the request besides its fields */
    auditDetails?: Record<string, unknown>
    /** memory set aside for the answer (server/answer-budget.ts) */
    reservation?: { resize(bytes: number): void; grow(bytes: number): Promise<void>; release(): void }
    /** asked from this very process, by whoever has the machine: no limits on calls */
    isLocal?: boolean
    /** what this client is answered instead of the error body */
    explain?: (failure: AppError) => Response
  }
}

/** The token that somebody came with, as far as it tells whether it is still good. */
export type Session = Pick<Claims, 'sub' | 'jti' | 'exp' | 'ver'>

export type Access = 'anyone' | 'user' | 'admin'
export type Method = 'GET' | 'POST' | 'PUT' | 'DELETE'

export interface Shape<Query extends z.ZodType, Body extends z.ZodType> {
  /** One line for the API documentation. */
  summary: string
  /** Paragraph for the API documentation. */
  description?: string
  query?: Query
  body?: Body
  /** bytes that a JSON body may have here, where that is not what all routes have: `limits.max_body_size`, or `max_body_size_anonymous` */
  maxBodyBytes?: number
  /** the body may also come as a form of a page sends it */
  acceptsForm?: boolean
  /** request headers that it reads besides those of all routes, as documentation: what each is for */
  headers?: Readonly<Record<string, string>>
  /** path parameters that are ids, and what a malformed one answers */
  ids?: Readonly<Record<string, Code>>
  /** of the good answer; default 200, 204 without `answer` */
  status?: number
  answer?: z.ZodType
  /** good answers of other statuses */
  otherAnswers?: Readonly<Record<number, z.ZodType>>
  /** the answer may have megabytes: it waits until earlier ones of the same caller are taken */
  isLarge?: boolean
  /** media types of an answer that is not JSON */
  produces?: readonly string[]
  /** a multipart body, as documentation: the fields besides files, and the field that files go into */
  form?: { fields: z.ZodType; file: string; many: boolean }
  /** what an API token needs here, where method and door do not tell; `session`: no API token will do */
  scope?: Scope | 'session'
  /** an API token needs `read` as well: what the route makes lets others read */
  needsRead?: boolean
  /** whether it goes into the audit log, where method and scope do not tell */
  audit?: boolean
  /** marks the route as deprecated, with the day it goes away */
  sunset?: Date
  /** codes besides those that its door, ids, query and body can have anyway */
  errors?: readonly Code[]
}

export interface Call<Query extends z.ZodType = z.ZodType, Body extends z.ZodType = z.ZodType> {
  event: H3Event
  query: z.output<Query>
  body: z.output<Body>
  param(name: string): string
  ip: string
}

type WithActor = { actor: Actor }

/** Bytes that a JSON body may have. */
export interface BodyLimits {
  /** no route passes this one */
  max_request_size: number
  max_body_size: number
  /** of callers who are not signed in */
  max_body_size_anonymous: number
}

export interface Route {
  access: Access
  method: Method
  /** with `:name` for parameters */
  path: string
  shape: Shape<z.ZodType, z.ZodType>
  handle(event: H3Event, limits: BodyLimits): Promise<unknown>
}

type Spec = `${Method} /${string}`
type Answer = unknown | Promise<unknown>

/** A route for everybody; `actor` is there where somebody is signed in. */
export const anyone = <Query extends z.ZodType, Body extends z.ZodType>(
  spec: Spec,
  shape: Shape<Query, Body>,
  run: (call: Call<Query, Body> & Partial<WithActor>) => Answer,
): Route => route('anyone', spec, shape, (call) => run({ ...call, actor: call.event.context.actor }))

/** A route for whoever is signed in. */
export const user = <Query extends z.ZodType, Body extends z.ZodType>(
  spec: Spec,
  shape: Shape<Query, Body>,
  run: (call: Call<Query, Body> & WithActor) => Answer,
): Route => route('user', spec, shape, (call) => run({ ...call, actor: requireActor(call.event) }), requireActor)

/** A route for admins. */
export const admin = <Query extends z.ZodType, Body extends z.ZodType>(
  spec: Spec,
  shape: Shape<Query, Body>,
  run: (call: Call<Query, Body> & WithActor) => Answer,
): Route => route('admin', spec, shape, (call) => run({ ...call, actor: requireAdmin(call.event) }), requireAdmin)

function route<Query extends z.ZodType, Body extends z.ZodType>(
  door: Access,
  spec: Spec,
  shape: Shape<Query, Body>,
  run: (call: Call<Query, Body>) => Answer,
  checkAccess: (event: H3Event) => unknown = () => {},
): Route {
  const [method, path] = spec.split(' ') as [Method, string]
  const ids = Object.entries(shape.ids ?? {})
  const scope = scopeOf(door, method, shape)
  return {
    access: door,
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
        body: (shape.body ? parseInput(shape.body, await readBody(event, shape, limits)) : undefined) as z.output<Body>,
        param: (name) => decodeURIComponent(params[name] ?? ''),
        ip: event.context.ip ?? '127.0.0.1',
      }
      event.context.input = call.body
      const answer = await run(call)
      if (scopes && !scopes.includes('read') && hidesAnswer(door, method, shape)) {
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
  const isKnown = context.actor !== undefined || context.isLocal === true
  return Math.min(limits.max_request_size, isKnown ? (maxBodyBytes ?? limits.max_body_size) : limits.max_body_size_anonymous)
}

/** What an API token has to allow for a route; null: nothing, as the route is everybody's. */
export function scopeOf(door: Access, method: Method, { scope }: Pick<Shape<z.ZodType, z.ZodType>, 'scope'>): Scope | 'session' | null {
  if (scope) return scope
  if (door === 'anyone') return null
  if (door === 'admin') return 'admin'
  return method === 'GET' ? 'read' : 'write'
}

/**
 * Whether a route answers API tokens without `read` with 204 and no body: its answer shows what was stored before. What a request itself
 * created (201) is shown to everybody.
 */
export const hidesAnswer = (door: Access, method: Method, shape: Shape<z.ZodType, z.ZodType>): boolean =>
  shape.answer !== undefined && shape.status !== 201 && method !== 'GET' && scopeOf(door, method, shape) === 'write'

function requireScope(scopes: readonly Scope[], needed: Scope | 'session' | null): void {
  if (needed === null || scopes.some((scope) => scope === needed || (scope === 'write' && needed === 'upload'))) return
  const why = needed === 'session' ? 'An API token cannot do that: sign in.' : `This API token lacks the scope "${needed}".`
  throw new AppError('FORBIDDEN', { scope: needed }, why)
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
