/** One page of the list of a bucket: ListObjectsV2. */
import { type SourceEntry, SourceFailure } from '../../ports/source-type.ts'
import { type Requests, readWhole } from '../http/requests.ts'
import { isName, maxDepth, maxPathBytes, shown } from '../webdav/hrefs.ts'
import { isDate, plainTag } from '../webdav/multistatus.ts'
import { encodeKey, type Place } from './address.ts'
import { readXml } from './xml.ts'

export interface Page {
  readonly entries: readonly SourceEntry[]
  /** the first name of the page, as it was sent; null where it has none */
  readonly first: string | null
  /** what the next page is asked for with; null: there is none */
  readonly next: string | null
}

/** Names that are asked for at once: no server gives more. */
const pageSize = 1000

/** Asks for the page that `token` leads to; the whole of it has come before anything is used. Throws SourceFailure. */
export async function listPage(
  requests: Requests,
  place: Place,
  { token, recursive, signal, tries = 3 }: { token: string | null; recursive: boolean; signal: AbortSignal; tries?: number },
): Promise<Page> {
  const query = Object.entries({
    'list-type': '2',
    // XML has no control characters, and names may.
    'encoding-type': 'url',
    'max-keys': String(pageSize),
    prefix: place.prefix,
    ...(recursive ? {} : { delimiter: '/' }),
    ...(token === null ? {} : { 'continuation-token': token }),
  })
  const url = new URL(place.bucket)
  url.search = query.map(([name, value]) => `${name}=${encodeKey(value)}`).join('&')
  return readWhole(requests, { method: 'GET', url, signal, tries }, ({ body }) => read(body, place.prefix))
}

type Found = Partial<Record<'Key' | 'Size' | 'ETag' | 'LastModified', string>>

async function read(body: AsyncIterable<Uint8Array>, prefix: string): Promise<Page> {
  const found: Found[] = []
  const about: Partial<Record<string, string>> = {}
  let current: Record<string, string> = {}
  let firstFolder: string | null = null
  await readXml(body, 'ListBucketResult', (path, text) => {
    const [, outer = '', inner] = path.split('/')
    if (inner === undefined && outer === 'Contents') {
      found.push(current)
      current = {}
      if (found.length > pageSize) throw wrong(`The list has more than the ${pageSize} names that it was asked for.`)
    } else if (outer === 'Contents' && inner !== undefined) current[inner] ??= text
    else if (path === 'ListBucketResult/CommonPrefixes/Prefix') firstFolder ??= text
    else if (inner === undefined) about[outer] = text
  })
  const isTruncated = about.IsTruncated?.trim()
  const next = about.NextContinuationToken ?? ''
  // A list that is taken for whole, and is not, would look as if files were gone.
  if (isTruncated !== 'false' && (isTruncated !== 'true' || next === ''))
    throw wrong('The list does not say how it goes on: does the server know ListObjectsV2?')
  const isEncoded = about.EncodingType?.trim() === 'url'
  return {
    entries: found.map((one) => entryOf(one, prefix, isEncoded)).filter((entry) => entry !== null),
    first: found[0]?.Key ?? firstFolder,
    next: isTruncated === 'true' ? next : null,
  }
}

/** What an object is below the prefix; null for the prefix itself. */
function entryOf({ Key = '', Size = '', ETag, LastModified = '' }: Found, prefix: string, isEncoded: boolean): SourceEntry | null {
  const key = isEncoded ? decoded(Key) : Key
  if (key === null) return problem(Key, 'The name is not UTF-8.')
  if (!key.startsWith(prefix) || key === '') return problem(key, 'The name lies outside the folder that was listed.')
  const path = key.slice(prefix.length)
  const size = /^\d{1,15}$/.test(Size) ? Number(Size) : null
  if (path === '') return null
  // How folders without files are written down, since buckets have no folders.
  const isFolder = path.endsWith('/') && size === 0
  const parts = (isFolder ? path.slice(0, -1) : path).split('/')
  if (!parts.every((part) => part !== '' && isName(part)))
    return problem(path, 'The name holds “..”, a doubled slash or one at its end, a backslash or a control character.')
  if (Buffer.byteLength(path) > maxPathBytes) return problem(path, `The path is longer than ${maxPathBytes} bytes.`)
  if (parts.length > maxDepth + 1) return problem(path, `The path is deeper than ${maxDepth} folders.`)
  if (isFolder) return { kind: 'folder', path: parts.join('/'), etag: null, isPruned: false }
  const time = Date.parse(LastModified)
  return { kind: 'file', file: { path, size, etag: tagOf(ETag), modifiedAt: isDate(time) ? new Date(time) : null } }
}

/** As the header of the same name has it, with quotes. */
function tagOf(text: string | undefined): string | null {
  const tag = plainTag(text?.trim())
  return tag === null || tag.startsWith('"') ? tag : `"${tag}"`
}

/** Servers encode a space as `+` or as `%20`, and never leave a `+` as it is. */
function decoded(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', '%20'))
  } catch {
    return null
  }
}

const problem = (path: string, message: string): SourceEntry => ({ kind: 'problem', path: shown(path), code: 'SOURCE_PROTOCOL', message })
const wrong = (message: string) => new SourceFailure('SOURCE_PROTOCOL', message)
