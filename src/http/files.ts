/** Answers with stored files: ranges, preconditions, names, and headers that stop browsers from running uploaded content. */
import { Readable } from 'node:stream'
import { create as contentDisposition } from 'content-disposition'
import type { H3Event } from 'h3'
import { z } from 'zod'
import { AppError } from '../errors.ts'

export interface StoredFile {
  size: number
  /** Hex; used for ETag and Repr-Digest. */
  sha256: string
  mime_type: string
  filename: string
  /** Time of the upload or replacement of the file. */
  modifiedAt: Date
  open(range?: { start: number; end: number }): Promise<Readable>
  /** Returns a URL of the document store; null if there is none. Missing: the file is never redirected. */
  presign?(headers: { type: string; disposition: string }): Promise<URL | null>
}

/** Types of PDF and raster images, which run no scripts of the page. */
const inlineTypes = 'application/pdf image/png image/jpeg image/gif image/webp image/bmp image/avif image/tiff'.split(' ')
/** Types other than `text/*` that are shown as plain text. */
const textTypes = ['application/json', 'application/x-ndjson', 'application/yaml']

/** Returns the content type for inline display, or null for types that are not safe in browsers. */
function inlineType(mime: string): string | null {
  if (inlineTypes.includes(mime)) return mime
  const isPlainText = (mime.startsWith('text/') && !/^text\/(?:html|xml|javascript)/.test(mime)) || textTypes.includes(mime)
  return isPlainText ? 'text/plain; charset=utf-8' : null
}

/** Tells if browsers can display the type safely. */
export const canShowInline = (mime: string): boolean => inlineType(mime) !== null

/** Headers of answers with uploaded content: no scripts, no content sniffing, no use by other sites. */
export const untrustedContentHeaders = {
  'content-security-policy': "default-src 'none'; sandbox",
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
} as const

/** Descriptions of the request headers that sendFile() reads. */
export const fileHeaders = {
  Range: 'One range of bytes, such as bytes=0-99.',
  'If-Range': 'ETag or Last-Modified date of the file to which the range belongs.',
  'If-Match': 'ETags; a file with another one returns 412.',
  'If-Unmodified-Since': 'Date; a newer file returns 412. Ignored with If-Match.',
  'If-None-Match': 'ETag of the copy that the client has.',
  'If-Modified-Since': 'Last-Modified date of the copy that the client has. Ignored with If-None-Match.',
} as const

/** Returns the description of redirects to the document store, for `otherAnswers` of a route. */
export const redirectAnswers = (status: 302 | 303, isEnabled: boolean): Record<number, z.ZodType> =>
  isEnabled ? { [status]: z.undefined() } : {}

/** Sends a file as an attachment, or inline if its type is safe. A whole attachment may be a redirect to the document store. Throws PRECONDITION_FAILED or RANGE_NOT_SATISFIABLE. */
export async function sendFile(event: H3Event, file: StoredFile, disposition: 'attachment' | 'inline'): Promise<Response> {
  const etag = `"${file.sha256}"`
  const inlined = disposition === 'inline' ? inlineType(file.mime_type) : null
  const headers = new Headers({
    'content-type': inlined ?? (file.mime_type.startsWith('text/html') ? 'application/octet-stream' : file.mime_type),
    'content-disposition': contentDisposition(file.filename, { type: inlined ? 'inline' : 'attachment' }),
    ...untrustedContentHeaders,
    'cache-control': 'private, no-cache',
    'accept-ranges': 'bytes',
    etag,
    // Not later than the answer itself (RFC 9110, 8.8.2.1), even if the clock was set back.
    'last-modified': new Date(Math.min(file.modifiedAt.getTime(), Date.now())).toUTCString(),
    // Lets the client verify the received file (RFC 9530).
    'repr-digest': `sha-256=:${Buffer.from(file.sha256, 'hex').toString('base64')}:`,
  })
  if (isUnmodified(event.req, etag, file.modifiedAt)) return new Response(null, { status: 304, headers })

  const range = parseRange(event, file, etag)
  const length = range ? range.end - range.start + 1 : file.size
  headers.set('content-length', String(length))
  if (range) headers.set('content-range', `bytes ${range.start}-${range.end}/${file.size}`)
  const status = range ? 206 : 200
  if (event.req.method === 'HEAD') return new Response(null, { status, headers })
  if (disposition === 'attachment' && !range && !event.context.isLocal) {
    const [type, shown] = ['content-type', 'content-disposition'].map((name) => headers.get(name) ?? '')
    const url = await file.presign?.({ type: type ?? '', disposition: shown ?? '' })
    if (url) return redirectTo(url, event, headers)
  }
  await event.context.reserveFile?.(length)
  const bytes = await file.open(range ?? undefined)
  return new Response(Readable.toWeb(bytes) as ReadableStream, { status, headers })
}

