/** Misbehaviour of WebDAV servers, as cases for tests of the adapter and for faults of a whole server. Their URL ends with /dav/. */
import { gzipSync } from 'node:zlib'
import type { SourceFile } from '../../../src/ports/source-type.ts'
import type { Handler } from './handler-server.ts'

export const xml = { 'content-type': 'application/xml; charset=utf-8' }

export const multistatus = (...responses: string[]) =>
  `<?xml version="1.0" encoding="utf-8"?><D:multistatus xmlns:D="DAV:">${responses.join('')}</D:multistatus>`
export const folderAt = (href: string, more = '') =>
  `<D:response><D:href>${href}</D:href><D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype>${more}</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>`
export const fileAt = (href: string, props = '<D:getcontentlength>3</D:getcontentlength><D:getetag>"e"</D:getetag>') =>
  `<D:response><D:href>${href}</D:href><D:propstat><D:prop><D:resourcetype/>${props}</D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat></D:response>`
export const self = folderAt('/dav/')
/** properties that a file lacks */
export const missing = '<D:propstat><D:prop><D:quota/><D:getetag/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat>'

/** Listed names that are no file names: the problem, and the href. */
export const wrongNames: readonly (readonly [what: string, href: string])[] = [
  ['of another server', 'http://example.org/dav/a.txt'],
  ['of another server, without a scheme', '//example.org/dav/a.txt'],
  ['of another scheme', 'file:///dav/a.txt'],
  ['that goes up', '/dav/../a.txt'],
  ['that goes up, encoded', '/dav/%2e%2e/a.txt'],
  ['that goes up, encoded slash', '/dav/..%2f..%2fetc%2fpasswd'],
  ['that goes up and comes back', '/dav/x/../../dav/a.txt'],
  ['that is a dot', '/dav/%2e'],
  ['outside the address', '/etc/passwd'],
  ['of a neighbour with the same beginning', '/davenport/a.txt'],
  ['of the parent', '/'],
  ['with NUL', '/dav/a%00.pdf'],
  ['with CRLF', '/dav/a%0d%0aX-Evil:%201.pdf'],
  ['with a tab', '/dav/a%09b.pdf'],
  ['with a control character of C1', '/dav/a%C2%85b.pdf'],
  ['with a backslash', '/dav/..\\..\\x'],
  ['with a backslash, encoded', '/dav/..%5c..%5cx'],
  ['that is not UTF-8', '/dav/%E9.txt'],
  ['that is badly encoded', '/dav/100%.txt'],
  ['of more than 2,000 bytes', `/dav/${'n'.repeat(2001)}`],
  ['that is empty', ''],
  ['that there are two of', '/dav/a.txt</D:href><D:href>/dav/b.txt'],
  ['with an element in it', '/dav/a<D:x>b</D:x>.txt'],
]

/** entities that grow endlessly */
const laughs = '<!DOCTYPE x [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'

export type WrongList = [what: string, body: string | Buffer, status?: number, headers?: Record<string, string>]

/** Answers to PROPFIND that are no list: SOURCE_PROTOCOL. */
export const wrongLists: readonly WrongList[] = [
  ['an empty list', multistatus()],
  ['an empty element', '<D:multistatus xmlns:D="DAV:"/>'],
  ['an empty body', ''],
  ['a list of another place', multistatus(folderAt('/other/'), fileAt('/other/a.txt'))],
  ['a list that ends in the middle', multistatus(self, fileAt('/dav/a.txt')).slice(0, -30)],
  ['a list that ends between two names', multistatus(self, fileAt('/dav/a.txt')).slice(0, -'</D:multistatus>'.length)],
  [
    'a list that the server has cut',
    multistatus(self, fileAt('/dav/a.txt'), '<D:response><D:href>/dav/</D:href><D:status>HTTP/1.1 507 X</D:status></D:response>'),
  ],
  ['a list that is not well nested', multistatus(self.replace('</D:prop>', ''))],
  ['a list with stray text', multistatus(self, 'text')],
  ['a list with status 200', multistatus(self, fileAt('/dav/a.txt')), 200],
  ['a login page', '<!DOCTYPE html><html><body>Sign in</body></html>', 200, { 'content-type': 'text/html' }],
  ['a login page with status 207', '<!DOCTYPE html><html><body>Sign in</body></html>', 207, { 'content-type': 'text/html' }],
  ['a login page without DOCTYPE', '<html><body>Sign in</body></html>', 207, { 'content-type': 'text/html' }],
  ['JSON', '{"error":"no"}', 207],
  ['an external entity', `<!DOCTYPE x [<!ENTITY xxe SYSTEM "file:///etc/passwd">]>${multistatus(self, fileAt('/dav/&xxe;'))}`],
  ['a billion laughs', `${laughs}${multistatus(self, fileAt('/dav/&b;'))}`],
  ['an entity inside', multistatus(self, '<!ENTITY a "b">')],
  ['invalid UTF-8', Buffer.from(multistatus(self, fileAt('/dav/é.txt')), 'latin1')],
  ['an encoding that nobody knows', multistatus(self), 207, { 'content-type': 'text/xml; charset=klingon' }],
  ['the address of a file', multistatus(fileAt('/dav/'))],
  ['elements 100 deep', multistatus(self, '<D:x>'.repeat(100) + '</D:x>'.repeat(100))],
  ['a name of 10 MB', multistatus(self, fileAt(`/dav/${'n'.repeat(10_000_000)}`))],
  ['a name with 10,000 answers', multistatus(self, `<D:response><D:href>/dav/a</D:href>${missing.repeat(10_000)}</D:response>`)],
  ['405', '', 405],
  ['304', '', 304],
  ['a redirect to nowhere', '', 302],
]

