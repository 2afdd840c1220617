/** Lists a bucket page by page (ListObjectsV2). */

import type { SourceEntry } from '../../ports/source-type.ts'
import { type ListedObject, listUrl, parseListPage } from '../../s3/list-page.ts'
import { type HttpClient, readResponse } from '../http/http-client.ts'
import { isStorableTime, normalizeEtag } from '../http/responses.ts'
import { isValidName, maxDepth, maxPathBytes, truncateForDisplay } from '../http/urls.ts'
import type { BucketLocation } from './bucket-url.ts'

export interface Page {
  readonly entries: readonly SourceEntry[]
  /** first key of the page as sent; null for an empty page */
  readonly firstName: string | null
  /** continuation token; null on the last page */
  readonly nextToken: string | null
}

/** Requests the page of `token` and reads it completely. Throws SourceFailure. */
export async function listPage(
  http: HttpClient,
  location: BucketLocation,
  { token, recursive, signal, maxAttempts = 3 }: { token: string | null; recursive: boolean; signal: AbortSignal; maxAttempts?: number },
): Promise<Page> {
  const url = listUrl(location.bucket, { prefix: location.prefix, token, ...(recursive ? {} : { delimiter: '/' }) })
  const page = await readResponse(http, { method: 'GET', url, signal, maxAttempts }, ({ body }) => parseListPage(body))
  return {
    entries: page.objects.map((one) => toEntry(one, location.prefix)).filter((entry) => entry !== null),
    firstName: page.objects[0]?.sentKey ?? page.firstFolder,
    nextToken: page.nextToken,
  }
}

/** Converts an object to an entry below the prefix; null for the prefix itself. */
function toEntry({ key, sentKey, size, etag, modifiedAtMs }: ListedObject, prefix: string): SourceEntry | null {
  if (key === null) return problem(sentKey, 'The name is not UTF-8.')
  if (!key.startsWith(prefix) || key === '') return problem(key, 'The key is outside of the listed prefix.')
  const path = key.slice(prefix.length)
  if (path === '') return null
  // Buckets have no directories; an empty object with a trailing slash stands for one.
  const isFolder = path.endsWith('/') && size === 0
  const parts = (isFolder ? path.slice(0, -1) : path).split('/')
  if (!parts.every((part) => part !== '' && isValidName(part)))
    return problem(path, 'The key contains “..”, a double or trailing slash, a backslash or a control character.')
  if (Buffer.byteLength(path) > maxPathBytes) return problem(path, `The path is longer than ${maxPathBytes} bytes.`)
  if (parts.length > maxDepth + 1) return problem(path, `The path is deeper than ${maxDepth} folders.`)
  if (isFolder) return { kind: 'folder', path: parts.join('/'), etag: null, isPruned: false }
  const modifiedAt = isStorableTime(modifiedAtMs) ? new Date(modifiedAtMs) : null
  return { kind: 'file', file: { path, size, etag: quoteEtag(etag), modifiedAt } }
}

/** Quotes an etag as in the ETag header. */
function quoteEtag(text: string | undefined): string | null {
  const tag = normalizeEtag(text?.trim())
  return tag === null || tag.startsWith('"') ? tag : `"${tag}"`
}

const problem = (path: string, message: string): SourceEntry => ({
  kind: 'problem',
  path: truncateForDisplay(path),
  code: 'SOURCE_PROTOCOL',
  message,
  isUnusableName: true,
})
