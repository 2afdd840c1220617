/** Types of the route table (test/route-table/), and the world that its requests are sent to. */
import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import { type Actor, operator } from '../../src/actor.ts'
import type { App } from '../../src/app.ts'
import { type Client, createClient } from '../../src/client/client.ts'
import { multipart } from '../../src/client/http/multipart.ts'
import { localTransport } from '../../src/client/local.ts'
import type { Code } from '../../src/errors.ts'
import type { Route } from '../../src/http/route.ts'
import { openLog } from '../../src/log/log.ts'
import { notify } from '../../src/notifications/notifications.ts'
import type { Identity, IdentityProvider } from '../../src/ports/identity-provider.ts'
import { allRoutes, buildServer } from '../../src/server/http/assemble.ts'
import { startApp, upload } from './app.ts'
import { conforming } from './conformance.ts'
import { tokenFor } from './servers/server.ts'

/** A folder of a source with one file. Only this test writes to it, so a sync always finds the same. */
export const localFolder = mkdtempSync(join(tmpdir(), 'dms-local-folder-'))
writeFileSync(join(localFolder, 'note.txt'), 'a note')
process.on('exit', () => rmSync(localFolder, { recursive: true, force: true }))

/** One request, without its route. */
export interface RouteRequest {
  /** null: nobody; undefined: the user that the request is made for */
  as?: Actor | null
  /** values of path parameters */
  params?: Record<string, string>
  query?: Record<string, string>
  json?: unknown
  /** a multipart body */
  form?: { fields?: Record<string, string>; field: string; files: { filename: string; bytes: string }[] }
  /** a raw body instead of both */
  raw?: string
  headers?: Record<string, string>
  /** address of the client; default: a new one */
  ip?: string
  /** App that answers it, if it is not that of the world */
  app?: App
}

export type Making<Result> = (world: World, who: Person) => Result | Promise<Result>

export interface Row {
  /** a successful request with new objects of `who`; on public routes `who` owns the objects */
  good: Making<RouteRequest>
  /** requests that fail with the codes in `errors` of the route */
  errors?: { readonly [C in Code]?: Making<RouteRequest> }
  /** requests that are answered with the statuses in `also` of the route */
  also?: Readonly<Record<number, Making<RouteRequest>>>
  /** requests with all possible ids that `good` leaves out */
  withIds?: readonly Making<RouteRequest>[]
  /** answer to the good request of another user, if it is not the code of the first id in the path */
  others?: Code
  /** places of ids of objects that are visible to everybody, as `params.id` or `json.labels` */
  open?: readonly string[]
}

/** By method and path, as `GET /api/labels`. */
export type Rows = Readonly<Record<string, Row>>

export interface Person {
  id: string
  username: string
  token_version: number
  actor: Actor
}

export const password = 'correct horse 7 battery!'

export type World = Awaited<ReturnType<typeof startWorld>>

/** An identity provider that accepts everybody. */
const polite: IdentityProvider = {
  issuer: 'https://id.example.org',
  startLogin: async () => ({ url: 'https://id.example.org/authorize', loginState: { verifier: 'v', state: 's', nonce: 'n' } }),
  handleCallback: async (callback) => someone(callback.searchParams.get('code') ?? ''),
  check: async () => ({ discovery: 'ok' }),
}

/** The user that such a provider returns. */
export const someone = (name: string, more: Partial<Identity> = {}): Identity => ({
  issuer: polite.issuer,
  subject: name,
  username: name,
  email: `${name.replace(/\W/g, '')}@example.com`,
  isEmailVerified: true,
  displayName: '',
  hostedDomain: null,
  groups: [],
  ...more,
})

