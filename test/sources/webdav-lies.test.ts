/** Misbehaving WebDAV servers: wrong, truncated, late and hostile answers. */
import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import fc from 'fast-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { SourceAddress, SourceEntry, SourceFailure, SourceFile, SourceLimits } from '../../src/ports/source-type.ts'
import { guardedConnector, isAllowed } from '../../src/sources/http/ssrf-guard.ts'
import { type DavResource, readMultistatus } from '../../src/sources/webdav/multistatus.ts'
import { openWebdav, webdav } from '../../src/sources/webdav/webdav.ts'
import { type Handler, startLying } from '../support/servers/lying-server.ts'
import {
  bytes,
  fileAt,
  folderAt,
  missing,
  multistatus,
  raw,
  says,
  self,
  type WrongList,
  wrongDownloads,
  wrongLists,
  wrongNames,
  wrongStatuses,
  xml,
} from '../support/servers/webdav-lies.ts'
import { sourceLimits } from '../support/source-limits.ts'

const limits = sourceLimits({ timeoutMs: 400, maxFileBytes: 100_000 })

const serve = (handler: Handler) => startLying('/dav/', handler)

function open(
  url: string,
  more: Partial<SourceLimits> = {},
  address: Partial<SourceAddress> = {},
  lookup?: Parameters<typeof openWebdav>[2],
) {
  const connection = openWebdav({ url, username: null, password: null, recursive: true, ...address }, { ...limits, ...more }, lookup)
  onTestFinished(() => connection.close())
  return connection
}

const loadTag = async () => null
async function walked(connection: ReturnType<typeof open>, tags: Record<string, string> = {}): Promise<SourceEntry[]> {
  const entries: SourceEntry[] = []
  const options = { loadTag: async (path: string) => tags[path] ?? null, signal: new AbortController().signal }
  for await (const entry of connection.walk(options)) entries.push(entry)
  return entries
}
const failure = (work: Promise<unknown>) =>
  work.then(
    () => null,
    ({ code, message, isRetryable }: SourceFailure) => ({ code, message, isRetryable }),
  )
const filesOf = (entries: readonly SourceEntry[]) => entries.flatMap((entry) => (entry.kind === 'file' ? [entry.file] : []))
const pathsOf = (entries: readonly SourceEntry[]) => filesOf(entries).map(({ path }) => path)
const problemsOf = (entries: readonly SourceEntry[]) =>
  entries.flatMap((entry) => (entry.kind === 'problem' ? [{ path: entry.path, code: entry.code }] : []))

/** Lists a server that answers its root with this body, and every other folder as empty. */
async function walkOf(body: string | Buffer, status = 207, headers: Record<string, string> = xml) {
  const server = await serve((request, response) => {
    const isRoot = request.url === '/dav/'
    response.writeHead(isRoot ? status : 207, isRoot ? headers : xml).end(isRoot ? body : multistatus(folderAt(request.url ?? '')))
  })
  return walked(open(server.url))
}

