/** Misbehaving S3 servers: wrong, truncated, late and hostile answers. */
import type { ServerResponse } from 'node:http'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { SourceAddress, SourceEntry, SourceFailure, SourceFile, SourceLimits } from '../../src/ports/source-type.ts'
import { objectUrl } from '../../src/s3/urls.ts'
import { parseBucketUrl } from '../../src/sources/s3/bucket-url.ts'
import { openS3Source, s3 } from '../../src/sources/s3/s3.ts'
import { type Handler, startLying } from '../support/servers/lying-server.ts'
import { sourceLimits } from '../support/source-limits.ts'

const limits = sourceLimits({ timeoutMs: 400, maxFileBytes: 100_000 })
const credentials = { username: 'KEYID', password: 'the secret' }
const signal = new AbortController().signal

const serve = (handler: Handler) => startLying('/bucket/in/', handler)

function open(
  url: string,
  address: Partial<SourceAddress> = {},
  more: Partial<SourceLimits> = {},
  lookup?: Parameters<typeof openS3Source>[2],
) {
  const connection = openS3Source({ url, ...credentials, recursive: true, ...address }, { ...limits, ...more }, lookup)
  onTestFinished(() => connection.close())
  return connection
}

const walked = (connection: ReturnType<typeof open>): Promise<SourceEntry[]> =>
  Array.fromAsync(connection.walk({ loadTag: async () => null, signal }))
const failure = (work: Promise<unknown>) =>
  work.then(
    () => null,
    ({ code, message, isRetryable }: SourceFailure) => ({ code, message, isRetryable }),
  )
const pathsOf = (entries: readonly SourceEntry[]) => entries.flatMap((entry) => (entry.kind === 'file' ? [entry.file.path] : []))
const problemsOf = (entries: readonly SourceEntry[]) => entries.flatMap((entry) => (entry.kind === 'problem' ? [entry.path] : []))

const object = (key: string, props = '<Size>3</Size><ETag>&quot;e&quot;</ETag><LastModified>2026-01-02T03:04:05.678Z</LastModified>') =>
  `<Contents><Key>${key}</Key>${props}</Contents>`
const page = (inner: string, next = '') =>
  `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><EncodingType>url</EncodingType><IsTruncated>${next !== ''}</IsTruncated>${next === '' ? '' : `<NextContinuationToken>${next}</NextContinuationToken>`}${inner}</ListBucketResult>`
const errorBody = (code: string, more = '') =>
  `<?xml version="1.0"?><Error><Code>${code}</Code><Message>shown to nobody</Message>${more}</Error>`

/** Lists a server that answers every list with this body. */
async function walkOf(body: string | Buffer, address: Partial<SourceAddress> = {}) {
  const server = await serve((_, response) => response.writeHead(200, { 'content-type': 'application/xml' }).end(body))
  return walked(open(server.url, address))
}

