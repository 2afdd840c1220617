/** Lists one folder of a WebDAV server (PROPFIND, Depth: 1). */

import { type SourceEntry, SourceFailure, type SourceFailureCode, type SourceFile } from '../../ports/source-type.ts'
import { type HttpClient, readResponse, type SourceRequest } from '../http/http-client.ts'
import { decodePath, maxDepth, maxPathBytes, truncateForDisplay, urlBelow } from '../http/urls.ts'
import { type DavResource, readMultistatus } from './multistatus.ts'

export interface Listing {
  /** after redirects */
  readonly url: URL
  readonly etag: string | null
  readonly isOwnCloud: boolean
  files(): Generator<SourceFile>
  folders(): Generator<{ path: string; etag: string | null }>
  readonly problems: readonly Extract<SourceEntry, { kind: 'problem' }>[]
}

/** Maximum total length of names and etags in one folder. */
const maxTextLength = 50_000_000
const maxProblems = 1000

// Only ownCloud and its forks have these properties, and only there a folder's etag covers everything below it. The first request asks for them
// to detect such a server; later requests omit them to keep the responses short.
const ownCloudProperties = '<oc:id/><oc:permissions/>'
const propfindBody = (more: string) =>
  `<?xml version="1.0" encoding="utf-8"?><d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><d:resourcetype/><d:getetag/><d:getlastmodified/><d:getcontentlength/>${more}</d:prop></d:propfind>`

/**
 * Lists the folder at `path` below `root`. Reads the response to its end before using it: a slow consumer would run into the server's timeout,
 * and a truncated list would look complete. Throws SourceFailure.
 */
export async function listFolder(
  http: HttpClient,
  {
    root,
    path,
    signal,
    maxEntries,
    maxAttempts = 3,
  }: { root: URL; path: string; signal: AbortSignal; maxEntries: number; maxAttempts?: number },
): Promise<Listing> {
  const folderRequestUrl = urlBelow(root, path === '' ? '' : `${path}/`)
  const request: SourceRequest = {
    method: 'PROPFIND',
    url: folderRequestUrl,
    headers: { depth: '1', 'content-type': 'application/xml; charset=utf-8', accept: 'application/xml, text/xml' },
    body: propfindBody(path === '' ? ownCloudProperties : ''),
    signal,
    maxAttempts,
  }
  return readResponse(http, request, async ({ body, status, url, header }) => {
    if (status !== 207) throw new SourceFailure('SOURCE_PROTOCOL', `The response is not a WebDAV list (status ${status}).`)
    // A redirect of the root changes the address; a redirect of a folder in it could be a loop or lead elsewhere.
    if (path !== '' && !isSameFolder(url, folderRequestUrl))
      throw new SourceFailure('SOURCE_PROTOCOL', 'The folder redirects to another place.')
    const from = url.pathname.endsWith('/') ? url : new URL(`${url.origin}${url.pathname}/`)
    return collectListing((onResource) => readMultistatus(body, header('content-type') ?? '', onResource), from, path, maxEntries)
  })
}

/** Stores entries in columns, which saves memory for folders of 100,000 files. */
function createColumns() {
  const names: string[] = []
  const tags: (string | null)[] = []
  const sizes: (number | null)[] = []
  const times: (number | null)[] = []
  return {
    names,
    add({ size, etag, modifiedAt }: DavResource, name: string): void {
      names.push(copyString(name))
      tags.push(etag === null ? null : copyString(etag))
      sizes.push(size)
      times.push(modifiedAt)
    },
    *toFiles(path: string): Generator<SourceFile> {
      for (const [index, name] of names.entries()) {
        const time = times[index] ?? null
        yield {
          path: joinPath(path, name),
          size: sizes[index] ?? null,
          etag: tags[index] ?? null,
          modifiedAt: time === null ? null : new Date(time),
        }
      }
    },
  }
}