describe('names', () => {
  test.each<[string, string, string[]]>([
    ['absolute, of this server', 'http://127.0.0.1/dav/a.txt', ['a.txt']],
    ['absolute, with the port of a server behind a proxy', 'https://127.0.0.1:8443/dav/a.txt', ['a.txt']],
    ['relative', 'a.txt', ['a.txt']],
    ['with %20', '/dav/a%20b.txt', ['a b.txt']],
    ['with +, which is no space', '/dav/a+b.txt', ['a+b.txt']],
    ['encoded twice: decoded once', '/dav/a%2520b%252e%252e.txt', ['a%20b%2e%2e.txt']],
    ['not encoded', '/dav/é ?#.txt', ['é ?#.txt']],
    ['with XML entities', '/dav/a&amp;b&#233;&#x41;.txt', ['a&béA.txt']],
    ['in CDATA', '<![CDATA[/dav/a&b.txt]]>', ['a&b.txt']],
    ['between blanks', '\n  /dav/a.txt\n', ['a.txt']],
    ['with doubled slashes', '//127.0.0.1//dav//a.txt', ['a.txt']],
    ['that is a number', '123', ['123']],
    ['that looks like a prototype', '/dav/__proto__', ['__proto__']],
    ['in NFD', '/dav/e%CC%81.txt', ['e\u0301.txt']],
    ['of 255 bytes and more', `/dav/${'n'.repeat(300)}`, ['n'.repeat(300)]],
  ])('%s', async (_, href, expected) => {
    expect(pathsOf(await walkOf(multistatus(self, fileAt(href))))).toEqual(expected)
  })

  test.each(wrongNames)('a problem, and no file: a name %s', async (_, href) => {
    const entries = await walkOf(multistatus(self, fileAt(href), fileAt('/dav/good.txt')))
    expect(pathsOf(entries)).toEqual(['good.txt'])
    expect(problemsOf(entries)).toEqual([{ path: expect.any(String), code: 'SOURCE_PROTOCOL' }])
    expect(problemsOf(entries)[0]?.path).not.toMatch(/\p{Cc}/u)
  })

  test('a file is requested by its listed name, byte by byte', async () => {
    const server = await serve((request, response) => {
      if (request.method === 'GET') return response.end('abc')
      response
        .writeHead(207, xml)
        .end(multistatus(self, ...['a%2520b.txt', 'e%CC%81', '%C3%A9', "q'?#%3B&amp;+"].map((name) => fileAt(`/dav/${name}`))))
    })
    const connection = open(server.url)
    for (const file of filesOf(await walked(connection))) await whole(connection, file)
    expect(server.seen.slice(1)).toEqual(['a%2520b.txt', 'e%CC%81', '%C3%A9', "q'%3F%23%3B%26%2B"].map((name) => `GET /dav/${name}`))
  })

  test('names that differ in case or in NFC and NFD are two files; equal names are one', async () => {
    const names = ['A.txt', 'a.txt', '%C3%A9', 'e%CC%81', 'a.txt', 'a.txt/', '%61.txt']
    expect(pathsOf(await walkOf(multistatus(self, ...names.map((name) => fileAt(`/dav/${name}`)))))).toEqual([
      'A.txt',
      'a.txt',
      '\u00e9',
      'e\u0301',
    ])
  })

  test('entries below the requested level are left to their own folder', async () => {
    const entries = await walkOf(multistatus(self, folderAt('/dav/sub'), fileAt('/dav/sub/x.txt'), fileAt('/dav/a.txt')))
    expect(pathsOf(entries)).toEqual(['a.txt'])
    expect(entries).toContainEqual({ kind: 'folder', path: 'sub', etag: null, isPruned: false })
  })

  test('folders that contain themselves end at 256 levels', async () => {
    const server = await serve((request, response) => {
      const here = request.url ?? ''
      response.writeHead(207, xml).end(multistatus(folderAt(here), folderAt(`${here}loop/`)))
    })
    const entries = await walked(open(server.url))
    expect(server.seen).toHaveLength(257)
    expect(problemsOf(entries)).toEqual([{ path: expect.stringContaining('loop/loop'), code: 'SOURCE_PROTOCOL' }])
  })

  test('SOURCE_PROTOCOL beyond the maximum of entries in a folder, and of folders that wait', async () => {
    const names = Array.from({ length: 60 }, (_, index) => String(index))
    const serveNames = (entry: (href: string) => string) =>
      serve((request, response) => response.writeHead(207, xml).end(multistatus(folderAt(request.url ?? ''), ...names.map(entry))))
    const wide = await serveNames(fileAt)
    expect(pathsOf(await walked(open(wide.url, { maxEntries: 60 })))).toEqual(names)
    expect(await failure(walked(open(wide.url, { maxEntries: 59 })))).toMatchObject({
      code: 'SOURCE_PROTOCOL',
      message: expect.stringContaining('too many entries'),
    })
    const endless = await serveNames((href) => folderAt(href))
    const failed = await failure(walked(open(endless.url, { maxEntries: 100, concurrency: 1 })))
    expect(failed).toMatchObject({ code: 'SOURCE_PROTOCOL', message: 'More than 100 folders wait to be listed.' })
    expect(endless.seen).toHaveLength(2)
  })
})

