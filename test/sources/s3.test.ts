/** S3 on a real server, whose objects another client writes. Misbehaving servers are in s3-lies.test.ts. */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import type { SourceEntry } from '../../src/ports/source-type.ts'
import { s3 } from '../../src/sources/s3/s3.ts'
import { startApp } from '../support/app.ts'
import { hasS3Server, type S3Server, startS3 } from '../support/servers/s3-server.ts'
import { sourceLimits } from '../support/source-limits.ts'
import { type SourcePlace, testSourceType } from '../support/source-suite.ts'

const limits = sourceLimits()
const signal = new AbortController().signal

let server: S3Server
let buckets = 0

/** Creates an empty folder in a bucket of its own, beside an object that is not in it. */
async function placeOn(): Promise<SourcePlace & { bucket: string }> {
  const bucket = `bucket-${++buckets}`
  const at = (path: string) => `${bucket}/in here/${path}`
  const put = async (path: string, body: string) => void (await server.send('PUT', at(path), { body }))
  await server.send('PUT', bucket)
  // Otherwise there would be nothing of this name.
  await put('', '')
  await server.send('PUT', `${bucket}/in here too.txt`, { body: 'not in it' })
  return {
    type: s3,
    bucket,
    address: { url: `${server.url}${bucket}/in%20here/`, username: server.username, password: server.password, recursive: true },
    limits,
    put,
    makeFolder: (path) => put(`${path}/`, ''),
    move: async (from, to) => {
      const source = `/${at(from)}`.split('/').map(encodeURIComponent).join('/')
      await server.send('PUT', at(to), { headers: { 'x-amz-copy-source': source } })
      await server.send('DELETE', at(from))
    },
    remove: async (path) => void (await server.send('DELETE', at(path))),
  }
}

function open(place: SourcePlace, more: Partial<SourcePlace['address']> = {}) {
  const connection = s3.open({ ...place.address, ...more }, place.limits)
  onTestFinished(() => connection.close())
  return connection
}

const walked = (connection: ReturnType<typeof open>) => Array.fromAsync(connection.walk({ loadTag: async () => null, signal }))
const filesOf = (entries: readonly SourceEntry[]) => entries.flatMap((entry) => (entry.kind === 'file' ? [entry.file] : []))