/** A whole dms, with functions that create objects for requests. Limits are small, so that exceeding them is quick. */
export async function startWorld(settings: Parameters<typeof startApp>[0] = {}) {
  const dms = await startApp({
    'limits.max_request_size': '64kB',
    'limits.max_upload_size': '64kB',
    'limits.comments_per_minute': 0,
    'limits.registrations_per_hour_total': 0,
    'storage.fsync': false,
    'sources.local_roots': localFolder,
    ...settings,
  })
  dms.app.log.level = 'silent'
  // Somebody signs people in elsewhere, too; what such providers really do is in oidc.test.ts.
  const app: App = { ...dms.app, identities: polite }
  const routes = allRoutes(app)
  let made = 0
  /** Returns a unique word of constant length. */
  const word = (): string => `w~${String(++made).padStart(6, '0')}`
  let hash: Promise<string> | undefined

  const transports = new Map<Request, (request: Request) => Promise<Response>>()
  const checked = conforming(app, (request) => transports.get(request)!(request))
  const servers = new Map<App, ReturnType<typeof buildServer>>()
  const serverOf = (one: App) => {
    const server = servers.get(one) ?? buildServer(one)
    servers.set(one, server)
    return server
  }

  /** Sends it as `who` unless it names a user; every answer is checked against the description of the API. */
  const send = async (route: Route, ask: RouteRequest, who: Actor | null): Promise<Response> => {
    const request = requestOf(route, ask)
    const server = serverOf(ask.app ?? app)
    const actor = ask.as === undefined ? who : ask.as
    const context = { ip: ask.ip ?? address(++made), isLocal: true, ...(actor ? { actor } : {}) }
    transports.set(request, async () => server.request(request, undefined, context))
    try {
      return await checked(request)
    } finally {
      transports.delete(request)
    }
  }

  const person = async (role: 'admin' | 'user' = 'user'): Promise<Person> => {
    hash ??= app.passwords.hash(password)
    const username = word()
    const email = `${username}@example.org`
    const row = await app.db
      .insertInto('users')
      .values({ username, username_key: username, email, email_key: email, email_verified_at: app.now(), role, password_hash: await hash })
      .returning(['id', 'token_version'])
      .executeTakeFirstOrThrow()
    return { ...row, username, actor: { id: row.id, role, username } }
  }

  const clients = new Map<string, Client>()
  const clientOf = ({ id, actor }: Person): Client => {
    const client = clients.get(id) ?? createClient(localTransport(app, actor, serverOf(app)))
    clients.set(id, client)
    return client
  }

  const world = {
    ...dms,
    app,
    routes,
    operator,
    word,
    send,
    person,
    clientOf,
    /** Sends a request this many times, with any answer. */
    repeat: async (times: number, name: string, ask: RouteRequest): Promise<void> => {
      const route = routes.find((one) => nameOf(one) === name) as Route
      for (let time = 0; time < times; time++) await send(route, ask, usualOf(route, world).actor)
    },
    /** the admin, after all others were disabled */
    onlyAdmin: async (): Promise<string> => {
      await app.db.updateTable('users').set({ disabled: true }).where('role', '=', 'admin').where('id', '!=', dms.admin.id).execute()
      return dms.admin.id
    },
    /** a bearer token */
    token: (who: Person) => tokenFor(app, who),
    /** an App like that of the world, with these differences */
    but: (other: Partial<App>): App => ({ ...app, ...other }),
    /** an unread document */
    document: async (who: Person, filename = `${word()}.txt`, bytes: string | Buffer = `bytes of ${filename}`): Promise<string> => {
      const { id } = await upload(clientOf(who), filename, bytes)
      return id
    },
    /** the id of a document of `who` in the trash */
    trashed: async (who: Person): Promise<string> => {
      const id = await world.document(who)
      await clientOf(who).documents.delete(id)
      return id
    },
    /** a document under retention */
    retained: async (who: Person): Promise<string> => {
      const id = await world.document(who)
      await clientOf(who).documents.update(id, { retain_until: '2100-01-01' })
      return id
    },
    /** a pending OCR job */
    job: async (who: Person): Promise<{ id: string; document_id: string }> => {
      const document_id = await world.document(who)
      const { id } = await app.db
        .selectFrom('jobs')
        .select('id')
        .where('document_id', '=', document_id)
        .where('kind', '=', 'ocr')
        .executeTakeFirstOrThrow()
      return { id, document_id }
    },
    /** a job of a failed document */
    failedJob: async (who: Person): Promise<string> => {
      const { id } = await world.job(who)
      await clientOf(who).ocrQueue.cancel(id)
      return id
    },
    label: async (who: Person): Promise<{ id: string; name: string }> => clientOf(who).labels.create({ name: word(), color: '#112233' }),
    comment: async (who: Person, documentId: string): Promise<string> =>
      (await clientOf(who).comments.create(documentId, { content: word() })).id,
    /** a source of a folder, which an admin created for the user */
    source: async ({ id: owner }: Person): Promise<string> =>
      (await dms.asAdmin.sources.create({ name: word(), type: 'local_folder', url: localFolder, sync_interval: 0, owner })).id,
    notification: async (who: Person): Promise<string> => {
      await app.db
        .transaction()
        .execute((trx) => notify(app, trx, who.id, 'ocr_completed', { title: word(), message: 'is read', data: {} }))
      const newest = app.db.selectFrom('notifications').select('id').where('user_id', '=', who.id).orderBy('id', 'desc')
      return (await newest.executeTakeFirstOrThrow()).id
    },
    /** a shared link of a document; advances the clock, because only some may be created per hour */
    link: async (who: Person, terms: object = {}): Promise<{ id: string; token: string; document_id: string }> => {
      await dms.later(200_000)
      return clientOf(who).sharedLinks.create({ document_id: await world.document(who), ...terms })
    },
  }
  return world
}

/** The log of a world, and of another App created for it, is discarded. */
export const silent = openLog({ level: 'silent', format: 'json' })

/** Returns an address of the block reserved for benchmarks. */
const address = (number: number): string => `198.18.${(number >> 8) & 255}.${number & 255}`

export function requestOf({ method, path }: Route, { params = {}, query = {}, json, form, raw, headers = {} }: RouteRequest): Request {
  const url = new URL(
    path.replaceAll(/:(\w+)/g, (_, name: string) => encodeURIComponent(params[name] ?? '')),
    'http://dms',
  )
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value)
  if (form) {
    const files = form.files.map(({ filename, bytes }) => ({ filename, size: bytes.length, open: () => [Buffer.from(bytes)] }))
    const { body, contentType } = multipart(form.fields ?? {}, form.field, files)
    return new Request(url, { method, headers: { 'content-type': contentType, ...headers }, body, duplex: 'half' } as RequestInit)
  }
  const body = raw ?? (json === undefined ? undefined : JSON.stringify(json))
  return new Request(url, { method, headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers }, body })
}

export const nameOf = ({ method, path }: Route): string => `${method} ${path}`

/** Returns the user who sends the good request of a route. */
export const usualOf = ({ access }: Route, { ada, admin }: World): { who: Person; actor: Actor | null } =>
  access === 'admin' ? { who: admin, actor: admin.actor } : { who: ada, actor: access === 'anyone' ? null : ada.actor }

/** An unknown id. */
export const noId = (): string => randomUUID()

interface JsonSchema {
  properties?: Record<string, unknown>
  anyOf?: JsonSchema[]
}

const namesIn = ({ properties = {}, anyOf = [] }: JsonSchema): string[] => [...Object.keys(properties), ...anyOf.flatMap(namesIn)]

/** Returns the top-level names of an input, in all of its forms. */
export const fieldsOf = (input: z.ZodType | undefined): string[] =>
  input ? namesIn(z.toJSONSchema(input, { io: 'input', unrepresentable: 'any' }) as JsonSchema) : []