describe('lists', () => {
  test.each([
    ['D:', multistatus(self, fileAt('/dav/a.txt'))],
    ['d:', multistatus(self, fileAt('/dav/a.txt')).replaceAll(/D(?=[:=])/g, 'd')],
    [
      'no prefix',
      multistatus(self, fileAt('/dav/a.txt'))
        .replaceAll(/(<\/?|:)D[:=]/g, (_, start: string) => (start === ':' ? '=' : start))
        .replace('xmlns=', 'xmlns='),
    ],
    [
      'lp1: for some, as Apache has it',
      multistatus(self, fileAt('/dav/a.txt')).replaceAll('D:get', 'lp1:get').replaceAll('<D:response>', '<D:response xmlns:lp1="DAV:">'),
    ],
    ['comments, instructions and a BOM', `\ufeff${multistatus(`<!-- <D:response> -->${self}<?x <?>`, fileAt('/dav/a.txt'))}\n<!-- end -->`],
    ['empty lines before its declaration', `\r\n\n${multistatus(self, fileAt('/dav/a.txt'))}`],
  ])('%s', async (_, body) => {
    expect(filesOf(await walkOf(body))).toEqual([{ path: 'a.txt', size: 3, etag: '"e"', modifiedAt: null }])
  })

  test.each([
    ['UTF-16, little end first', Buffer.from(`\ufeff${multistatus(self, fileAt('/dav/é.txt'))}`, 'utf16le'), 'application/xml'],
    ['UTF-16, big end first', Buffer.from(`\ufeff${multistatus(self, fileAt('/dav/é.txt'))}`, 'utf16le').swap16(), 'application/xml'],
    [
      'Latin-1 by its declaration',
      Buffer.from(multistatus(self, fileAt('/dav/é.txt')).replace('utf-8', 'iso-8859-1'), 'latin1'),
      'text/xml',
    ],
    ['Latin-1 by its type', Buffer.from(multistatus(self, fileAt('/dav/é.txt')), 'latin1'), 'text/xml; charset="ISO-8859-1"'],
  ])('%s', async (_, body, type) => {
    expect(pathsOf(await walkOf(body, 207, { 'content-type': type }))).toEqual(['é.txt'])
  })

  const props = (text: string) => ({ ...{ size: null, etag: null, modifiedAt: null }, body: multistatus(self, fileAt('/dav/a', text)) })
  test.each<[string, { body: string; size: number | null; etag: string | null; modifiedAt: Date | null }]>([
    [
      'properties that are missing, after',
      {
        ...props('<D:getetag>"e"</D:getetag>'),
        body: multistatus(self, fileAt('/dav/a', '<D:getetag>"e"</D:getetag>').replace('</D:response>', `${missing}</D:response>`)),
        etag: '"e"',
      },
    ],
    [
      'properties that are missing, before',
      {
        ...props(''),
        body: multistatus(self, fileAt('/dav/a', '<D:getetag>"e"</D:getetag>').replace('<D:propstat>', `${missing}<D:propstat>`)),
        etag: '"e"',
      },
    ],
    ['neither tag nor size nor time', props('')],
    ['empty ones', props('<D:getetag/><D:getcontentlength></D:getcontentlength><D:getlastmodified/>')],
    ['a weak tag', { ...props('<D:getetag>W/"x"</D:getetag>'), etag: '"x"' }],
    ['tags that look like numbers', { ...props('<D:getetag>001e5</D:getetag>'), etag: '001e5' }],
    ['a size below nothing', props('<D:getcontentlength>-1</D:getcontentlength>')],
    ['a size that is no number', props('<D:getcontentlength>1e3</D:getcontentlength>')],
    ['a size larger than numbers are', props(`<D:getcontentlength>${'9'.repeat(30)}</D:getcontentlength>`)],
    ['a time that is none', props('<D:getlastmodified>yesterday</D:getlastmodified>')],
    ['a time of 1970', { ...props('<D:getlastmodified>Thu, 01 Jan 1970 00:00:00 GMT</D:getlastmodified>'), modifiedAt: new Date(0) }],
    [
      'a time to come',
      { ...props('<D:getlastmodified>Fri, 01 Jan 2100 00:00:00 GMT</D:getlastmodified>'), modifiedAt: new Date('2100-01-01') },
    ],
    ['a time that no database keeps', props('<D:getlastmodified>+200000-01-01T00:00:00Z</D:getlastmodified>')],
    ['attributes', { ...props('<D:getetag xml:lang="en">"e"</D:getetag>'), etag: '"e"' }],
  ])('a file with %s', async (_, { body, ...expected }) => {
    expect(filesOf(await walkOf(body))).toEqual([{ path: 'a', ...expected }])
  })

  const refused = (href: string, status: string) =>
    `<D:response><D:href>${href}</D:href><D:status>HTTP/1.1 ${status}</D:status></D:response>`
  test('an entry that the server refuses to describe is a problem', async () => {
    const body = multistatus(
      self,
      refused('/dav/a', '403 Forbidden'),
      refused('/dav/b', '404 Not Found'),
      refused('/dav/c', '500 X'),
      '<D:response><D:href>/dav/d</D:href></D:response>',
    )
    expect(problemsOf(await walkOf(body))).toEqual([
      { path: 'a', code: 'SOURCE_FORBIDDEN' },
      { path: 'b', code: 'SOURCE_NOT_FOUND_THERE' },
      { path: 'c', code: 'SOURCE_PROTOCOL' },
      { path: 'd', code: 'SOURCE_PROTOCOL' },
    ])
  })

  test('a list without its own folder is valid', async () => {
    expect(pathsOf(await walkOf(multistatus(fileAt('/dav/a.txt'))))).toEqual(['a.txt'])
  })

  test.each<WrongList>(wrongLists)('SOURCE_PROTOCOL: %s', async (_, body, status, headers) => {
    expect(await failure(walkOf(body, status, headers))).toMatchObject({ code: 'SOURCE_PROTOCOL', isRetryable: false })
  })

  test.each(wrongStatuses)('status %i: %s, requested once', async (status, code) => {
    const server = await serve((_, response) => response.writeHead(status).end('secret banner'))
    const found = await failure(walked(open(server.url)))
    expect(found).toMatchObject({ code })
    expect(found?.message).not.toContain('banner')
    expect(server.seen).toHaveLength(1)
  })

  test('a folder that reports itself missing or refused is an error', async () => {
    expect(await failure(walkOf(multistatus(refused('/dav/', '404 Not Found'))))).toMatchObject({ code: 'SOURCE_NOT_FOUND_THERE' })
    expect(await failure(walkOf(multistatus(refused('/dav/', '403 Forbidden'))))).toMatchObject({ code: 'SOURCE_FORBIDDEN' })
  })

  test('an endless list is aborted and ignored', async () => {
    const server = await serve((_, response) => {
      response.writeHead(207, xml).write(`<D:multistatus xmlns:D="DAV:">${self}<D:response><D:href>/dav/`)
      const more = () => void (response.destroyed || response.write('n'.repeat(65_536), () => setImmediate(more)))
      more()
    })
    expect(await failure(walked(open(server.url, { timeoutMs: 5000 })))).toMatchObject({ code: 'SOURCE_PROTOCOL' })
  })

  test('a list whose connection breaks is requested again, and no name is reported twice', async () => {
    let asked = 0
    const body = multistatus(self, fileAt('/dav/a.txt'), fileAt('/dav/b.txt'))
    const server = await serve((_, response) => {
      if (++asked > 1) return response.writeHead(207, xml).end(body)
      response.writeHead(207, { ...xml, 'content-length': body.length }).write(body.slice(0, 300), () => response.destroy())
    })
    expect(pathsOf(await walked(open(server.url)))).toEqual(['a.txt', 'b.txt'])
  })

  test('a folder that cannot be listed is a problem, and the others are listed', async () => {
    const server = await serve((request, response) => {
      if (request.url === '/dav/bad/') return response.writeHead(403).end()
      if (request.url === '/dav/away/') return response.writeHead(301, { location: '/dav/' }).end()
      const here = request.url ?? ''
      const inside = here === '/dav/' ? ['bad/', 'good/', 'away/'].map((name) => folderAt(`/dav/${name}`)) : [fileAt(`${here}x.txt`)]
      response.writeHead(207, xml).end(multistatus(folderAt(here), ...inside))
    })
    const entries = await walked(open(server.url))
    expect(pathsOf(entries)).toEqual(['good/x.txt'])
    expect(problemsOf(entries).sort((a, b) => a.path.localeCompare(b.path))).toEqual([
      { path: 'away', code: 'SOURCE_PROTOCOL' },
      { path: 'bad', code: 'SOURCE_FORBIDDEN' },
    ])
  })

  test.each([500, 502])('folders that answer %i are problems, however many they are, while the root can be listed', async (status) => {
    const server = await serve((request, response) => {
      if (/\/[0-9]\/$/.test(request.url ?? '')) return response.writeHead(status).end()
      const here = request.url ?? ''
      const inside = Array.from({ length: 10 }, (_, index) => folderAt(`/dav/${index}/`))
      response
        .writeHead(207, xml)
        .end(multistatus(folderAt(here), ...(here === '/dav/' ? [...inside, folderAt('/dav/good/')] : [fileAt(`${here}x`)])))
    })
    const entries = await walked(open(server.url))
    expect(pathsOf(entries)).toEqual(['good/x'])
    expect(problemsOf(entries)).toHaveLength(10)
  })

  test('a server that becomes unreachable ends the listing', async () => {
    const server = await serve((request, response) => {
      if (request.url !== '/dav/') return response.writeHead(503, { 'retry-after': '3600' }).end()
      response.writeHead(207, xml).end(multistatus(self, ...Array.from({ length: 50 }, (_, index) => folderAt(`/dav/${index}/`))))
    })
    expect(await failure(walked(open(server.url)))).toMatchObject({ code: 'SOURCE_BUSY' })
    expect(server.seen.length).toBeLessThan(10)
  })

  test('a listing that is abandoned ends its requests; an aborted one throws its reason', async () => {
    const server = await serve((request, response) => {
      const here = request.url ?? ''
      if (here !== '/dav/') return
      response.writeHead(207, xml).end(multistatus(self, fileAt('/dav/a.txt'), folderAt('/dav/hangs/')))
    })
    const connection = open(server.url, { timeoutMs: 60_000 })
    for await (const entry of connection.walk({ loadTag, signal: new AbortController().signal })) if (entry.kind === 'folder') break
    const stop = new AbortController()
    const reason = new Error('enough')
    const walk = (async () => {
      for await (const entry of connection.walk({ loadTag, signal: stop.signal }))
        if (entry.kind === 'folder') setTimeout(() => stop.abort(reason), 20)
    })()
    await expect(walk).rejects.toBe(reason)
  })

  test('the list is independent of how the body is divided into chunks', async () => {
    const body = Buffer.from(
      multistatus(
        self,
        `<!-- é -->${fileAt('/dav/é&amp;.txt')}<![CDATA[  ]]>`.replace('<![CDATA[  ]]>', ''),
        fileAt('/dav/<![CDATA[<&]]>.txt').replace('<D:propstat>', `${missing}<D:propstat>`),
        folderAt('/dav/sub/'),
      ),
    )
    const read = async (pieces: readonly Uint8Array[]) => {
      const all: DavResource[] = []
      async function* source() {
        yield* pieces
      }
      await readMultistatus(source(), 'text/xml', (resource) => all.push(resource))
      return all
    }
    const expected = await read([body])
    expect(expected.map(({ href }) => href)).toEqual(['/dav/', '/dav/é&.txt', '/dav/<&.txt', '/dav/sub/'])
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.integer({ min: 1, max: body.length - 1 }), { maxLength: 20 }), async (cuts) => {
        const at = [0, ...cuts.sort((a, b) => a - b), body.length]
        expect(await read(at.slice(1).map((end, index) => body.subarray(at[index], end)))).toEqual(expected)
      }),
      { numRuns: 60 },
    )
  })
})

