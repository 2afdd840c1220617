import type { H3Event, H3EventContext } from 'h3'
import { z } from 'zod'
import type { App } from '../app.ts'
import type { AppError } from '../errors.ts'
import { canShowInline, fileHeaders, redirectAnswers, sendFile } from '../http/files.ts'
import { prefersHtml } from '../http/html.ts'
import { anyone, type Call, type Route } from '../http/route.ts'
import { viewOf } from '../http/view.ts'
import { linkPage, pagePolicy, refusalPage } from './page.ts'
import type { SharedLink } from './shared-links.ts'
import * as visit from './visits.ts'

/** An empty form field counts as no password. */
const Password = z.object({
  password: z
    .string()
    .max(1024)
    .nullish()
    .transform((password) => password || undefined),
})

export const PublicAnswer = z.object({
  filename: z.string(),
  title: z.string(),
  size: z.int(),
  mime_type: z.string(),
  requires_password: z.boolean(),
  expires_at: z.iso.datetime().nullable(),
  created_at: z.iso.datetime(),
})
export const VerifyAnswer = z.object({ valid: z.boolean() })

const linkErrors = ['SHARED_LINK_NOT_FOUND', 'SHARED_LINK_REVOKED', 'SHARED_LINK_EXPIRED', 'SHARED_LINK_MAX_VIEWS'] as const
const passwordErrors = ['SHARED_LINK_PASSWORD_REQUIRED', 'SHARED_LINK_INVALID_PASSWORD', 'SHARED_LINK_RATE_LIMITED'] as const
const fileOptions = ({ config }: App) => ({
  headers: fileHeaders,
  body: Password,
  acceptsForm: true,
  produces: ['*/*'],
  errors: [...linkErrors, ...passwordErrors, 'PRECONDITION_FAILED', 'RANGE_NOT_SATISFIABLE', 'STORAGE_UNAVAILABLE'] as const,
  otherAnswers: redirectAnswers(303, config.storage.redirect_downloads),
})

export const routes = (app: App): Route[] => [
  anyone(
    'GET /api/public/shared/:token',
    {
      summary: 'Open a shared link; browsers get a page, other clients JSON',
      headers: { Accept: 'Returns the page if text/html comes first, as in browsers.' },
      answer: PublicAnswer,
      errors: linkErrors,
    },
    show(app),
  ),
  anyone(
    'POST /api/public/shared/:token/verify',
    {
      summary: 'Verify the password of a shared link',
      body: Password,
      answer: VerifyAnswer,
      errors: [...linkErrors, 'SHARED_LINK_RATE_LIMITED'],
    },
    async ({ event, param, body, ip }) => {
      const { link, valid } = await visit.verifyVisitor(app, param('token'), { ip, ...body })
      event.context.documentIds = [link.document_id]
      if (!valid && body.password !== undefined) event.context.refusal = 'SHARED_LINK_INVALID_PASSWORD'
      return { valid }
    },
  ),
  anyone('POST /api/public/shared/:token/download', { summary: 'Download the shared file', ...fileOptions(app) }, send(app, 'attachment')),
  anyone(
    'POST /api/public/shared/:token/view',
    { summary: 'Get the shared file, inline if browsers can display its type safely', ...fileOptions(app) },
    send(app, 'inline'),
  ),
]

/** Returns the function that renders errors of shared links as HTML for browsers; undefined for all other requests. */
export const errorPageFor = (event: H3Event): H3EventContext['explain'] =>
  /^\/api\/(?:v1\/)?public\/shared\//.test(event.url.pathname) && isBrowser(event)
    ? (failure) => page(failure.status, refusalPage(failure))
    : undefined

function show(app: App) {
  return async ({ event, param }: Call) => {
    const link = await visit.getUsable(app, param('token'))
    event.res.headers.set('vary', 'accept')
    return isBrowser(event) ? page(200, pageOf(link, event.url.pathname.endsWith('/') ? '' : `${link.token}/`)) : view(link)
  }
}

function send(app: App, how: 'attachment' | 'inline') {
  return async ({ event, param, body, ip }: Call<z.ZodType, typeof Password>) => {
    await visit.countDownload(app, ip)
    const link = await (isPartialRequest(event) ? visit.getResumable(app, param('token'), ip) : visit.getUsable(app, param('token')))
    event.context.documentIds = [link.document_id]
    if (isBrowser(event)) event.context.explain = (failure) => page(failure.status, afterFailure(link, failure))
    const { presign, ...file } = await visit.openFile(app, link, { ip, ...body })
    // The policy of the page lets its form lead to this server only.
    const response = await sendFile(event, presign && !isBrowser(event) ? { ...file, presign } : file, how)
    response.headers.set('cache-control', 'private, no-store')
    return response
  }
}

/** Shows the form again after errors of the password. */
const afterFailure = (link: SharedLink, failure: AppError): string =>
  passwordErrors.some((code) => code === failure.code) ? pageOf(link, '', failure) : refusalPage(failure)

const pageOf = (link: SharedLink, base: string, failure?: AppError): string =>
  linkPage({ ...view(link), expires_at: link.expires_at, isViewable: canShowInline(link.mime_type), base, failure })

const isBrowser = ({ req }: H3Event): boolean => prefersHtml(req.headers)

const isPartialRequest = ({ req }: H3Event): boolean => /^\s*bytes\s*=\s*(?:0*[1-9]|-)/i.test(req.headers.get('range') ?? '')

const page = (status: number, html: string): Response =>
  new Response(html, {
    status,
    headers: {
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': pagePolicy,
      'referrer-policy': 'no-referrer',
      'x-robots-tag': 'noindex',
      vary: 'accept',
    },
  })

const view = (link: SharedLink) => viewOf(PublicAnswer, { ...link, requires_password: link.password_hash !== null })