describe('addresses', () => {
  test.each([
    ['https://s3.example.org/bucket', 'https://s3.example.org/bucket', '', 'us-east-1'],
    ['http://127.0.0.1:9000/bucket/a/b%20c', 'http://127.0.0.1:9000/bucket', 'a/b c/', 'us-east-1'],
    ['https://s3.eu-west-1.amazonaws.com/bucket/a/', 'https://s3.eu-west-1.amazonaws.com/bucket', 'a/', 'eu-west-1'],
    ['https://s3.amazonaws.com/bucket/', 'https://s3.amazonaws.com/bucket', '', 'us-east-1'],
    ['https://s3-eu-west-1.amazonaws.com/bucket/', 'https://s3-eu-west-1.amazonaws.com/bucket', '', 'eu-west-1'],
    ['https://s3.dualstack.eu-west-1.amazonaws.com/bucket/', 'https://s3.dualstack.eu-west-1.amazonaws.com/bucket', '', 'eu-west-1'],
    ['https://my.files.s3.eu-west-1.amazonaws.com/a/', 'https://my.files.s3.eu-west-1.amazonaws.com/', 'a/', 'eu-west-1'],
    ['https://files.s3.amazonaws.com/', 'https://files.s3.amazonaws.com/', '', 'us-east-1'],
    ['https://s3.cn-north-1.amazonaws.com.cn/bucket', 'https://s3.cn-north-1.amazonaws.com.cn/bucket', '', 'cn-north-1'],
    ['https://s3.eu-central-003.backblazeb2.com/bucket', 'https://s3.eu-central-003.backblazeb2.com/bucket', '', 'eu-central-003'],
    ['https://files.nyc3.digitaloceanspaces.com/a', 'https://files.nyc3.digitaloceanspaces.com/', 'a/', 'nyc3'],
    ['https://fsn1.your-objectstorage.com/bucket/a', 'https://fsn1.your-objectstorage.com/bucket', 'a/', 'fsn1'],
  ])('%s', (address, bucket, prefix, region) => {
    const place = parseBucketUrl(address)
    expect({ ...place, bucket: place.bucket.href }).toEqual({ bucket, prefix, region })
  })

  test('an object is requested by its listed name, encoded as in signatures', () => {
    const key = "a b/é+x/%2e%2e/!'()*;[x]~"
    const encoded = 'a%20b/%C3%A9%2Bx/%252e%252e/%21%27%28%29%2A%3B%5Bx%5D~'
    expect(objectUrl(parseBucketUrl('http://h/bucket/').bucket, key).href).toBe(`http://h/bucket/${encoded}`)
    expect(objectUrl(parseBucketUrl('https://b.s3.amazonaws.com/').bucket, key).href).toBe(`https://b.s3.amazonaws.com/${encoded}`)
  })

  test.each([
    'https://s3.example.org/',
    'https://s3.amazonaws.com',
    'ftp://h/bucket/',
    'http://u:p@h/bucket/',
    'http://h/b%20t/',
    'bucket',
  ])('SOURCE_ADDRESS_INVALID: %s', (url) => {
    expect(() => s3.open({ url, ...credentials, recursive: true }, limits)).toThrow(
      expect.objectContaining({ code: 'SOURCE_ADDRESS_INVALID' }),
    )
  })

  test('SOURCE_ADDRESS_INVALID for a username that is no valid header value', () => {
    for (const username of ['a b', 'a\r\nx: y', 'é', ''])
      expect(() => open('http://127.0.0.1:1/bucket/', { username })).toThrow(expect.objectContaining({ code: 'SOURCE_ADDRESS_INVALID' }))
  })
})

describe('names', () => {
  test.each([
    ['with %20', 'in/a%20b', 'a b'],
    ['with + for a space, as AWS sends it', 'in/a+b%2Bc', 'a b+c'],
    ['encoded slash', 'in%2Fa%2Fb', 'a/b'],
    ['not encoded', 'in/é&amp;', 'é&'],
    ['in CDATA', '<![CDATA[in/a&b]]>', 'a&b'],
    ['that is a number', 'in/1e5', '1e5'],
    ['that looks like a prototype', 'in/__proto__', '__proto__'],
  ])('%s', async (_, key, path) => {
    expect(pathsOf(await walkOf(page(object(key))))).toEqual([path])
  })

  test('unchanged if the server does not encode names', async () => {
    const list = page(object('in/100%+1')).replace('<EncodingType>url</EncodingType>', '')
    expect(pathsOf(await walkOf(list))).toEqual(['100%+1'])
  })

  test.each([
    ['that goes up', 'in/../a'],
    ['that goes up, encoded', 'in/%2E%2E%2Fa'],
    ['outside the prefix', 'etc/passwd'],
    ['of a neighbour with the same beginning', 'inner'],
    ['with a doubled slash', 'in//a'],
    ['with NUL', 'in/a%00'],
    ['with CRLF', 'in/a%0D%0Ab'],
    ['with a backslash', 'in/a%5Cb'],
    ['that is not UTF-8', 'in/%E9'],
    ['of more than 2,000 bytes', `in/${'n'.repeat(2001)}`],
    ['of 300 folders', `in/${'d/'.repeat(300)}x`],
    ['that is empty', ''],
    ['that ends with a slash, and has bytes', 'in/a/'],
  ])('a problem, and no file: a name %s', async (_, key) => {
    const entries = await walkOf(page(object(key) + object('in/good')))
    expect(pathsOf(entries)).toEqual(['good'])
    expect(problemsOf(entries)).toHaveLength(1)
    expect(problemsOf(entries)[0]).not.toMatch(/\p{Cc}/u)
  })

  test('impossible sizes, tags and times count as unknown', async () => {
    const props = '<Size>-1</Size><ETag>plain</ETag><LastModified>yesterday</LastModified>'
    const [entry] = await walkOf(page(object('in/a', props)))
    expect(entry).toEqual({ kind: 'file', file: { path: 'a', size: null, etag: '"plain"', modifiedAt: null } })
  })

  test('without recursion folders are omitted, also if the server lists them all', async () => {
    const folders = '<CommonPrefixes><Prefix>in/sub/</Prefix></CommonPrefixes>'
    const all = page(`${object('in/a')}${object('in/sub/b')}${object('in/sub/', '<Size>0</Size>')}${folders}`)
    expect(await walkOf(all, { recursive: false })).toEqual([
      expect.objectContaining({ kind: 'file', file: expect.objectContaining({ path: 'a' }) }),
      { kind: 'folder', path: '', etag: null, isPruned: false },
    ])
    expect(await walkOf(page(folders), { recursive: false })).toHaveLength(1)
  })
})

