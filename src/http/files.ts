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
  open(range?: { start: number; end: number }): Promise<Readable>
}

/** The only types that are ever shown inside a browser, and as what. */
function inlineType(mime: string): string | null {
  if (['application/pdf', 'image/png', 'image/jpeg', 'image/gif', 'image/webp'].includes(mime)) return mime
  const isPlainText = ['text/plain', 'text/csv', 'text/markdown', 'application/json'].includes(mime)
  return isPlainText ? 'text/plain; charset=utf-8' : null
}

/** Whether a file of that type can be looked at inside a browser. */
export const isShownInline = (mime: string): boolean => inlineType(mime) !== null

/** What every answer says that holds what users uploaded, or was made of it: run nothing, guess nothing, lend it to no other page. */
export const harmless = {
  'content-security-policy': "default-src 'none'; sandbox",
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
} as const

/** The request headers that sendFile() reads. */
export const fileHeaders = {
  Range: 'one range of bytes, as bytes=0-99',
  'If-Range': 'the ETag of the file that the range is of',
  'If-None-Match': 'the ETag of what is there already',
} as const

/** Sends a file as attachment, or `inline` where its type may be shown. Throws RANGE_NOT_SATISFIABLE. */
export async function sendFile(event: H3Event, file: StoredFile, how: 'attachment' | 'inline'): Promise<Response> {
  const etag = `"${file.sha256}"`
  const shown = how === 'inline' ? inlineType(file.mime_type) : null
  const headers = new Headers({
    'content-type': shown ?? (file.mime_type.startsWith('text/html') ? 'application/octet-stream' : file.mime_type),
    'content-disposition': disposition(file.filename, { type: shown ? 'inline' : 'attachment' }),
    ...harmless,
    'cache-control': 'private, no-cache',
    'accept-ranges': 'bytes',
    etag,
    // Lets the receiver see for itself whether all of it arrived as it was stored (RFC 9530).
    'repr-digest': `sha-256=:${Buffer.from(file.sha256, 'hex').toString('base64')}:`,
  })
  if (matches(event.req.headers.get('if-none-match'), etag)) return new Response(null, { status: 304, headers })

  const range = rangeOf(event, file.size, etag)
  headers.set('content-length', String(range ? range.end - range.start + 1 : file.size))
  if (range) headers.set('content-range', `bytes ${range.start}-${range.end}/${file.size}`)
  const status = range ? 206 : 200
  if (event.req.method === 'HEAD') return new Response(null, { status, headers })
  const bytes = await file.open(range ?? undefined)
  return new Response(Readable.toWeb(bytes) as ReadableStream, { status, headers })
}

/** Whether a list of tags (`If-None-Match`, `If-Match`) names this one. */
export const matches = (header: string | null, etag: string): boolean =>
  header !== null && (header.trim() === '*' || header.split(',').some((tag) => tag.trim().replace(/^W\//, '') === etag))

/** One range of a `Range` header (RFC 9110, 14.2), or null: none, several, not bytes, malformed, or the file is another one by now. */
function rangeOf(event: H3Event, size: number, etag: string): { start: number; end: number } | null {
  const header = event.req.headers.get('range')
  const condition = event.req.headers.get('if-range')
  if (!header || (condition !== null && condition.trim() !== etag)) return null
  const [, first = '', last = ''] = /^bytes=(\d*)-(\d*)$/i.exec(header.replaceAll(' ', '')) ?? []
  if (first === '' && last === '') return null
  if (first !== '' && last !== '' && Number(last) < Number(first)) return null
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const end = first === '' || last === '' ? size - 1 : Math.min(Number(last), size - 1)
  if (start >= size) throw new AppError('RANGE_NOT_SATISFIABLE', { size })
  return { start, end }
}
