/** Answers that are stored bytes: ranges, conditions, names, and headers that keep a browser from running what users uploaded. */
import { Readable } from 'node:stream'
import { create as disposition } from 'content-disposition'
import type { H3Event } from 'h3'
import { AppError } from '../errors.ts'

export interface StoredFile {
  size: number
  /** hex; makes the tag and the digest */
  sha256: string
  mime_type: string
  filename: string
  /** when these bytes became the file */
  modifiedAt: Date
  open(range?: { start: number; end: number }): Promise<Readable>
}

/** The only types that are ever shown inside a browser, and as what. */
function inlineType(mime: string): string | null {
  if (['application/pdf', 'image/png', 'image/jpeg', 'image/gif', 'image/webp'].includes(mime)) return mime
  const isPlainText = ['text/plain', 'text/csv', 'text/markdown', 'application/json'].includes(mime)
  return isPlainText ? 'text/plain; charset=utf-8' : null
}

/** Whether a file of that type can be looked at inside a browser. */
export const canShowInline = (mime: string): boolean => inlineType(mime) !== null

/** What every answer says that holds what users uploaded, or was made of it: run nothing, guess nothing, lend it to no other page. */
export const untrustedContentHeaders = {
  'content-security-policy': "default-src 'none'; sandbox",
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
} as const

/** The request headers that sendFile() reads. */
export const fileHeaders = {
  Range: 'One range of bytes, such as bytes=0-99.',
  'If-Range': 'ETag or Last-Modified date of the file to which the range belongs.',
  'If-Match': 'ETags; a file with another one returns 412.',
  'If-Unmodified-Since': 'Date; a newer file returns 412. Ignored with If-Match.',
  'If-None-Match': 'ETag of the copy that the client has.',
  'If-Modified-Since': 'Last-Modified date of the copy that the client has. Ignored with If-None-Match.',
} as const

/** Sends a file as attachment, or `inline` where its type may be shown. Throws PRECONDITION_FAILED, RANGE_NOT_SATISFIABLE. */
export async function sendFile(event: H3Event, file: StoredFile, how: 'attachment' | 'inline'): Promise<Response> {
  const etag = `"${file.sha256}"`
  const shown = how === 'inline' ? inlineType(file.mime_type) : null
  const headers = new Headers({
    'content-type': shown ?? (file.mime_type.startsWith('text/html') ? 'application/octet-stream' : file.mime_type),
    'content-disposition': disposition(file.filename, { type: shown ? 'inline' : 'attachment' }),
    ...untrustedContentHeaders,
    'cache-control': 'private, no-cache',
    'accept-ranges': 'bytes',
    etag,
    // Never later than the answer itself (RFC 9110, 8.8.2.1), whatever the clock that it was recorded by.
    'last-modified': new Date(Math.min(file.modifiedAt.getTime(), Date.now())).toUTCString(),
    // Lets the receiver see for itself whether all of it arrived as it was stored (RFC 9530).
    'repr-digest': `sha-256=:${Buffer.from(file.sha256, 'hex').toString('base64')}:`,
  })
  if (isUnmodified(event.req, etag, file.modifiedAt)) return new Response(null, { status: 304, headers })

  const range = parseRange(event, file, etag)
  headers.set('content-length', String(range ? range.end - range.start + 1 : file.size))
  if (range) headers.set('content-range', `bytes ${range.start}-${range.end}/${file.size}`)
  const status = range ? 206 : 200
  if (event.req.method === 'HEAD') return new Response(null, { status, headers })
  const bytes = await file.open(range ?? undefined)
  return new Response(Readable.toWeb(bytes) as ReadableStream, { status, headers })
}

/** Whether a list of tags (`If-None-Match`, `If-Match`) names this one. */
export const matchesEtag = (header: string | null, etag: string): boolean =>
  header !== null && (header.trim() === '*' || header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag))

/** Whether the client has the file already (RFC 9110, 13.2.2). Throws PRECONDITION_FAILED where it wants another one than there is. */
function isUnmodified({ headers, method }: Request, etag: string, modifiedAt: Date): boolean {
  const ifMatch = headers.get('if-match')
  const unmodifiedSince = parseHttpDate(headers.get('if-unmodified-since'))
  const isOther = ifMatch === null ? unmodifiedSince !== null && toSeconds(modifiedAt) > unmodifiedSince : !matchesStrongly(ifMatch, etag)
  if (isOther) throw new AppError('PRECONDITION_FAILED', {}, 'The file is another one by now.')
  const ifNoneMatch = headers.get('if-none-match')
  if (ifNoneMatch !== null) return matchesEtag(ifNoneMatch, etag)
  const modifiedSince = method === 'GET' || method === 'HEAD' ? parseHttpDate(headers.get('if-modified-since')) : null
  return modifiedSince !== null && toSeconds(modifiedAt) <= modifiedSince
}

/** As matches(), but a weak tag names nothing: it does not promise the same bytes. */
const matchesStrongly = (header: string, etag: string): boolean =>
  header.trim() === '*' || header.split(',').some((tag) => tag.trim() === etag)

/** Seconds since 1970 of an HTTP date (RFC 9110, 5.6.7); null for anything else, which is ignored. */
function parseHttpDate(header: string | null): number | null {
  if (header === null || !/^[A-Z][a-z]{2,8},? .*(?:GMT|\d{4})$/.test(header.trim())) return null
  const time = Date.parse(header)
  return Number.isNaN(time) ? null : Math.floor(time / 1000)
}

/** HTTP dates are this exact. */
const toSeconds = (date: Date): number => Math.floor(date.getTime() / 1000)

/** Whether the range is of the file as it is. A date tells two versions of one second apart only once that second is over. */
function isRangeCurrent(condition: string, etag: string, modifiedAt: Date): boolean {
  const date = parseHttpDate(condition)
  return date === null ? condition.trim() === etag : date === toSeconds(modifiedAt) && Date.now() - modifiedAt.getTime() > 1000
}

/** One range of a `Range` header (RFC 9110, 14.2), or null: none, several, not bytes, malformed, or the file is another one by now. */
function parseRange(event: H3Event, { size, modifiedAt }: StoredFile, etag: string): { start: number; end: number } | null {
  const header = event.req.headers.get('range')
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