describe('lists', () => {
  const good = page(object('in/a'))
  test.each<[string, string | Buffer]>([
    ['nothing', ''],
    ['a web page', '<!DOCTYPE html><html><body>Sign in</body></html>'],
    ['JSON', '{"Contents":[]}'],
    ['another answer of S3', '<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>'],
    ['an error with status 200', errorBody('InternalError')],
    ['half a list', good.slice(0, -30)],
    ['a list that ends in a name', good.slice(0, good.indexOf('/a') + 2)],
    ['a list without its last tag', good.replace('</ListBucketResult>', '')],
    ['tags in each other', good.replace('</Key>', '')],
    ['two lists', good + good.slice(good.indexOf('<List'))],
    ['text after it', `${good}x`],
    ['a DOCTYPE', good.replace('<ListBucketResult', '<!DOCTYPE x [<!ENTITY a "aaaa">]><ListBucketResult')],
    ['a DOCTYPE in the middle', good.replace('<Contents>', '<!DOCTYPE x><Contents>')],
    ['bytes that are not UTF-8', Buffer.concat([Buffer.from(good.slice(0, 200)), Buffer.from([0xff]), Buffer.from(good.slice(200))])],
    ['nested too deeply', page('<a>'.repeat(1000) + '</a>'.repeat(1000))],
    ['a name of a million characters', page(object(`in/${'n'.repeat(1_000_000)}`))],
    ['more than was asked for', page(Array.from({ length: 1001 }, (_, index) => object(`in/${index}`)).join(''))],
    ['more than 16 MiB', page(`<!--${'x'.repeat(17 << 20)}-->`)],
    ['no word of whether it goes on', good.replace('<IsTruncated>false</IsTruncated>', '')],
    ['no way to go on', good.replace('false', 'true')],
  ])('SOURCE_PROTOCOL, and not a file: %s', async (_, body) => {
    expect(await failure(walkOf(body))).toMatchObject({ code: 'SOURCE_PROTOCOL', isRetryable: false })
  })

  test('pages are requested one by one, with the unchanged token', async () => {
    const server = await serve((request, response) => {
      const token = new URL(request.url ?? '', 'http://x').searchParams.get('continuation-token')
      response.end(token === null ? page(object('in/a'), 'a+/=&amp; b') : page(object(`in/${token === 'a+/=& b' ? 'b' : 'wrong'}`)))
    })
    expect(pathsOf(await walked(open(server.url)))).toEqual(['a', 'b'])
    expect(server.seen).toEqual([
      'GET /bucket?list-type=2&encoding-type=url&max-keys=1000&prefix=in%2F',
      'GET /bucket?list-type=2&encoding-type=url&max-keys=1000&prefix=in%2F&continuation-token=a%2B%2F%3D%26%20b',
    ])
  })

  test.each<[string, (count: number) => string]>([
    ['the same token for ever', () => page(object('in/a'), 'again')],
    ['the same names with new tokens', (count) => page(object(`in/${count % 3}`), `t${count}`)],
    ['empty pages for ever', (count) => page('', `t${count}`)],
  ])('SOURCE_PROTOCOL for %s', async (_, body) => {
    const server = await serve((_request, response, count) => response.end(body(count)))
    expect(await failure(walked(open(server.url)))).toMatchObject({
      code: 'SOURCE_PROTOCOL',
      message: expect.stringContaining('repeats pages or never ends'),
    })
    expect(server.seen.length).toBeLessThan(120)
  })

  test('a truncated page is requested again; if it is always truncated: SOURCE_UNREACHABLE', async () => {
    const broken = (response: ServerResponse) => {
      response.writeHead(200, { 'content-length': '100000' }).write(good.slice(0, 150))
      setTimeout(() => response.destroy(), 20)
    }
    const once = await serve((_, response, count) => (count === 1 ? broken(response) : response.end(good)))
    expect(pathsOf(await walked(open(once.url)))).toEqual(['a'])
    const always = await serve((_, response) => broken(response))
    expect(await failure(walked(open(always.url)))).toMatchObject({ code: 'SOURCE_UNREACHABLE' })
    expect(always.seen).toHaveLength(3)
  })

  test('SOURCE_NOT_FOUND_THERE for a prefix without objects; an empty bucket is an empty folder', async () => {
    expect(await failure(walkOf(page('')))).toMatchObject({ code: 'SOURCE_NOT_FOUND_THERE' })
    expect(await walkOf(page(object('in/', '<Size>0</Size>')))).toEqual([{ kind: 'folder', path: '', etag: null, isPruned: false }])
    const server = await serve((_, response) => response.end(page('')))
    expect(await walked(open(server.url.replace('in/', '')))).toHaveLength(1)
  })
})