describe.runIf(hasS3Server())('Swift', () => {
  beforeAll(async () => {
    server = await startS3()
  })
  afterAll(() => server?.stop())

  testSourceType(placeOn)

  test('names that cannot be paths are problems, and stop no other file', async () => {
    const place = await placeOn()
    for (const name of ['../x.txt', '/abs.txt', 'a//b.txt', 'a\nb.txt', 'a\\b.txt', './c.txt', 'good.txt']) await place.put(name, 'x')
    await place.put('bytes/', 'a folder has none')
    const entries = await walked(open(place))
    expect(filesOf(entries).map(({ path }) => path)).toEqual(['good.txt'])
    const problems = entries.flatMap((entry) => (entry.kind === 'problem' ? [entry.path] : []))
    expect(problems.sort()).toEqual(['../x.txt', './c.txt', '/abs.txt', 'a//b.txt', 'a\\b.txt', 'a\ufffdb.txt', 'bytes/'])
  })

  test('the whole bucket, without a prefix', async () => {
    const place = await placeOn()
    await place.put('a.txt', 'a')
    const all = filesOf(await walked(open(place, { url: `${server.url}${place.bucket}` })))
    expect(all.map(({ path }) => path)).toEqual(['in here too.txt', 'in here/a.txt'])
  })

  test('an object of several parts, whose ETag is no hash', async () => {
    const place = await placeOn()
    const path = `${place.bucket}/in here/parts.txt`
    const begun = await (await server.send('POST', path, { query: '?uploads=' })).text()
    const id = /<UploadId>([^<]+)</.exec(begun)?.[1] ?? ''
    const parts = ['a'.repeat(5 << 20), 'end']
    const tags: string[] = []
    for (const [index, body] of parts.entries()) {
      const answer = await server.send('PUT', path, { query: `?partNumber=${index + 1}&uploadId=${encodeURIComponent(id)}`, body })
      tags.push(answer.headers.get('etag') ?? '')
    }
    const list = tags.map((tag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${tag}</ETag></Part>`).join('')
    const body = `<CompleteMultipartUpload>${list}</CompleteMultipartUpload>`
    // The object is there when the answer has ended.
    await (await server.send('POST', path, { query: `?uploadId=${encodeURIComponent(id)}`, body })).text()
    const connection = open(place)
    const [file] = filesOf(await walked(connection))
    expect(file).toMatchObject({ size: (5 << 20) + 3, etag: expect.stringMatching(/^"[0-9a-f]{32}-2"$/) })
    const { bytes, etag } = await connection.read(file!, signal)
    let size = 0
    for await (const piece of bytes) size += piece.length
    expect({ size, etag }).toEqual({ size: file?.size, etag: file?.etag })
  })

  test('CONTENT_MISMATCH for an object that changed since it was listed', async () => {
    const place = await placeOn()
    await place.put('a.txt', 'before')
    const connection = open(place)
    const [file] = filesOf(await walked(connection))
    await place.put('a.txt', 'after that')
    await expect(connection.read(file!, signal)).rejects.toMatchObject({
      code: 'CONTENT_MISMATCH',
      message: expect.stringContaining('changed'),
    })
  })

  test('SOURCE_UNAUTHORIZED for a wrong secret, SOURCE_NOT_FOUND_THERE for an unknown bucket', async () => {
    const place = await placeOn()
    const { checks } = await open(place, { password: 'wrong' }).test(signal)
    expect(checks.at(-1)).toEqual({ name: 'sign-in', ok: false, message: expect.stringContaining('secret of the access key') })
    await expect(walked(open(place, { password: 'wrong' }))).rejects.toMatchObject({ code: 'SOURCE_UNAUTHORIZED' })
    await expect(walked(open(place, { url: `${server.url}nowhere/` }))).rejects.toMatchObject({
      code: 'SOURCE_NOT_FOUND_THERE',
      message: expect.stringContaining('bucket'),
    })
  })

  test('files become documents; unchanged objects are not downloaded; a changed object is a new version', async () => {
    const place = await placeOn()
    const { asAdmin, runJobs } = await startApp({ 'ocr.enabled': false })
    const { url, username, password } = place.address
    const source = await asAdmin.sources.create({ name: 'Bucket', type: 's3', url, username, password })
    expect(JSON.stringify(source)).not.toContain(password)
    expect(await asAdmin.sources.test(source.id)).toMatchObject({ ok: true })
    const sync = async () => {
      await asAdmin.sources.sync(source.id)
      await runJobs(['sync'])
      return asAdmin.sources.syncStatus(source.id)
    }
    const documents = async () => {
      const all = await Array.fromAsync(asAdmin.documents.list({ source_id: source.id }))
      return new Map(all.map((document) => [document.source_path ?? '', document]))
    }
    await place.put('Invoice.txt', 'alpha')
    await place.put('sub/é b.txt', 'beta')
    expect(await sync()).toMatchObject({ state: 'completed', total: 2, created: 2, failed: 0, errors: [] })
    expect(await sync()).toMatchObject({ state: 'completed', total: 2, unchanged: 2, bytes: 0 })
    const before = await documents()
    expect([...before.keys()].sort()).toEqual(['Invoice.txt', 'sub/é b.txt'])
    await place.put('Invoice.txt', 'alpha, paid')
    await place.remove('sub/é b.txt')
    expect(await sync()).toMatchObject({ state: 'completed', updated: 1, removed: 1, bytes: 11 })
    const after = await documents()
    expect(after.get('Invoice.txt')).toMatchObject({ id: before.get('Invoice.txt')?.id, size: 11 })
    expect(after.get('Invoice.txt')?.sha256).not.toBe(before.get('Invoice.txt')?.sha256)
    expect(after.get('sub/é b.txt')?.metadata).toMatchObject({ source_removed_at: expect.any(String) })
  })
})