describe('folders with ETags', () => {
  const owncloud =
    '<oc:id xmlns:oc="http://owncloud.org/ns">00000002oc</oc:id><oc:permissions xmlns:oc="http://owncloud.org/ns">RGDNVCK</oc:permissions>'
  const tree = (marks: string) =>
    serve((request, response) => {
      const here = request.url ?? ''
      const tag = (name: string) => `<D:getetag>"${name}"</D:getetag>`
      const inside = here === '/dav/' ? [folderAt('/dav/a/', tag('a1')), folderAt('/dav/b/', tag('b1'))] : [fileAt(`${here}x.txt`)]
      response.writeHead(207, xml).end(multistatus(folderAt(here, `${tag('r1')}${here === '/dav/' ? marks : ''}`), ...inside))
    })

  test('Nextcloud and ownCloud: unchanged folders are skipped', async () => {
    const server = await tree(owncloud)
    const entries = await walked(open(server.url), { '': '"r0"', a: '"a1"', b: '"b0"' })
    expect(entries).toContainEqual({ kind: 'folder', path: 'a', etag: '"a1"', isPruned: true })
    expect(pathsOf(entries)).toEqual(['b/x.txt'])
    expect(server.seen).toEqual(['PROPFIND /dav/', 'PROPFIND /dav/b/'])
    expect(await walked(open(server.url), { '': '"r1"' })).toEqual([{ kind: 'folder', path: '', etag: '"r1"', isPruned: true }])
  })

  test('other servers: the ETag of a folder says nothing of its contents', async () => {
    const server = await tree('<D:id>1</D:id><D:permissions>RW</D:permissions>')
    const entries = await walked(open(server.url), { '': '"r1"', a: '"a1"', b: '"b1"' })
    expect(pathsOf(entries).sort()).toEqual(['a/x.txt', 'b/x.txt'])
    expect(entries.filter((entry) => entry.kind === 'folder' && entry.etag !== null)).toEqual([])
  })
})

