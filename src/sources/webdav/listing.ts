/** One folder of a WebDAV server, asked for with Depth 1. */
import { type SourceEntry, SourceFailure, type SourceFailureCode, type SourceFile } from '../../ports/source-type.ts'
import { type Asked, type Requests, readWhole } from '../http/requests.ts'
import { isSameFolder, placesOf, shown, urlBelow } from './hrefs.ts'
import { type Listed, readMultistatus } from './multistatus.ts'

export interface Listing {
  /** where it came from, after redirects */
  readonly url: URL
  readonly etag: string | null
  readonly isOwnCloud: boolean
  files(): Generator<SourceFile>
  folders(): Generator<{ path: string; etag: string | null }>
  readonly problems: readonly Extract<SourceEntry, { kind: 'problem' }>[]
}

/** Characters of names and tags that one folder may have: some 500,000 files. */
const maxText = 50_000_000
const maxProblems = 1000

// A folder's tag tells of changes below it on ownCloud and its children alone, and these two properties exist nowhere else. They are asked for
// with the first folder only: elsewhere they would make every answer longer.
const first = '<oc:id/><oc:permissions/>'
const question = (more: string) =>
  `<?xml version="1.0" encoding="utf-8"?><d:propfind xmlns:d="DAV:" xmlns:oc="http://owncloud.org/ns"><d:prop><d:resourcetype/><d:getetag/><d:getlastmodified/><d:getcontentlength/>${more}</d:prop></d:propfind>`

/**
 * Lists the folder at `path` below `root`. The answer is read to its end before anything of it is used: a slow reader would make the server
 * give up, and a list that breaks off in the middle would look like one. Throws SourceFailure.
 */
export async function listFolder(
  requests: Requests,
  { root, path, signal, tries = 3 }: { root: URL; path: string; signal: AbortSignal; tries?: number },
): Promise<Listing> {
  const asked = urlBelow(root, path, true)
  const request: Asked = {
    method: 'PROPFIND',
    url: asked,
    headers: { depth: '1', 'content-type': 'application/xml; charset=utf-8', accept: 'application/xml, text/xml' },
    body: question(path === '' ? first : ''),
    signal,
    tries,
  }
  return readWhole(requests, request, async ({ body, status, url, header }) => {
    if (status !== 207) throw new SourceFailure('SOURCE_PROTOCOL', `The answer is not a WebDAV list (status ${status}).`)
    // Where the address leads is the address; a folder in it that leads elsewhere would be a loop, or not in it.
    if (path !== '' && !isSameFolder(url, asked)) throw new SourceFailure('SOURCE_PROTOCOL', 'The folder redirects to another place.')
    const from = url.pathname.endsWith('/') ? url : new URL(`${url.origin}${url.pathname}/`)
    return collected(readMultistatus(body, header('content-type') ?? ''), from, path)
  })
}

/** Names and what is known of them, in columns: a folder may hold 100,000 of them. */
function columns() {
  const names: string[] = []
  const tags: (string | null)[] = []
  const sizes: (number | null)[] = []
  const times: (number | null)[] = []
  return {
    names,
    put({ size, etag, modifiedAt }: Listed, name: string): void {
      names.push(flat(name))
      tags.push(etag === null ? null : flat(etag))
      sizes.push(size)
      times.push(modifiedAt)
    },
    *all(path: string): Generator<SourceFile> {
      for (const [index, name] of names.entries()) {
        const time = times[index] ?? null
        yield {
          path: below(path, name),
          size: sizes[index] ?? null,
          etag: tags[index] ?? null,
          modifiedAt: time === null ? null : new Date(time),
        }
      }
    },
  }
}

async function collected(answer: AsyncIterable<Listed[]>, url: URL, path: string): Promise<Listing> {
  const place = placesOf(url, path)
  const [files, folders] = [columns(), columns()]
  const problems: Extract<SourceEntry, { kind: 'problem' }>[] = []
  const seen = new Set<string>()
  let self: Listed | null = null
  let text = 0
  const problem = (at: string, code: SourceFailureCode, message: string) => {
    if (problems.length < maxProblems) problems.push({ kind: 'problem', path: flat(at), code, message })
  }
  for await (const batch of answer) {
    for (const thing of batch) {
      const where = place(thing.href)
      if (where.is === 'self') self ??= thing
      if (where.is === 'wrong') problem(below(path, shown(thing.href)), 'SOURCE_PROTOCOL', where.message)
      if (where.is !== 'child' || seen.has(where.name)) continue
      text += where.name.length + (thing.etag?.length ?? 0)
      if (text > maxText) throw new SourceFailure('SOURCE_PROTOCOL', 'The folder holds more than can be listed.')
      if (thing.status !== 200) {
        problem(below(path, where.name), ...refusals(thing.status))
        continue
      }
      const kind = thing.isFolder ? folders : files
      kind.put(thing, where.name)
      seen.add(kind.names.at(-1) as string)
    }
  }
  if (self && self.status !== 200) throw new SourceFailure(...refusals(self.status))
  if (self && !self.isFolder) throw new SourceFailure('SOURCE_PROTOCOL', 'The address is that of a file, not of a folder.')
  // A server that has lost its disk may answer with nothing at all; a folder that is empty still lists itself.
  if (!self && seen.size === 0)
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
    files: () => files.all(path),
    folders: () => folders.all(path),
    problems,
  }
}

function refusals(status: number): [SourceFailureCode, string] {
  if (status === 401 || status === 403) return ['SOURCE_FORBIDDEN', 'The source refuses access.']
  if (status === 404 || status === 410) return ['SOURCE_NOT_FOUND_THERE', 'The source lists it, and says that it is not there.']
  return ['SOURCE_PROTOCOL', status === 0 ? 'The list says nothing of it.' : `The list says status ${status} of it.`]
}

const below = (path: string, name: string) => (path === '' ? name : `${path}/${name}`)
/** A copy that does not keep the text alive which it was cut from. */
const flat = (text: string) => Buffer.from(text).toString()
