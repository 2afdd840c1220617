/** The web page: HTML for browsers. Each request calls the API in this process as the user of its session cookie. */
import { getCookie, type H3, type H3Event } from 'h3'
import { z } from 'zod'
import { isAdmin } from '../actor.ts'
import type { App } from '../app.ts'
import type { Bearer } from '../auth/auth.ts'
import { expiredCookie, localPath, sessionCookie, sessionCookieName } from '../auth/page-session.ts'
import { type Client, ClientError, createClient } from '../client/client.ts'
import { AppError } from '../errors.ts'
import { prefersHtml } from '../http/html.ts'
import { parseInput, readJsonOrForm } from '../http/input.ts'
import { allowedMethods } from '../http/route.ts'
import { isId } from '../id.ts'
import { pageAnswer, pictureAnswer, redirect, rejectForeignForm, relayFile, relayJson, toAppError } from './answers.ts'
import { documentPage } from './document-page.ts'
import { errorPage } from './error-page.ts'
import { assets, withParameters } from './layout.ts'
import { marksPicture, noPicture } from './page-pictures.ts'
import { queuePage } from './queue-page.ts'
import { searchPage } from './search-page.ts'
import { signInPage } from './sign-in-page.ts'
import { deletePage, deletionCookie, deletionCookieName, emptyTrashPage, trashPage } from './trash-page.ts'
import { uploadedPage, uploadPage } from './upload-page.ts'
import type { Visit } from './visit.ts'

type Handle = (event: H3Event) => Promise<Response>

/** Maximum size of a form without files. */
const maxFormBytes = 16 << 10

const fileHeaders = ['accept', 'if-none-match', 'if-range', 'range']
const uploadHeaders = ['content-type', 'content-length', 'expect', 'idempotency-key']