/** Returns a redirect with the checksum of the file, which the document store does not send. After a POST, the client has to GET the URL. */
function redirectTo(url: URL, event: H3Event, file: Headers): Response {
  const headers = { location: url.href, 'cache-control': 'private, no-store', 'repr-digest': file.get('repr-digest') ?? '' }
  return new Response(null, { status: event.req.method === 'POST' ? 303 : 302, headers: { ...headers, 'referrer-policy': 'no-referrer' } })
}

/** Description of the If-Match header, for routes that change a document. */
export const ifMatchHeader = { 'If-Match': 'ETag of the document to change.' } as const

/** Tells if a list of ETags (`If-None-Match`, `If-Match`) has this one, by weak comparison. */
export const matchesEtag = (header: string | null, etag: string): boolean =>
  header !== null && (header.trim() === '*' || header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag))

/** Tells if the client has the current file (RFC 9110, 13.2.2). Throws PRECONDITION_FAILED if it requires another one. */
function isUnmodified({ headers, method }: Request, etag: string, modifiedAt: Date): boolean {
  const ifMatch = headers.get('if-match')
  const unmodifiedSince = parseHttpDate(headers.get('if-unmodified-since'))
  const hasChanged =
    ifMatch === null ? unmodifiedSince !== null && toSeconds(modifiedAt) > unmodifiedSince : !matchesStrongly(ifMatch, etag)
  if (hasChanged) throw new AppError('PRECONDITION_FAILED', {}, 'The file has changed.')
  const ifNoneMatch = headers.get('if-none-match')
  const isRead = method === 'GET' || method === 'HEAD'
  if (ifNoneMatch !== null) {
    const isKnown = matchesEtag(ifNoneMatch, etag)
    if (isKnown && !isRead) throw new AppError('PRECONDITION_FAILED', {}, 'The file has not changed.')
    return isKnown
  }
  const modifiedSince = isRead ? parseHttpDate(headers.get('if-modified-since')) : null
  return modifiedSince !== null && toSeconds(modifiedAt) <= modifiedSince
}

/** Strong comparison: a weak tag does not promise equal bytes and never matches. */
const matchesStrongly = (header: string, etag: string): boolean =>
  header.trim() === '*' || header.split(',').some((tag) => tag.trim() === etag)

/** Returns the seconds since 1970 of an HTTP date (RFC 9110, 5.6.7), or null for anything else, which is ignored. */
function parseHttpDate(header: string | null): number | null {
  if (header === null || !/^[A-Z][a-z]{2,8},? .*(?:GMT|\d{4})$/.test(header.trim())) return null
  const time = Date.parse(header)
  return Number.isNaN(time) ? null : Math.floor(time / 1000)
}

/** Returns the seconds since 1970, the resolution of HTTP dates. */
const toSeconds = (date: Date): number => Math.floor(date.getTime() / 1000)

/** Tells if If-Range matches the current file. A date identifies a version only after its second is over. */
function isRangeCurrent(condition: string, etag: string, modifiedAt: Date): boolean {
  const date = parseHttpDate(condition)
  return date === null ? condition.trim() === etag : date === toSeconds(modifiedAt) && Date.now() - modifiedAt.getTime() > 1000
}

/** Returns the range of a `Range` header (RFC 9110, 14.2), or null if it is absent, multiple, not in bytes, malformed, or of another file. */
function parseRange(event: H3Event, { size, modifiedAt }: StoredFile, etag: string): { start: number; end: number } | null {
  const header = event.req.headers.get('range')
  // Ranges have no meaning for HEAD, whose answer describes the whole file.
  if (event.req.method === 'HEAD') return null
  const condition = event.req.headers.get('if-range')
  if (!header || (condition !== null && !isRangeCurrent(condition, etag, modifiedAt))) return null
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/i.exec(header.replaceAll(' ', '')) ?? []
  if (first === '' && last === '') return null
  if (first !== '' && last !== '' && Number(last) < Number(first)) return null
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const end = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1)
  if (start >= size) throw new AppError('RANGE_NOT_SATISFIABLE', { size })
  return { start, end }
}