async function whole(connection: ReturnType<typeof open>, file: SourceFile, signal = new AbortController().signal) {
  const body = await connection.read(file, signal)
  const pieces: Uint8Array[] = []
  for await (const piece of body.bytes) pieces.push(piece)
  return { text: Buffer.concat(pieces).toString(), etag: body.etag, modifiedAt: body.modifiedAt }
}

const file = (more: Partial<SourceFile> = {}): SourceFile => ({ path: 'a.pdf', size: 500, etag: '"e"', modifiedAt: null, ...more })
describe('downloads', () => {
  test.each(wrongDownloads)('%s', async (_, handler, more, expected) => {
    const server = await serve(handler)
    expect(await failure(whole(open(server.url), file(more)))).toMatchObject(expected)
    expect(server.seen.filter((line) => line.includes('a.pdf'))).toHaveLength(1)
  })

  test('an endless body ends at the limit; a file that is listed as too large is not requested', async () => {
    const server = await serve((_, response) => {
      const more = () => void (response.destroyed || response.write(bytes(10_000), () => setImmediate(more)))
      more()
    })
    expect(await failure(whole(open(server.url), file({ size: null })))).toMatchObject({ code: 'FILE_TOO_LARGE' })
    expect(await failure(whole(open(server.url), file({ size: 100_001 })))).toMatchObject({ code: 'FILE_TOO_LARGE' })
    expect(server.seen).toHaveLength(1)
  })

  test.each<[string, Handler, Partial<SourceFile>]>([
    ['a file that is kept compressed: its bytes are what is listed', says(200, { 'content-encoding': 'x-gzip' }, bytes(500)), {}],
    ['a file that changed since it was listed', says(200, { etag: '"f"' }, bytes(500)), { size: 400 }],
    [
      'the same by its time',
      says(200, { 'last-modified': 'Fri, 01 Jan 2021 00:00:00 GMT' }, bytes(500)),
      { size: 400, etag: null, modifiedAt: new Date(0) },
    ],
    ['a weak tag for the same file', says(200, { etag: 'W/"e"' }, bytes(500)), {}],
    ['chunks', (_, response) => void response.write(bytes(250), () => response.end(bytes(250))), {}],
    ['HTML under an HTML name', says(200, { 'content-type': 'text/html' }, bytes(500)), { path: 'a.html' }],
    ['HTML that has the tag of the listed file', says(200, { 'content-type': 'text/html', etag: '"e"' }, bytes(500)), {}],
  ])('taken: %s', async (_, handler, more) => {
    const server = await serve(handler)
    expect((await whole(open(server.url), file(more))).text).toBe(bytes(500))
  })

  test('a download without a known size that ended with its connection has no ETag', async () => {
    const server = await serve(raw('HTTP/1.0 200 OK\r\netag: "e"\r\nlast-modified: Fri, 01 Jan 2021 00:00:00 GMT\r\n\r\nabc'))
    expect(await whole(open(server.url), file({ size: null }))).toEqual({ text: 'abc', etag: null, modifiedAt: null })
  })

  test('an ETag that changes with each answer is returned with the downloaded bytes', async () => {
    let count = 0
    const server = await serve((_, response) => response.writeHead(200, { etag: `"${count++}"` }).end(bytes(500)))
    const connection = open(server.url)
    expect([(await whole(connection, file())).etag, (await whole(connection, file())).etag]).toEqual(['"0"', '"1"'])
  })
})