/** Adds the page to a server. `authenticate` returns the user of the session token of a request. */
export function servePage(app: App, h3: H3, authenticate: (token: string, event: H3Event) => Promise<Bearer>): void {
  /** Authenticates a request that no route has answered: its page has the navigation of its user. */
  const authenticateUnknown = async (event: H3Event): Promise<void> => {
    const token = getCookie(event, sessionCookieName(app))
    if (event.context.route === undefined && token) Object.assign(event.context, await authenticate(token, event).catch(() => ({})))
  }
  h3.use((event, next) => {
    // Browsers get a page for unknown paths too.
    if (!prefersHtml(event.req.headers) || /^\/(?:api|ws|metrics)(?:\/|$)/.test(event.url.pathname)) return next()
    event.context.explain = (failure) => failurePage(app, event, failure)
    return Promise.resolve(next()).then((answer) => authenticateUnknown(event).then(() => answer))
  })

  const add = (path: string, methods: { GET?: Handle; POST?: Handle }): void => {
    h3.all(path, async (event) => {
      event.context.route = path
      const method = event.req.method === 'HEAD' ? 'GET' : event.req.method
      const handle = methods[method as 'GET' | 'POST']
      if (!handle) throw new AppError('METHOD_NOT_ALLOWED', { allow: allowedMethods(Object.keys(methods)) })
      if (method === 'POST') rejectForeignForm(app, event.req.headers, event.url)
      return handle(event).catch((error) => {
        throw toAppError(error)
      })
    })
  }
  /** Returns a handler for signed-in users. */
  const user =
    (handle: (visit: Visit, event: H3Event) => Promise<Response>): Handle =>
    async (event) => {
      const token = getCookie(event, sessionCookieName(app))
      if (!token) throw new AppError('UNAUTHORIZED')
      const { actor, session } = await authenticate(token, event)
      Object.assign(event.context, { actor, session })
      const { id = '' } = event.context.params ?? {}
      if (id !== '' && !isId(id)) throw new AppError('DOCUMENT_NOT_FOUND')
      return handle(
        { app, client: clientFor(h3, event), username: actor.username, isAdmin: isAdmin(actor), query: event.url.searchParams, id },
        event,
      )
    }
  const page = (render: (visit: Visit) => Promise<string | Response>): Handle =>
    user(async (visit) => {
      const rendered = await render(visit)
      return typeof rendered === 'string' ? pageAnswer(200, rendered) : rendered
    })

  add('/', { GET: page(searchPage) })
  add('/documents/:id', { GET: page(documentPage) })
  for (const part of ['view', 'download', 'thumbnail', 'text'])
    add(`/documents/:id/${part}`, { GET: user((visit, event) => relayPart(visit, event, part)) })
  add('/documents/:id/pages/:number/image', {
    GET: user((visit, event) =>
      relayPart(visit, event, `pages/${numberOf(event)}/image`).catch((error) => {
        if (error instanceof AppError && error.code === 'PAGE_IMAGE_NOT_FOUND') return pictureAnswer(noPicture)
        throw error
      }),
    ),
  })
  add('/documents/:id/pages/:number/marks', {
    GET: user(async (visit, event) => pictureAnswer(await marksPicture(visit, numberOf(event)))),
  })
  for (const part of ['download', 'view'])
    add(`/documents/:id/versions/:number/${part}`, {
      GET: user((visit, event) => relayPart(visit, event, `versions/${numberOf(event)}/${part}`)),
    })
  add('/documents/:id/delete', { GET: page(deletePage), POST: user(deleteDocument) })
  add('/documents/:id/undelete', {
    POST: user(async ({ client, id }, event) => {
      const { next } = await readForm(event, z.object({ next: z.string().optional() }))
      await client.documents.undelete(id).catch((error) => {
        // The second click of a double click finds the document outside of the trash.
        if (!(error instanceof ClientError && error.code === 'CONFLICT')) throw error
      })
      return redirect(localPath(next))
    }),
  })
  add('/documents/:id/restore', {
    POST: user(async ({ client, id }, event) => {
      const { number } = await readForm(event, z.object({ number: z.coerce.number().int().min(1) }))
      await client.documents.restore(id, number)
      return redirect(withParameters(`/documents/${id}`, { restored: number }))
    }),
  })
  add('/trash', {
    GET: user(async (visit, event) => {
      const deletion = getCookie(event, deletionCookieName(app))
      return pageAnswer(200, await trashPage(visit, deletion), deletion && deletionCookie(app, null))
    }),
    POST: user(async (visit, event) => {
      const { count } = await readForm(event, z.object({ permanent: z.literal('true'), count: z.string() }))
      const { pagination } = await visit.client.trash.page({ per_page: 1 })
      // Another tab or user may have moved documents to the trash since the question.
      if (count !== String(pagination.total)) {
        const question = await emptyTrashPage(visit, { hasChanged: true })
        return typeof question === 'string' ? pageAnswer(409, question) : question
      }
      return redirect('/trash', deletionCookie(app, await visit.client.trash.empty()))
    }),
  })
  add('/trash/empty', { GET: page(emptyTrashPage) })
  add('/upload', { GET: page(uploadPage), POST: user((visit, event) => upload(h3, visit, event)) })
  add('/queue', {
    GET: page(queuePage),
    POST: user(async ({ client }, event) => {
      const { id } = await readForm(event, z.object({ id: z.string().optional() }))
      await client.ocrQueue.retry(id ? { ids: [id] } : { status: 'failed' })
      return redirect('/queue')
    }),
  })
  add('/sign-in', {
    GET: async (event) => {
      const next = event.url.searchParams.get('next')
      const code = event.url.searchParams.get('error')
      const token = getCookie(event, sessionCookieName(app))
      const isSignedIn =
        code === null &&
        token !== undefined &&
        (await authenticate(token, event).then(
          () => true,
          () => false,
        ))
      return isSignedIn ? redirect(localPath(next)) : pageAnswer(200, signInPage(app, { next, code }))
    },
    POST: (event) => signIn(app, h3, event),
  })
  add('/sign-out', {
    POST: user(async ({ client }) => {
      const failure = await client.auth.logout().then(() => null, toAppError)
      // While the database is read-only the session goes on, but this browser forgets it.
      if (failure !== null && !(failure instanceof AppError && failure.code === 'SERVICE_UNAVAILABLE')) throw failure
      return redirect('/sign-in', expiredCookie(app))
    }),
  })
  add('/assets/:name', { GET: async ({ context, req }) => assets.answer(context.params?.name ?? '', req.headers) })
}

/**
 * Returns a client of this server without a socket, with the address and the session of the browser. Its requests are audited and limited like other
 * requests.
 */
