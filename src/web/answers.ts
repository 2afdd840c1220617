/** Answers of the web page: HTML, redirects and relayed files, with headers for private pages. */
import type { App } from '../app.ts'
import { ClientError, readError } from '../client/http/connection.ts'
import { AppError, type Code, codes } from '../errors.ts'

/** Content security policy: style, script and images of this server only, no frames. */
const policy =
  "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

const privateHeaders = {
  'cache-control': 'private, no-store',
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
  'x-robots-tag': 'noindex',
} as const

/** Returns a page. With referrer-policy no-referrer, browsers would send `Origin: null` with its forms. */
export const pageAnswer = (status: number, page: string, cookie?: string): Response =>
  new Response(page, {
    status,
    headers: {
      ...privateHeaders,
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': policy,
      'referrer-policy': 'same-origin',
      vary: 'accept, cookie',
      ...(cookie ? { 'set-cookie': cookie } : {}),
    },
  })

/** Returns an SVG picture. */
export const pictureAnswer = (svg: string): Response =>
  new Response(svg, {
    headers: { ...privateHeaders, 'content-type': 'image/svg+xml', 'content-security-policy': "default-src 'none'; sandbox" },
  })

/** Returns a redirect to a GET. */
export const redirect = (path: string, cookie?: string): Response =>
  new Response(null, { status: 303, headers: { ...privateHeaders, location: path, ...(cookie ? { 'set-cookie': cookie } : {}) } })

/** Returns an answer of the API for the script of the page. */
export const relayJson = ({ body, status, headers }: Response): Response =>
  new Response(body, { status, headers: { ...Object.fromEntries(headers), ...privateHeaders } })

/**
 * Returns a file of the API with its sandbox policy. Downloads get a neutral type: `script-src 'self'` must not load an uploaded script. Throws the
 * error of the API.
 */
export async function relayFile(response: Response): Promise<Response> {
  if (response.status >= 400) throw toAppError(await readError(response))
  const headers = { ...Object.fromEntries(response.headers), ...privateHeaders }
  if (response.headers.get('content-disposition')?.startsWith('attachment'))
    Object.assign(headers, { 'content-type': 'application/octet-stream' })
  return new Response(response.body, { status: response.status, headers })
}

/** Returns an error of the client as an error of this server; other errors unchanged. */
export function toAppError(error: unknown): unknown {
  if (!(error instanceof ClientError)) return error
  return new AppError(error.code in codes ? (error.code as Code) : 'INTERNAL_ERROR', error.details, error.message)
}

/**
 * Throws FORBIDDEN for a form of another site. Browsers send Sec-Fetch-Site to https and localhost only, and Origin with every POST. The host
 * of Origin is compared, because a proxy that ends TLS changes the scheme.
 */
export function rejectForeignForm({ config }: App, headers: Headers, { host }: URL): void {
  const site = headers.get('sec-fetch-site')
  const origin = headers.get('origin') ?? ''
  const isOwn = URL.canParse(origin) && [host, new URL(config.server.public_url).host].includes(new URL(origin).host)
  if (site === null ? isOwn : site === 'same-origin') return
  throw new AppError('FORBIDDEN', {}, 'This form came from another site. Open the page again; behind a proxy, set server.public_url.')
}

/** Reads at most `maxBytes` of a body and drops the rest. */
export async function readAtMost({ body }: Response, maxBytes: number): Promise<{ text: string; isWhole: boolean }> {
  const decoder = new TextDecoder()
  let text = ''
  let size = 0
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    const rest = chunk.subarray(0, maxBytes - size)
    text += decoder.decode(rest, { stream: true })
    size += rest.length
    // Leaving the loop cancels the stream.
    if (rest.length < chunk.length) return { text, isWhole: false }
  }
  return { text: text + decoder.decode(), isWhole: true }
}

/** Bytes of the end of a long body. */
const tailBytes = 4_000

/** Reads the beginning of a body and, if it is longer than `maxBytes`, its end: `tail` is null for a body that fits. */
export async function readEnds({ body }: Response, maxBytes: number): Promise<{ head: string; tail: string | null }> {
  const decoder = new TextDecoder()
  let head = ''
  let size = 0
  let tail = Buffer.alloc(0)
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    head += decoder.decode(chunk.subarray(0, Math.max(0, maxBytes - size)), { stream: true })
    size += chunk.length
    tail = Buffer.concat([tail, chunk.subarray(-tailBytes)]).subarray(-tailBytes)
  }
  return size > maxBytes ? { head, tail: tail.toString() } : { head: head + decoder.decode(), tail: null }
}
