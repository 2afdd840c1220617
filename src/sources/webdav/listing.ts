/** Lists one folder of a WebDAV server (PROPFIND, Depth: 1). */

import { type SourceEntry, SourceFailure, type SourceFailureCode, type SourceFile } from '../../ports/source-type.ts'
import { type HttpClient, readResponse, type SourceRequest } from '../http/http-client.ts'
import { truncateForDisplay, urlBelow } from '../http/urls.ts'
import { createHrefResolver, isSameFolder } from './hrefs.ts'
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

/** Total length of names and etags in one folder: about 500,000 files. */
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
  { root, path, signal, maxAttempts = 3 }: { root: URL; path: string; signal: AbortSignal; maxAttempts?: number },
): Promise<Listing> {
  const folderRequestUrl = urlBelow(root, path, true)
  const request: SourceRequest = {
    method: 'PROPFIND',
    url: folderRequestUrl,
    headers: { depth: '1', 'content-type': 'application/xml; charset=utf-8', accept: 'application/xml, text/xml' },
    body: propfindBody(path === '' ? ownCloudProperties : ''),
    signal,
    maxAttempts,
  }
  return readResponse(http, request, async ({ body, status, url, header }) => {
    if (status !== 207) throw new SourceFailure('SOURCE_PROTOCOL', `The answer is not a WebDAV list (status ${status}).`)
    // A redirect of the root changes the address; a redirect of a folder in it could be a loop or lead elsewhere.
    if (path !== '' && !isSameFolder(url, folderRequestUrl))
      throw new SourceFailure('SOURCE_PROTOCOL', 'The folder redirects to another place.')
    const from = url.pathname.endsWith('/') ? url : new URL(`${url.origin}${url.pathname}/`)
    return collectListing(readMultistatus(body, header('content-type') ?? ''), from, path)
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

async function collectListing(answer: AsyncIterable<DavResource[]>, url: URL, path: string): Promise<Listing> {
  const place = createHrefResolver(url, path)
  const [files, folders] = [createColumns(), createColumns()]
  const problems: Extract<SourceEntry, { kind: 'problem' }>[] = []
  const names = new Set<string>()
  let self: DavResource | null = null
  let text = 0
  const addProblem = (at: string, code: SourceFailureCode, message: string) => {
    if (problems.length < maxProblems) problems.push({ kind: 'problem', path: copyString(at), code, message })
  }
  for await (const batch of answer) {
    for (const thing of batch) {
      const where = place(thing.href)
      if (where.is === 'self') self ??= thing
      if (where.is === 'wrong') addProblem(joinPath(path, truncateForDisplay(thing.href)), 'SOURCE_PROTOCOL', where.message)
      if (where.is !== 'child' || names.has(where.name)) continue
      text += where.name.length + (thing.etag?.length ?? 0)
      if (text > maxTextLength) throw new SourceFailure('SOURCE_PROTOCOL', 'The folder holds more than can be listed.')
      if (thing.status !== 200) {
        addProblem(joinPath(path, where.name), ...statusFailure(thing.status))
        continue
      }
      const kind = thing.isFolder ? folders : files
      kind.add(thing, where.name)
      names.add(kind.names.at(-1) as string)
    }
  }
  if (self && self.status !== 200) throw new SourceFailure(...statusFailure(self.status))
  if (self && !self.isFolder) throw new SourceFailure('SOURCE_PROTOCOL', 'The address is that of a file, not of a folder.')
  // A server whose disk is not mounted may send an empty list. An empty folder still lists itself.
  if (!self && names.size === 0)
    throw new SourceFailure(
      'SOURCE_PROTOCOL',
      problems[0]
        ? `The list holds no name in this folder. ${problems[0].message}`
        : 'The list is empty: not even the folder itself is in it.',
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
  return ['SOURCE_PROTOCOL', status === 0 ? 'The list has no status for it.' : `The list has status ${status} for it.`]
}

const joinPath = (path: string, name: string) => (path === '' ? name : `${path}/${name}`)
/** Copies a substring, so that the text it was cut from can be freed. */
const copyString = (text: string) => Buffer.from(text).toString()
