/** Lists a bucket page by page (ListObjectsV2). */

import type { SourceEntry } from '../../ports/source-type.ts'
import { type HttpClient, readResponse } from '../http/http-client.ts'
import { isStorableTime, normalizeEtag } from '../http/responses.ts'
import { isValidName, maxDepth, maxPathBytes, truncateForDisplay } from '../http/urls.ts'
import { protocolFailure, readXml } from '../http/xml.ts'
import { type BucketLocation, encodeKey } from './bucket-url.ts'

export interface Page {
  readonly entries: readonly SourceEntry[]
  /** first key of the page as sent; null for an empty page */
  readonly firstName: string | null
  /** continuation token; null on the last page */
  readonly nextToken: string | null
}

/** Keys per page, the maximum of the protocol. */
const pageSize = 1000
/** A page of 1,000 percent-encoded keys of 1,024 bytes has 4 MB. */
const pageFormat = { root: 'ListBucketResult', label: 'an S3 list', maxBodyBytes: 16 << 20, maxChildLength: 64 << 10 }

/** Requests the page of `token` and reads it completely. Throws SourceFailure. */
export async function listPage(
  http: HttpClient,
  location: BucketLocation,
  { token, recursive, signal, maxAttempts = 3 }: { token: string | null; recursive: boolean; signal: AbortSignal; maxAttempts?: number },
): Promise<Page> {
  const query = Object.entries({
    'list-type': '2',
    // Keys may contain control characters, which XML cannot represent.
    'encoding-type': 'url',
    'max-keys': String(pageSize),
    prefix: location.prefix,
    ...(recursive ? {} : { delimiter: '/' }),
    ...(token === null ? {} : { 'continuation-token': token }),
  })
  const url = new URL(location.bucket)
  url.search = query.map(([name, value]) => `${name}=${encodeKey(value)}`).join('&')
  return readResponse(http, { method: 'GET', url, signal, maxAttempts }, ({ body }) => parsePage(body, location.prefix))
}

type ListedObject = Partial<Record<'Key' | 'Size' | 'ETag' | 'LastModified', string>>

async function parsePage(body: AsyncIterable<Uint8Array>, prefix: string): Promise<Page> {
  const objects: ListedObject[] = []
  const summary: Partial<Record<string, string>> = {}
  let current: Record<string, string> = {}
  let firstFolder: string | null = null
  await readXml(body, pageFormat, (path, text) => {
    const [outer = '', inner] = path.split('/')
    if (path === 'Contents') {
      objects.push(current)
      current = {}
      if (objects.length > pageSize) throw protocolFailure(`The response has more than the requested ${pageSize} keys.`)
    } else if (outer === 'Contents' && inner !== undefined) current[inner] ??= text
    else if (path === 'CommonPrefixes/Prefix') firstFolder ??= text
    else if (inner === undefined) summary[outer] = text
  })
  const isTruncated = summary.IsTruncated?.trim()
  const next = summary.NextContinuationToken ?? ''
  // A truncated list taken as complete would make files look removed.
  if (isTruncated !== 'false' && (isTruncated !== 'true' || next === ''))
    throw protocolFailure('The list has no valid IsTruncated and NextContinuationToken: does the server support ListObjectsV2?')
  const isEncoded = summary.EncodingType?.trim() === 'url'
  return {
    entries: objects.map((one) => toEntry(one, prefix, isEncoded)).filter((entry) => entry !== null),
    firstName: objects[0]?.Key ?? firstFolder,
    nextToken: isTruncated === 'true' ? next : null,
  }
}

/** Converts an object to an entry below the prefix; null for the prefix itself. */
function toEntry({ Key = '', Size = '', ETag, LastModified = '' }: ListedObject, prefix: string, isEncoded: boolean): SourceEntry | null {
  const key = isEncoded ? decodeKey(Key) : Key
  if (key === null) return problem(Key, 'The name is not UTF-8.')
  if (!key.startsWith(prefix) || key === '') return problem(key, 'The key is outside of the listed prefix.')
  const path = key.slice(prefix.length)
  const size = /^\d{1,15}$/.test(Size) ? Number(Size) : null
  if (path === '') return null
  // Buckets have no directories; an empty object with a trailing slash stands for one.
  const isFolder = path.endsWith('/') && size === 0
  const parts = (isFolder ? path.slice(0, -1) : path).split('/')
  if (!parts.every((part) => part !== '' && isValidName(part)))
    return problem(path, 'The key contains “..”, a double or trailing slash, a backslash or a control character.')
  if (Buffer.byteLength(path) > maxPathBytes) return problem(path, `The path is longer than ${maxPathBytes} bytes.`)
  if (parts.length > maxDepth + 1) return problem(path, `The path is deeper than ${maxDepth} folders.`)
  if (isFolder) return { kind: 'folder', path: parts.join('/'), etag: null, isPruned: false }
  const time = Date.parse(LastModified)
  return { kind: 'file', file: { path, size, etag: quoteEtag(ETag), modifiedAt: isStorableTime(time) ? new Date(time) : null } }
}

/** Quotes an etag as in the ETag header. */
function quoteEtag(text: string | undefined): string | null {
  const tag = normalizeEtag(text?.trim())
  return tag === null || tag.startsWith('"') ? tag : `"${tag}"`
}

/** Decodes a key. Servers encode a space as `+` or `%20` and never leave a literal `+`. */
function decodeKey(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', '%20'))
  } catch {
    return null
  }
}

const problem = (path: string, message: string): SourceEntry => ({
  kind: 'problem',
  path: truncateForDisplay(path),
  code: 'SOURCE_PROTOCOL',
  message,
})