describe('errors', () => {
  test.each<[number, string, string, RegExp]>([
    [404, 'NoSuchBucket', 'SOURCE_NOT_FOUND_THERE', /no bucket/],
    [403, 'AccessDenied', 'SOURCE_FORBIDDEN', /s3:ListBucket/],
    [403, 'InvalidAccessKeyId', 'SOURCE_UNAUTHORIZED', /access key id/],
    [403, 'SignatureDoesNotMatch', 'SOURCE_UNAUTHORIZED', /secret/],
    [400, 'ExpiredToken', 'SOURCE_UNAUTHORIZED', /expired/],
    [403, 'RequestTimeTooSkewed', 'SOURCE_FORBIDDEN', /clock/],
    [400, 'AuthorizationHeaderMalformed', 'SOURCE_UNAUTHORIZED', /refuses/],
    [400, 'SomethingNew', 'SOURCE_PROTOCOL', /status 400/],
    [403, '__proto__', 'SOURCE_FORBIDDEN', /refuses/],
  ])('%i %s: %s, at once', async (status, code, expected, message) => {
    const server = await serve((_, response) => response.writeHead(status).end(errorBody(code)))
    const failed = await failure(walked(open(server.url)))
    expect(failed).toMatchObject({ code: expected, isRetryable: false, message: expect.stringMatching(message) })
    expect(failed?.message).not.toContain('shown to nobody')
    expect(server.seen).toHaveLength(1)
  })

  test('an error that is an HTML page, endless or late has the code of its status', async () => {
    const page = await serve((_, response) => response.writeHead(403).end('<!DOCTYPE html><html>No</html>'))
    expect(await failure(walked(open(page.url)))).toMatchObject({ code: 'SOURCE_FORBIDDEN' })
    const slow = await serve((_, response) => {
      response.writeHead(404).write('<Error>')
      const timer = setInterval(() => response.write(' '), 50)
      response.on('close', () => clearInterval(timer))
    })
    expect(await failure(walked(open(slow.url)))).toMatchObject({ code: 'SOURCE_NOT_FOUND_THERE' })
  })

  test('503 SlowDown is waited for, at most a minute', async () => {
    const slow = await serve((_, response, count) =>
      count < 3 ? response.writeHead(503, { 'retry-after': '0' }).end(errorBody('SlowDown')) : response.end(page(object('in/a'))),
    )
    expect(pathsOf(await walked(open(slow.url)))).toEqual(['a'])
    expect(slow.seen).toHaveLength(3)
    const gone = await serve((_, response) => response.writeHead(503, { 'retry-after': '3600' }).end(errorBody('SlowDown')))
    expect(await failure(walked(open(gone.url)))).toMatchObject({ code: 'SOURCE_BUSY', isRetryable: true })
    expect(gone.seen).toHaveLength(1)
  })

  test('500 InternalError is retried', async () => {
    const server = await serve((_, response, count) =>
      count === 1 ? response.writeHead(500).end(errorBody('InternalError')) : response.end(page(object('in/a'))),
    )
    expect(pathsOf(await walked(open(server.url)))).toEqual(['a'])
  })

  test.each([
    ['in the error', {}, '<Region>eu-new-1</Region>'],
    ['in the header', { 'x-amz-bucket-region': 'eu-new-1' }, ''],
  ])('the region that the server names %s is used from then on', async (_, headers, more) => {
    const server = await serve((request, response) =>
      /\/eu-new-1\/s3\//.test(request.headers.authorization ?? '')
        ? response.end(page(object('in/a')))
        : response.writeHead(400, headers).end(errorBody('AuthorizationHeaderMalformed', more)),
    )
    const connection = open(server.url)
    expect(pathsOf(await walked(connection))).toEqual(['a'])
    await walked(connection)
    expect(server.seen).toHaveLength(3)
  })

  test('SOURCE_UNAUTHORIZED if each answer names another region', async () => {
    const server = await serve((_, response, count) =>
      response.writeHead(400).end(errorBody('AuthorizationHeaderMalformed', `<Region>eu-${count}</Region>`)),
    )
    expect(await failure(walked(open(server.url)))).toMatchObject({ code: 'SOURCE_UNAUTHORIZED' })
    expect(server.seen).toHaveLength(2)
  })

  test('SOURCE_ADDRESS_INVALID with the region for a bucket elsewhere', async () => {
    const server = await serve((_, response) =>
      response
        .writeHead(301, { 'x-amz-bucket-region': 'eu-west-3' })
        .end(errorBody('PermanentRedirect', '<Endpoint>evil.example</Endpoint>')),
    )
    const failed = await failure(walked(open(server.url)))
    expect(failed).toMatchObject({ code: 'SOURCE_ADDRESS_INVALID', message: expect.stringContaining('eu-west-3') })
    expect(failed?.message).not.toContain('evil')
  })

  test('redirects to another server or port are not followed', async () => {
    const other = await serve((_, response) => response.end(page(object('in/a'))))
    for (const location of [`http://127.0.0.1:${other.port}/bucket`, 'http://169.254.169.254/latest/meta-data/', '//evil.example/']) {
      const server = await serve((_, response) => response.writeHead(307, { location }).end(errorBody('TemporaryRedirect')))
      expect(await failure(walked(open(server.url)))).toMatchObject({ code: 'SOURCE_PROTOCOL' })
    }
    expect(other.seen).toEqual([])
  })

  test('SOURCE_ADDRESS_FORBIDDEN for private addresses, written or resolved', async () => {
    const server = await serve((_, response) => response.end(page(object('in/a'))))
    const guarded = { allowPrivateNetworks: false }
    expect(() => open(server.url, {}, guarded)).toThrow(expect.objectContaining({ code: 'SOURCE_ADDRESS_FORBIDDEN' }))
    const named = open(`http://files.example:${server.port}/bucket/`, {}, guarded, (_, __, done) =>
      done(null, [{ address: '127.0.0.1', family: 4 }]),
    )
    expect(await failure(walked(named))).toMatchObject({ code: 'SOURCE_ADDRESS_FORBIDDEN' })
    expect(server.seen).toEqual([])
  })

  test('the test of a source names the failing step', async () => {
    const server = await serve((_, response) => response.writeHead(403).end(errorBody('SignatureDoesNotMatch')))
    const { checks } = await open(server.url).test(signal)
    expect(checks.map(({ name, ok }) => [name, ok])).toEqual([
      ['name', true],
      ['connection', true],
      ['sign-in', false],
    ])
    const page = await serve((_, response) => response.end('<html></html>'))
    expect((await open(page.url).test(signal)).checks.at(-1)).toMatchObject({ name: 'listing', ok: false })
  })
})