async function collectListing(
  read: (onResource: (resource: DavResource) => void) => Promise<void>,
  url: URL,
  path: string,
  maxEntries: number,
): Promise<Listing> {
  const resolveHref = createHrefResolver(url, path)
  const [files, folders] = [createColumns(), createColumns()]
  const problems: Extract<SourceEntry, { kind: 'problem' }>[] = []
  const names = new Set<string>()
  const listed: { self?: DavResource } = {}
  let textLength = 0
  const addProblem = (at: string, code: SourceFailureCode, message: string) => {
    if (problems.length < maxProblems) problems.push({ kind: 'problem', path: copyString(at), code, message })
    // The problem of the folder stands for the others: nothing below it counts as removed.
    else if (problems.length === maxProblems)
      problems.push({
        kind: 'problem',
        path,
        code: 'SOURCE_PROTOCOL',
        message: `More than ${maxProblems} entries of the folder cannot be read.`,
      })
  }
  await read((resource) => {
    const target = resolveHref(resource.href)
    // A server that cuts the list adds a response for the folder with status 507, as in RFC 6578, 3.6.
    if (target.is === 'self' && (!listed.self || resource.status !== 200)) listed.self = resource
    if (target.is === 'wrong') addProblem(joinPath(path, truncateForDisplay(resource.href)), 'SOURCE_PROTOCOL', target.message)
    // It may be any file of the folder: none is taken for removed.
    if (target.is === 'elsewhere')
      addProblem(path, 'SOURCE_PROTOCOL', `The entry is on another server: ${truncateForDisplay(resource.href)}`)
    if (target.is !== 'child' || names.has(target.name)) return
    textLength += target.name.length + (resource.etag?.length ?? 0)
    if (textLength > maxTextLength || names.size === maxEntries)
      throw new SourceFailure('SOURCE_PROTOCOL', 'The folder has too many entries to be listed.')
    if (resource.status !== 200) return addProblem(joinPath(path, target.name), ...statusFailure(resource.status))
    const columns = resource.isFolder ? folders : files
    columns.add(resource, target.name)
    names.add(columns.names.at(-1) as string)
  })
  const { self } = listed
  if (self && self.status !== 200) throw new SourceFailure(...statusFailure(self.status))
  if (self && !self.isFolder) throw new SourceFailure('SOURCE_PROTOCOL', 'The address is a file, not a folder.')
  // A server whose disk is not mounted may send an empty list. An empty folder still lists itself.
  if (!self && names.size === 0)
    throw new SourceFailure(
      'SOURCE_PROTOCOL',
      problems[0]
        ? `The list has no entry of this folder. ${problems[0].message}`
        : 'The list is empty. It should contain at least the folder itself.',
    )
  return {
    url,
    etag: self?.etag ?? null,
    isOwnCloud: self?.isOwnCloud ?? false,
    files: () => files.toFiles(path),
    folders: () => folders.toFiles(path),
    problems,
  }
}

function statusFailure(status: number): [SourceFailureCode, string] {
  if (status === 401 || status === 403) return ['SOURCE_FORBIDDEN', 'The source refuses access.']
  if (status === 404 || status === 410) return ['SOURCE_NOT_FOUND_THERE', 'The source lists it but reports it as missing.']
  if (status === 507) return ['SOURCE_PROTOCOL', 'The source sends a part of the list only (status 507).']
  return ['SOURCE_PROTOCOL', status === 0 ? 'The list has no status for it.' : `The list has status ${status} for it.`]
}

const joinPath = (path: string, name: string) => (path === '' ? name : `${path}/${name}`)
/** Copies a substring. The whole text can be freed then. */
const copyString = (text: string) => Buffer.from(text).toString()

/** Compares the decoded paths of two URLs. */
const isSameFolder = (one: URL, other: URL): boolean => decodePath(one.pathname)?.join('/') === decodePath(other.pathname)?.join('/')

/** Target of an href: the listed folder, an entry in it, something deeper, an entry of another server, or an invalid place. */
type HrefTarget = { is: 'self' | 'deeper' | 'elsewhere' } | { is: 'child'; name: string } | { is: 'wrong'; message: string }

/** Returns a function that resolves hrefs in the listing of `folder`; `path` is its path below the address. */
function createHrefResolver(folder: URL, path: string): (href: string) => HrefTarget {
  const base = decodePath(folder.pathname) ?? []
  const depth = path === '' ? 0 : path.split('/').length
  const room = maxPathBytes - Buffer.byteLength(path) - 1
  return (href) => {
    const absolute = /^(?:[a-z][a-z0-9+.-]*:)?\/\/([^/]*)(.*)$/is.exec(href)
    // Behind a proxy, servers often send a wrong scheme or port. Requests go to the configured address anyway.
    if (absolute && parseHost(absolute[1] ?? '') !== folder.hostname) return { is: 'elsewhere' }
    const own = absolute ? absolute[2] || '/' : href
    if (own === '') return invalidHref('The entry has no name.')
    // Most hrefs begin with the requested path or are relative to it, so only their end is decoded.
    const end = own.startsWith(folder.pathname) ? own.slice(folder.pathname.length) : own.startsWith('/') ? null : own
    const parts = decodePath(end ?? own)
    if (parts === null) return invalidHref('The name is not UTF-8, or contains “..”, a slash, a backslash or a control character.')
    const depthOfBase = end === null ? base.length : 0
    if (end === null && !base.every((part, index) => parts[index] === part))
      return invalidHref('The entry is outside of the listed folder.')
    const name = parts[depthOfBase]
    if (name === undefined) return { is: 'self' }
    if (parts.length > depthOfBase + 1) return { is: 'deeper' }
    if (Buffer.byteLength(name) > room) return invalidHref(`The path is longer than ${maxPathBytes} bytes.`)
    if (depth >= maxDepth) return invalidHref(`The path is deeper than ${maxDepth} folders: is it a loop?`)
    return { is: 'child', name }
  }
}

const invalidHref = (message: string): HrefTarget => ({ is: 'wrong', message })

const parseHost = (authority: string) => (URL.canParse(`http://${authority}`) ? new URL(`http://${authority}`).hostname : '')
