/** Pages of ListObjectsV2. */
import { InvalidXml, readXml } from '../xml.ts'
import { encodeQuery } from './urls.ts'

export interface ListedObject {
  /** null for a key that is not UTF-8 */
  readonly key: string | null
  /** key as sent */
  readonly sentKey: string
  /** null for an invalid size */
  readonly size: number | null
  readonly etag: string | undefined
  /** milliseconds since 1970; NaN for an invalid time */
  readonly modifiedAtMs: number
}

export interface ListPage {
  readonly objects: readonly ListedObject[]
  /** first common prefix; null for none */
  readonly firstFolder: string | null
  /** continuation token; null on the last page */
  readonly nextToken: string | null
}

export interface ListOptions {
  readonly prefix: string
  readonly token: string | null
  readonly delimiter?: string
}

/** Keys per page, the maximum of the protocol. */
const pageSize = 1000
/** A page of 1,000 percent-encoded keys of 1,024 bytes has 4 MB. */
const pageFormat = { root: 'ListBucketResult', label: 'an S3 list', maxBodyBytes: 16 << 20, maxChildLength: 64 << 10 }

/** Returns the URL of a page of the bucket's list. */
export function listUrl(bucket: URL, { prefix, token, delimiter }: ListOptions): URL {
  const url = new URL(bucket)
  url.search = encodeQuery({
    'list-type': '2',
    // Keys may contain control characters, which XML cannot represent.
    'encoding-type': 'url',
    'max-keys': String(pageSize),
    prefix,
    ...(delimiter === undefined ? {} : { delimiter }),
    ...(token === null ? {} : { 'continuation-token': token }),
  })
  return url
}

/** Parses a page. Throws InvalidXml, also for a list that does not say whether it is complete. */
export async function parseListPage(body: AsyncIterable<Uint8Array>): Promise<ListPage> {
  const objects: Record<string, string>[] = []
  const summary: Partial<Record<string, string>> = {}
  let current: Record<string, string> = {}
  let firstFolder: string | null = null
  await readXml(body, pageFormat, (path, text) => {
    const [outer = '', inner] = path.split('/')
    if (path === 'Contents') {
      objects.push(current)
      current = {}
      if (objects.length > pageSize) throw new InvalidXml(`The response has more than the requested ${pageSize} keys.`)
    } else if (outer === 'Contents' && inner !== undefined) current[inner] ??= text
    else if (path === 'CommonPrefixes/Prefix') firstFolder ??= text
    else if (inner === undefined) summary[outer] = text
  })
  const isTruncated = summary.IsTruncated?.trim()
  const next = summary.NextContinuationToken ?? ''
  // A truncated list taken as complete would make files look removed.
  if (isTruncated !== 'false' && (isTruncated !== 'true' || next === ''))
    throw new InvalidXml('The list has no valid IsTruncated and NextContinuationToken: does the server support ListObjectsV2?')
  const isEncoded = summary.EncodingType?.trim() === 'url'
  return {
    objects: objects.map(({ Key = '', Size = '', ETag, LastModified = '' }) => ({
      key: isEncoded ? decodeKey(Key) : Key,
      sentKey: Key,
      size: /^\d{1,15}$/.test(Size) ? Number(Size) : null,
      etag: ETag,
      modifiedAtMs: Date.parse(LastModified),
    })),
    firstFolder,
    nextToken: isTruncated === 'true' ? next : null,
  }
}

/** Decodes a key. Servers encode a space as `+` or `%20` and never leave a literal `+`. */
function decodeKey(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', '%20'))
  } catch {
    return null
  }
}
