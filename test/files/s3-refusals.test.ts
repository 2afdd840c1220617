/** The document store in S3 on a server that refuses requests, or breaks its answers off. */
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { openS3Store } from '../../src/files/stores/s3/s3.ts'
import { storeSettings } from '../support/servers/s3-settings.ts'

const address = `${'ab'.repeat(32)}.00000000`

async function openStore(answer: RequestListener, settings: Record<string, string> = {}) {
  const server = createServer((request, response) => {
    request.resume().once('end', () => answer(request, response))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const folder = await mkdtemp(join(tmpdir(), 'dms-s3-refusals-'))
  const { config } = loadConfig({
    env: {},
    flags: {
      data_dir: folder,
      ...storeSettings({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, username: 'id', password: 'secret' }, 'files'),
      ...settings,
    },
  })
  const store = openS3Store(config, join(folder, 'cache'))
  onTestFinished(async () => {
    await store.close().catch(() => {})
    server.closeAllConnections()
    server.close()
    await rm(folder, { recursive: true, force: true })
  })
  return store
}

test.each([400, 409, 412])('503 STORAGE_UNAVAILABLE for a refusal with %d', async (status) => {
  const store = await openStore((_, response) => response.writeHead(status).end())
  const unavailable = { code: 'STORAGE_UNAVAILABLE', status: 503 }
  await expect(store.size(address)).rejects.toMatchObject(unavailable)
  await expect(store.read(address)).rejects.toMatchObject(unavailable)
  await expect(store.stage(Readable.from([Buffer.from('hello')]), 10)).rejects.toMatchObject(unavailable)
  await expect(store.readDerived({ sha256: 'ab'.repeat(32), ownerId: 'a' }, '1x1.webp')).rejects.toMatchObject(unavailable)
})

test('a derived file whose connection is lost is read to its end', async () => {
  const bytes = Buffer.from('0123456789')
  const store = await openStore(({ headers: { range = 'bytes=0-' } }, response) => {
    const rest = bytes.subarray(Number(/\d+/.exec(range)?.[0]))
    response.writeHead(206, { 'content-length': rest.length, etag: '"one"' })
    if (rest.length <= 4) return void response.end(rest)
    response.write(rest.subarray(0, 3), () => response.destroy())
  })
  expect(String(await store.readDerived({ sha256: 'ab'.repeat(32), ownerId: 'a' }, '1x1.webp'))).toBe('0123456789')
})

const isPart = ({ url = '' }: IncomingMessage) => url.includes('partNumber=')
const isOfUpload = ({ url = '' }: IncomingMessage) => url.includes('uploadId=')
const silences: [name: string, bytes: number, isSilent: (request: IncomingMessage) => boolean][] = [
  ['the marker of a write session', 5, ({ url }) => url?.includes('/uncommitted/') === true],
  ['a small file', 5, ({ url }) => url?.includes('/files/') === true],
  ['the beginning of a multipart upload', 9_000_000, ({ url }) => url?.endsWith('?uploads=') === true],
  ['a part, and the end of its upload', 9_000_000, isOfUpload],
  ['the completion', 9_000_000, (request) => isOfUpload(request) && !isPart(request)],
]

test.concurrent.each(silences)(
  '503 STORAGE_UNAVAILABLE soon after storage.s3_timeout if S3 never answers %s',
  async (_, bytes, isSilent) => {
    const store = await openStore(
      (request, response) => {
        if (isSilent(request)) return
        response.end('<InitiateMultipartUploadResult><UploadId>1</UploadId></InitiateMultipartUploadResult>')
      },
      { 'storage.s3_timeout': '1s' },
    )
    await expect(store.stage(Readable.from([Buffer.alloc(bytes)]), bytes)).rejects.toMatchObject({
      code: 'STORAGE_UNAVAILABLE',
      status: 503,
    })
  },
  30_000,
)