/** Statuses of PROPFIND, with the code of the failure. */
export const wrongStatuses: readonly (readonly [status: number, code: string])[] = [
  [401, 'SOURCE_UNAUTHORIZED'],
  [403, 'SOURCE_FORBIDDEN'],
  [404, 'SOURCE_NOT_FOUND_THERE'],
  [410, 'SOURCE_NOT_FOUND_THERE'],
  [423, 'SOURCE_BUSY'],
  [500, 'SOURCE_PROTOCOL'],
  [507, 'SOURCE_PROTOCOL'],
]

export const bytes = (length: number) => 'x'.repeat(length)
/** Sends raw bytes, and closes the connection. */
export const raw =
  (text: string, end: 'end' | 'reset' | 'stay' = 'end'): Handler =>
  (_, response) => {
    const { socket } = response
    socket?.write(text, () => {
      if (end === 'end') socket.end()
      if (end === 'reset') setTimeout(() => socket.resetAndDestroy(), 20)
    })
  }
export const says =
  (status: number, headers: Record<string, string | number>, body: string | Buffer = ''): Handler =>
  (_, response) =>
    response.writeHead(status, headers).end(body)

const html = '<html>Sign in</html>'
const pdf = { 'content-type': 'application/pdf' }
const mismatch = { code: 'CONTENT_MISMATCH', isRetryable: true }
const protocol = { code: 'SOURCE_PROTOCOL', isRetryable: false }

interface WrongDownload {
  code: string
  retry?: boolean
}

/** Answers to GET of a.pdf; how the file is listed, unless with 500 bytes and the ETag "e"; and the failure. */
export const wrongDownloads: readonly (readonly [what: string, answer: Handler, listed: Partial<SourceFile>, failure: WrongDownload])[] = [
  ['less than Content-Length says', raw(`HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n${bytes(500)}`), { size: 1000 }, mismatch],
  ['more than Content-Length says', raw(`HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n${bytes(500)}`), {}, mismatch],
  ['a length that is not the listed one', says(200, pdf, bytes(499)), {}, mismatch],
  ['no length and an early end', raw(`HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n${bytes(499)}`), {}, mismatch],
  ['HTTP/1.0 and an early end', raw(`HTTP/1.0 200 OK\r\n\r\n${bytes(499)}`), {}, mismatch],
  ['no length, and more than listed', raw(`HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n${bytes(501)}`), {}, mismatch],
  ['chunks without an end', raw(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1f4\r\n${bytes(500)}\r\n`), { size: null }, mismatch],
  ['a reset', raw(`HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n${bytes(100)}`, 'reset'), {}, mismatch],
  ['a stall', raw(`HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n${bytes(100)}`, 'stay'), {}, mismatch],
  ['Content-Length and chunks', raw('HTTP/1.1 200 OK\r\ncontent-length: 500\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n'), {}, protocol],
  ['two lengths', raw(`HTTP/1.1 200 OK\r\ncontent-length: 500\r\ncontent-length: 400\r\n\r\n${bytes(500)}`), {}, protocol],
  ['what is not HTTP', raw('SSH-2.0-OpenSSH_9.2\r\n'), {}, protocol],
  ['headers without end', raw(`HTTP/1.1 200 OK\r\nx: ${bytes(1_000_000)}`, 'stay'), {}, protocol],
  ['a login page', says(200, { 'content-type': 'text/html; charset=utf-8' }, html), { size: html.length }, mismatch],
  ['a login page where no size is listed', says(200, { 'content-type': 'text/html' }, html), { size: null, etag: null }, mismatch],
  [
    'a login page after a redirect',
    (request, response, count) =>
      request.url === '/login'
        ? says(200, { 'content-type': 'text/html' }, html)(request, response, count)
        : response.writeHead(302, { location: '/login' }).end(),
    { size: html.length },
    mismatch,
  ],
  ['206', says(206, { ...pdf, 'content-range': 'bytes 0-499/1000' }, bytes(500)), {}, mismatch],
  ['204', says(204, {}), {}, mismatch],
  ['what is compressed though it must not be', says(200, { ...pdf, 'content-encoding': 'gzip' }, gzipSync(bytes(500))), {}, mismatch],
  ['the same where no size is listed', says(200, { ...pdf, 'content-encoding': 'gzip' }, gzipSync(bytes(500))), { size: null }, mismatch],
  ['416', says(416, {}), {}, protocol],
  ['304', says(304, {}), {}, protocol],
  ['401', says(401, {}), {}, { code: 'SOURCE_UNAUTHORIZED' }],
  ['403', says(403, {}), {}, { code: 'SOURCE_FORBIDDEN' }],
  ['404, gone since it was listed', says(404, {}), {}, { code: 'SOURCE_NOT_FOUND_THERE' }],
  ['423', says(423, {}), {}, { code: 'SOURCE_BUSY', isRetryable: false }],
  ['more than the limit', says(200, pdf, bytes(100_001)), { size: null }, { code: 'FILE_TOO_LARGE' }],
]