describe('retries', () => {
  test('a server that closes the first connections is tried again', async () => {
    let asked = 0
    const server = await serve((_, response) => (++asked < 3 ? response.socket?.destroy() : response.end(bytes(500))))
    expect((await whole(open(server.url), file())).text).toHaveLength(500)
    expect(server.seen).toHaveLength(3)
  })

  test.each<[string, () => Record<string, string>]>([
    ['seconds', () => ({ 'retry-after': '1' })],
    ['a date', () => ({ date: 'Fri, 01 Jan 2021 00:00:00 GMT', 'retry-after': 'Fri, 01 Jan 2021 00:00:01 GMT' })],
  ])('Retry-After in %s holds for all requests', async (_, headers) => {
    const times: number[] = []
    const server = await serve((_, response) => {
      times.push(performance.now())
      if (times.length === 1) response.writeHead(503, headers()).end()
      else response.end(bytes(500))
    })
    const connection = open(server.url)
    const first = whole(connection, file())
    while (times.length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
    await new Promise((resolve) => setTimeout(resolve, 50))
    await Promise.all([first, whole(connection, file())])
    expect(times[1]! - times[0]!).toBeGreaterThan(950)
    expect(times).toHaveLength(3)
  })

  test('Retry-After of an hour stops at once; without one four attempts are made', async () => {
    const long = await serve(says(429, { 'retry-after': '3600' }))
    expect(await failure(whole(open(long.url), file()))).toMatchObject({ code: 'SOURCE_BUSY', isRetryable: true })
    expect(long.seen).toHaveLength(1)
    const short = await serve(says(429, {}))
    expect(await failure(whole(open(short.url), file()))).toMatchObject({ code: 'SOURCE_BUSY' })
    expect(short.seen).toHaveLength(4)
  })

  test('a server that does not answer is unreachable; a waiting request can be aborted', async () => {
    const server = await serve(() => {})
    const checks = await open(server.url).test(new AbortController().signal)
    expect(checks.checks.at(-1)).toEqual({ name: 'listing', ok: false, message: 'The source does not answer in time.' })
    const stop = new AbortController()
    const waiting = open(server.url, { timeoutMs: 60_000 }).read(file(), stop.signal)
    const reason = new Error('enough')
    setTimeout(() => stop.abort(reason), 30)
    await expect(waiting).rejects.toBe(reason)
  })
})

describe('redirects', () => {
  test('on the same origin they are followed, at most five, and the final URL is used', async () => {
    const server = await serve((request, response) => {
      if (request.url === '/dav/') return response.writeHead(301, { location: '/real' }).end()
      if (request.url === '/real') return response.writeHead(308, { location: '/real/' }).end()
      if (request.method === 'GET') return response.end('abc')
      response.writeHead(207, xml).end(multistatus(folderAt('/real/'), fileAt('/real/a.txt')))
    })
    const connection = open(server.url)
    const [found] = filesOf(await walked(connection))
    expect((await whole(connection, found!)).text).toBe('abc')
    expect(server.seen.at(-1)).toBe('GET /real/a.txt')
    const loop = await serve((_, response) => response.writeHead(302, { location: '/dav/' }).end())
    expect(await failure(walked(open(loop.url)))).toMatchObject({ code: 'SOURCE_PROTOCOL' })
    expect(loop.seen).toHaveLength(6)
  })

  test('to another origin they are not followed, and it receives no password', async () => {
    const heard: (string | undefined)[] = []
    const other = await serve((request, response) => {
      heard.push(request.headers.authorization)
      response.end()
    })
    for (const location of [
      other.url,
      `//127.0.0.1:${other.port}/`,
      `https://127.0.0.1:${other.port}/`,
      'file:///etc/passwd',
      'http://u:p@[::1]:1/',
      'http://',
    ]) {
      const server = await serve((_, response) => response.writeHead(307, { location }).end())
      const connection = open(server.url, {}, { username: 'ann', password: 'secret' })
      expect(await failure(walked(connection))).toMatchObject({ code: 'SOURCE_PROTOCOL' })
      expect(await failure(connection.read(file(), new AbortController().signal))).toMatchObject({ code: 'SOURCE_PROTOCOL' })
    }
    expect(heard).toEqual([])
  })
})

describe('signing in', () => {
  const list = multistatus(self, fileAt('/dav/a.txt'))
  const credentials = { username: 'ann', password: 'se"cret' }
  const asks = (challenge: string | string[], isGood: (authorization: string, request: IncomingMessage) => boolean) => {
    const heard: string[] = []
    return serve((request, response) => {
      const authorization = request.headers.authorization ?? ''
      heard.push(authorization)
      if (isGood(authorization, request)) response.writeHead(207, xml).end(list)
      else response.writeHead(401, { 'www-authenticate': challenge }).end()
    }).then((server) => ({ ...server, heard }))
  }
  const basic = `Basic ${Buffer.from('ann:se"cret').toString('base64')}`

  test('Basic is sent over http:// only after the server requested it, and then with each request', async () => {
    const server = await asks('Basic realm="x, y", charset="UTF-8"', (authorization) => authorization === basic)
    const connection = open(server.url, {}, credentials)
    await walked(connection)
    await walked(connection)
    expect(server.heard).toEqual(['', basic, basic])
  })

  test.each([
    ['MD5', 'md5', 'algorithm=MD5, '],
    ['MD5 where none is named', 'md5', ''],
    ['SHA-256', 'sha256', 'algorithm=SHA-256, '],
  ])('Digest by %s, also if Basic is offered; each nonce count once', async (_, hash, algorithm) => {
    const sum = (text: string) => createHash(hash).update(text).digest('hex')
    const used = new Set<string>()
    const server = await asks(
      [`Basic realm="r"`, `Digest realm="r", ${algorithm}nonce="n,1", qop="auth,auth-int", opaque="o"`],
      (authorization, request) => {
        const field = (name: string) => new RegExp(`\\b${name}="?((?:[^",\\\\]|\\\\.|,(?=1))*)`).exec(authorization)?.[1] ?? ''
        if (!authorization.startsWith('Digest ')) return false
        const [count, own] = [field('nc'), field('cnonce')]
        const isFresh = !used.has(count)
        used.add(count)
        const expected = sum(`${sum('ann:r:se"cret')}:n,1:${count}:${own}:auth:${sum(`${request.method}:${request.url}`)}`)
        return isFresh && field('uri') === request.url && field('response') === expected
      },
    )
    const connection = open(server.url, {}, credentials)
    for (let walk = 0; walk < 3; walk++) expect(pathsOf(await walked(connection))).toEqual(['a.txt'])
    expect(server.heard.some((authorization) => authorization.startsWith('Basic'))).toBe(false)
    expect(used.size).toBe(3)
  })

  test('SOURCE_UNAUTHORIZED after one answer, for a wrong password and an unknown scheme', async () => {
    for (const challenge of ['Basic realm="x"', 'Digest realm="x", nonce="1", qop="auth"']) {
      const server = await asks(challenge, () => false)
      expect(await failure(walked(open(server.url, {}, credentials)))).toMatchObject({ code: 'SOURCE_UNAUTHORIZED', isRetryable: false })
      expect(server.seen).toHaveLength(2)
    }
    const server = await asks('Negotiate, Digest realm="x", nonce="1", algorithm=MD4', () => false)
    expect(await failure(walked(open(server.url, {}, credentials)))).toMatchObject({ code: 'SOURCE_UNAUTHORIZED' })
    expect(server.heard).toEqual([''])
  })

  test('the test of a source names the failing step', async () => {
    const server = await asks('Basic realm="x"', () => false)
    const { checks, sample } = await open(server.url, {}, credentials).test(new AbortController().signal)
    expect(checks.map(({ name, ok }) => [name, ok])).toEqual([
      ['name', true],
      ['connection', true],
      ['sign-in', false],
    ])
    expect(sample).toEqual([])
    const closed = await open(`http://127.0.0.1:1/`).test(new AbortController().signal)
    expect(closed.checks.at(-1)).toMatchObject({ name: 'connection', ok: false })
    const unknown = await open('http://nobody.invalid/', {}, {}, (_, __, done) =>
      done(Object.assign(new Error(), { code: 'ENOTFOUND' }), []),
    ).test(new AbortController().signal)
    expect(unknown.checks).toEqual([{ name: 'name', ok: false, message: 'The name of the server is not known.' }])
  })
})

describe('addresses', () => {
  const publicOnes = [
    '8.8.8.8',
    '1.1.1.1',
    '172.15.255.255',
    '172.32.0.1',
    '100.63.255.255',
    '100.128.0.1',
    '192.167.1.1',
    '169.253.1.1',
    '223.255.255.255',
    '2606:4700::1111',
    '2a00:1450::1',
    '::ffff:8.8.8.8',
    '64:ff9b::808:808',
    '2002:808:808::1',
  ]
  const privateOnes = [
    '10.0.0.1',
    '10.255.255.255',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '127.0.0.1',
    '127.255.255.254',
    '100.64.0.1',
    '100.127.255.255',
    '192.0.0.1',
    '198.18.0.1',
    '192.0.2.1',
    '203.0.113.9',
  ]
  const privateSixes = [
    '::1',
    'fc00::1',
    'fd12:3456::1',
    'fec0::1',
    '2001:db8::1',
    '::ffff:127.0.0.1',
    '::ffff:7f00:1',
    '::127.0.0.1',
    '::ffff:10.1.2.3',
    '::ffff:0:127.0.0.1',
    '64:ff9b::127.0.0.1',
    '64:ff9b::a00:1',
    '64:ff9b:1::1',
    '2002:7f00:1::',
    '2002:c0a8:101::1',
  ]
  const never = [
    '2001::1',
    '2001:0:4136:e378:8000:63bf:80ff:fffe',
    '0.0.0.0',
    '0.1.2.3',
    '255.255.255.255',
    '224.0.0.1',
    '239.1.1.1',
    '240.0.0.1',
    '169.254.1.1',
    '169.254.169.254',
    'fe80::1',
    'fe80::1%eth0',
    '169.254.170.2',
    '100.100.100.200',
    '168.63.129.16',
    '::',
    'ff02::1',
    'fd00:ec2::254',
    '::ffff:169.254.169.254',
    '::ffff:a9fe:a9fe',
    '::169.254.169.254',
    '64:ff9b::a9fe:a9fe',
    '64:ff9b:1::a9fe:a9fe',
    '2002:a9fe:a9fe::',
    '::ffff:0.0.0.0',
    'localhost',
    '',
    '1.2.3',
    '127.0.0.1:80',
  ]
  /** Whether the address is allowed without and with `allow_private_networks`. */
  const allowedOf = (address: string) => [false, true].map((allowPrivateNetworks) => isAllowed(address, { allowPrivateNetworks }))
  test.each(publicOnes)('public: %s', (address) => expect(allowedOf(address)).toEqual([true, true]))
  test.each([...privateOnes, ...privateSixes])('private: %s', (address) => expect(allowedOf(address)).toEqual([false, true]))
  test.each(never)('never: %s', (address) => expect(allowedOf(address)).toEqual([false, false]))

  test.each([
    ...[
      'http://127.0.0.1/',
      'http://127.1/',
      'http://0x7f.1/',
      'http://2130706433/',
      'http://0177.0.0.1/',
      'http://１２７.0.0.1/',
      'http://①②⑦.0.0.1/',
    ],
    ...[
      'http://[::1]/',
      'http://[::ffff:127.0.0.1]/',
      'http://[fd00::1]:8080/dav/',
      'http://10.1.2.3/',
      'http://169.254.169.254/latest/meta-data/',
      'https://0/',
      'http://[::]/',
    ],
  ])('SOURCE_ADDRESS_FORBIDDEN without a request: %s', async (url) => {
    expect(() => webdav.open({ url, username: null, password: null, recursive: true }, { ...limits, allowPrivateNetworks: false })).toThrow(
      expect.objectContaining({ code: 'SOURCE_ADDRESS_FORBIDDEN' }),
    )
  })

  test.each([
    ...[
      'file:///etc/passwd',
      'ftp://example.org/',
      'gopher://example.org/',
      'dav://example.org/',
      'example.org',
      '/etc/passwd',
      '',
      'http://',
      'javascript:alert(1)',
    ],
    ...[
      'http://user:pw@example.org/',
      'http://user@example.org/',
      'http://example.org\\@127.0.0.1/',
      'http://example.org/ x',
      ' http://example.org/',
      'http://example.org/\n',
      'http://exa\tmple.org/',
    ],
    ...[
      'http://example.org/a?b',
      'http://example.org/#a',
      'http://example.org/%2e%2e%2fx/',
      'http://example.org/%00/',
      'http://example.org/%ff/',
      'http://example.org:99999/',
    ],
  ])('SOURCE_ADDRESS_INVALID: %s', (url) => {
    expect(() => webdav.open({ url, username: null, password: null, recursive: true }, limits)).toThrow(
      expect.objectContaining({ code: 'SOURCE_ADDRESS_INVALID' }),
    )
  })

  type Lookup = NonNullable<Parameters<typeof openWebdav>[2]>
  const answers = (...rounds: string[][]): Lookup => {
    let round = 0
    return ((_: string, __: unknown, done: (error: null, found: { address: string; family: number }[]) => void) => {
      const found = rounds[Math.min(round++, rounds.length - 1)] ?? []
      done(
        null,
        found.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
      )
    }) as unknown as Lookup
  }

  test.each([
    ['one that is private', [['127.0.0.1']]],
    ['several that are', [['127.0.0.1', '::1', '::ffff:127.0.0.1']]],
    ['public first, private at the next look (rebinding)', [['8.8.8.8'], ['127.0.0.1']]],
  ])('a name with addresses, %s: no socket is opened', async (_, rounds) => {
    const server = await serve((_, response) => response.end())
    const connection = open(`http://files.example:${server.port}/dav/`, { allowPrivateNetworks: false }, {}, answers(...rounds))
    const { checks } = await connection.test(new AbortController().signal)
    expect(checks.at(-1)).toMatchObject({ ok: false, message: 'The address is in a place that this source may not reach.' })
    expect(await failure(walked(connection))).toMatchObject({ code: 'SOURCE_ADDRESS_FORBIDDEN', isRetryable: false })
    expect(server.seen).toEqual([])
  })

  test('a name with allowed and forbidden addresses is connected to the allowed ones only', async () => {
    const server = await serve((_, response) => response.writeHead(207, xml).end(multistatus(self)))
    const connection = open(`http://files.example:${server.port}/dav/`, {}, {}, answers(['0.0.0.0', '169.254.169.254', '127.0.0.1']))
    expect(await walked(connection)).toHaveLength(1)
  })

  test('addresses that a connector receives are checked too', async () => {
    const connector = guardedConnector({ allowPrivateNetworks: false }, { timeout: 100 })
    for (const hostname of ['127.0.0.1', '[::1]']) {
      const error = await new Promise((resolve) => connector({ hostname, protocol: 'http:', port: '80' }, (...[found]) => resolve(found)))
      expect(error).toMatchObject({ code: 'SOURCE_ADDRESS_FORBIDDEN' })
    }
  })
})