const clientFor = (h3: H3, event: H3Event): Client => createClient(async (request) => sendInProcess(h3, event, request))

function sendInProcess(h3: H3, { context }: H3Event, request: Request): Response | Promise<Response> {
  const { actor, session, ip, requestId, reserveFile } = context
  return h3.request(request, undefined, { ip, requestId, reserveFile, ...(actor ? { actor, session } : {}) })
}

async function relayPart({ client, id }: Visit, { req, url }: H3Event, part: string): Promise<Response> {
  return relayFile(
    await client.send(req.method, `/api/documents/${id}/${part}${url.search}`, undefined, pickHeaders(req.headers, fileHeaders)),
  )
}

const pickHeaders = (headers: Headers, names: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.filter((name) => headers.has(name)).map((name) => [name, headers.get(name)!]))

/** Returns the number in the path; 0, which no page and no version has, for anything else. */
const numberOf = ({ context }: H3Event): number => Number(/^\d{1,9}$/.exec(context.params?.number ?? '')?.[0] ?? 0)

/** Moves a document to the trash. `permanent` comes from the page that asks before it deletes. */
async function deleteDocument({ app, client, id }: Visit, event: H3Event): Promise<Response> {
  const { permanent } = await readForm(event, z.object({ permanent: z.literal('true').optional() }))
  if (permanent) {
    await client.documents.delete(id, { permanent: true }).catch((error) => {
      // The second click of a double click finds no document.
      if (!(error instanceof ClientError && error.code === 'DOCUMENT_NOT_FOUND')) throw error
    })
    return redirect('/trash', deletionCookie(app, { purged: 1, retained: 0 }))
  }
  if (app.config.documents.trash_days === 0) return redirect(`/documents/${id}/delete`)
  await client.documents.delete(id).catch(async (error) => {
    // The second click of a double click finds the document in the trash.
    const { deleted_at } = await client.documents.get(id, { content: false })
    if (deleted_at == null) throw error
  })
  return redirect(withParameters('/', { trashed: id }))
}

const Credentials = z.object({ username: z.string().default(''), password: z.string().default(''), next: z.string().optional() })

async function signIn(app: App, h3: H3, event: H3Event): Promise<Response> {
  const { username, password, next } = await readForm(event, Credentials)
  try {
    const { token } = await clientFor(h3, event).auth.login(username, password)
    return redirect(localPath(next), sessionCookie(app, token))
  } catch (error) {
    const failure = toAppError(error)
    if (!(error instanceof ClientError) || !(failure instanceof AppError)) throw error
    return pageAnswer(failure.status, signInPage(app, { next, username, failure, code: failure.code }))
  }
}

/** Passes the body on to the API as it arrives. */
async function upload(h3: H3, visit: Visit, event: H3Event): Promise<Response> {
  const headers = pickHeaders(event.req.headers, uploadHeaders)
  const request = new Request('http://dms/api/documents/bulk-upload?on_duplicate=return', { method: 'POST', headers })
  // The API reads the body from the socket of the browser, as h3 does for requests that it passes on.
  const response = await sendInProcess(h3, event, Object.assign(request, { runtime: event.req.runtime }))
  if (!prefersHtml(event.req.headers)) return relayJson(response)
  if (!response.ok) await relayFile(response)
  return pageAnswer(200, uploadedPage(visit, (await response.json()) as Parameters<typeof uploadedPage>[1]))
}

const readForm = async <S extends z.ZodType>(event: H3Event, schema: S): Promise<z.output<S>> =>
  parseInput(schema, await readJsonOrForm(event, maxFormBytes))

/** Returns the page for an error. Without a session, redirects to the login, which returns to the page, or to the page of the sent form. */
function failurePage(app: App, { context, req, url }: H3Event, failure: AppError): Response {
  if (failure.code === 'UNAUTHORIZED') {
    const address = req.method === 'GET' ? url.href : (req.headers.get('referer') ?? '')
    const { pathname, search } = new URL(URL.canParse(address) ? address : '/', url)
    const next = localPath(pathname + search)
    return redirect(withParameters('/sign-in', { next: next === '/' ? null : next }), expiredCookie(app))
  }
  return pageAnswer(failure.status, errorPage(app, failure, context.requestId ?? '', context.actor?.username, url.pathname))
}
