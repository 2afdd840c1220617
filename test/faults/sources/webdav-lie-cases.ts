/** The cases of F20: the cases of the adapter's tests, and cases with several requests. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { SourceFile } from '../../../src/ports/source-type.ts'
import {
  fileAt,
  folderAt,
  multistatus,
  says,
  self,
  wrongDownloads,
  wrongLists,
  wrongNames,
  wrongStatuses,
  xml,
} from '../../support/servers/webdav-lies.ts'

export interface Lie {
  readonly name: string
  /** result of the sync */
  readonly ends: 'completed' | 'failed'
  /** code of the file or of the whole sync; null: none */
  readonly code: string | null
  /** one file has an unreadable new version */
  readonly isOfVictim?: boolean
  /** Answers a request instead of the server; false: it is answered as usual. */
  answer(files: ReadonlyMap<string, string>, request: IncomingMessage, response: ServerResponse, count: number): boolean
}

/** the file whose downloads fail */
export const victim = 'a.pdf'
/** a file that appears while the server misbehaves */
export const newFile = 'new.txt'

const properties = (size: number | null, etag: string | null) =>
  `${size === null ? '' : `<D:getcontentlength>${size}</D:getcontentlength>`}${etag === null ? '' : `<D:getetag>${etag}</D:getetag>`}`

/** Returns the entries of a list, with the ETag of `etagOf`, by default of the content. */
export const listed = (
  files: ReadonlyMap<string, string>,
  etagOf: (content: string) => string | null = (content) => `"${Buffer.from(content).toString('hex')}"`,
): string[] => [...files].map(([name, content]) => fileAt(`/dav/${name}`, properties(content.length, etagOf(content))))

const lieOfLists =
  (listOf: (files: ReadonlyMap<string, string>, count: number) => string): Lie['answer'] =>
  (files, request, response, count) => {
    if (request.method !== 'PROPFIND') return false
    response.writeHead(207, xml).end(listOf(files, count))
    return true
  }

const ofNames = wrongNames.map(
  ([what, href]): Lie => ({
    name: `a name ${what}`,
    ends: 'completed',
    code: 'SOURCE_PROTOCOL',
    answer: lieOfLists((files) => multistatus(self, fileAt(href), ...listed(files))),
  }),
)

const ofLists = wrongLists.map(
  ([what, body, status = 207, headers = xml]): Lie => ({
    name: `for a list: ${what}`,
    ends: 'failed',
    code: 'SOURCE_PROTOCOL',
    answer(_, request, response, count) {
      says(status, headers, body)(request, response, count)
      return true
    },
  }),
)

const ofStatuses = wrongStatuses.map(
  ([status, code]): Lie => ({
    name: `for a list: status ${status}`,
    ends: 'failed',
    code,
    answer(_, request, response, count) {
      says(status, {}, 'no')(request, response, count)
      return true
    },
  }),
)

const listedAs = ({ size = 500, etag = '"e"' }: Partial<SourceFile>) => fileAt(`/dav/${victim}`, properties(size, etag))

const ofDownloads = wrongDownloads.map(
  ([what, handler, as, { code }]): Lie => ({
    name: `for a file: ${what}`,
    ends: 'completed',
    code,
    isOfVictim: true,
    answer(files, request, response, count) {
      const others = new Map([...files].filter(([name]) => name !== victim))
      if (request.method === 'PROPFIND') response.writeHead(207, xml).end(multistatus(self, listedAs(as), ...listed(others)))
      else if (others.has((request.url ?? '').slice('/dav/'.length))) return false
      else handler(request, response, count)
      return true
    },
  }),
)

const ofWholes: readonly Lie[] = [
  {
    name: 'each name three times, encoded in another way',
    ends: 'completed',
    code: null,
    answer: lieOfLists((files) => {
      const entries = listed(files)
      const encoded = entries.map((entry) => entry.replace(/\/dav\/(.)/, (_, first: string) => `/dav/%${first.charCodeAt(0).toString(16)}`))
      return multistatus(self, ...entries, ...entries.map((entry) => entry.replace('/dav/', '/dav//')), ...encoded)
    }),
  },
  {
    name: 'another tag for the same content in each list',
    ends: 'completed',
    code: null,
    answer: lieOfLists((files, count) => multistatus(self, ...listed(files, () => `"${count}"`))),
  },
  {
    name: 'neither tag nor time',
    ends: 'completed',
    code: null,
    answer: lieOfLists((files) => multistatus(self, ...listed(files, () => null))),
  },
  {
    name: 'a folder that holds itself',
    ends: 'completed',
    code: 'SOURCE_PROTOCOL',
    answer(files, request, response) {
      if (request.method !== 'PROPFIND') return false
      const here = request.url ?? ''
      response.writeHead(207, xml).end(multistatus(folderAt(here), folderAt(`${here}loop/`), ...(here === '/dav/' ? listed(files) : [])))
      return true
    },
  },
]

export const lies: readonly Lie[] = [...ofDownloads, ...ofNames, ...ofLists, ...ofStatuses, ...ofWholes]
/** Cases of the short form: none of them waits for a retry. */
export const sampleOfLies: readonly string[] = [
  'for a file: Content-Length and chunks',
  'for a file: more than the limit',
  'a name that goes up, encoded slash',
  'for a list: a list that ends between two names',
  'for a list: a login page with status 207',
  'each name three times, encoded in another way',
]