describe('objects', () => {
  const listed: SourceFile = { path: 'a.pdf', size: 5, etag: '"e"', modifiedAt: new Date('2026-01-02T03:04:05.678Z') }

  async function readFrom(handler: Handler, file = listed) {
    const server = await serve(handler)
    const { bytes, etag, modifiedAt } = await open(server.url).read(file, signal)
    return { etag, modifiedAt, text: Buffer.concat(await Array.fromAsync(bytes)).toString(), server }
  }

  test('an object is requested with its listed ETag, and only if it is unchanged', async () => {
    const { server, ...body } = await readFrom((_, response) =>
      response.writeHead(200, { etag: '"e"', 'last-modified': 'Fri, 02 Jan 2026 03:04:06 GMT', 'content-length': '5' }).end('alpha'),
    )
    expect(body).toEqual({ text: 'alpha', etag: '"e"', modifiedAt: new Date('2026-01-02T03:04:06Z') })
    expect(server.seen).toEqual(['GET /bucket/in/a.pdf'])
    expect(server.headers[0]).toMatchObject({ 'if-match': '"e"' })
  })

  test.each<[string, Handler]>([
    ['fewer bytes, and the end of the connection', (_, response) => void response.socket?.end('HTTP/1.0 200 OK\r\n\r\nalp')],
    [
      'fewer bytes than announced',
      (_, response) => response.writeHead(200, { 'content-length': '5' }).write('alp', () => response.destroy()),
    ],
    ['fewer bytes in pieces', (_, response) => response.writeHead(200).end('alp')],
    ['more bytes', (_, response) => response.writeHead(200).end('alphabet')],
    ['another size than listed', (_, response) => response.writeHead(200, { etag: '"e"' }).end('alphabet')],
    ['a part', (_, response) => response.writeHead(206, { 'content-length': '5' }).end('alpha')],
    ['a page to sign in at', (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html')],
    ['another object than listed', (_, response) => response.writeHead(412).end(errorBody('PreconditionFailed'))],
    ['another object, without a word', (_, response) => response.writeHead(412).end()],
  ])('CONTENT_MISMATCH for %s', async (_, handler) => {
    expect(await failure(readFrom(handler))).toMatchObject({ code: 'CONTENT_MISMATCH' })
  })

  test.each<[string, number, string]>([
    ['NoSuchKey', 404, 'SOURCE_NOT_FOUND_THERE'],
    ['InvalidObjectState', 403, 'SOURCE_FORBIDDEN'],
  ])('%s: %i, %s', async (code, status, expected) => {
    const handler: Handler = (_, response) => response.writeHead(status).end(errorBody(code))
    expect(await failure(readFrom(handler))).toMatchObject({ code: expected })
  })

  test('FILE_TOO_LARGE without a request, and for an endless answer', async () => {
    const server = await serve((_, response) => {
      const timer = setInterval(() => response.write('x'.repeat(50_000)), 5)
      response.on('close', () => clearInterval(timer))
    })
    const connection = open(server.url)
    expect(await failure(connection.read({ ...listed, size: 100_001 }, signal))).toMatchObject({ code: 'FILE_TOO_LARGE' })
    expect(server.seen).toEqual([])
    const endless = connection.read({ ...listed, size: null, etag: null }, signal).then(({ bytes }) => Array.fromAsync(bytes))
    expect(await failure(endless)).toMatchObject({ code: 'FILE_TOO_LARGE' })
  })

  test('each request is signed and has no secret; without a username none is signed', async () => {
    const server = await serve((_, response) => response.end(page(object('in/a'))))
    await walked(open(server.url))
    await walked(open(server.url, { username: null, password: null }))
    const [signed, open_] = server.headers
    expect(signed?.authorization).toMatch(/^AWS4-HMAC-SHA256 Credential=KEYID\/\d{8}\/us-east-1\/s3\/aws4_request, SignedHeaders=host;/)
    expect(JSON.stringify([server.seen, server.headers])).not.toContain(credentials.password)
    expect(open_).not.toHaveProperty('authorization')
  })
})
