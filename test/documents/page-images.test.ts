/** Pictures of pages. */
import sharp from 'sharp'
import { expect, test, vi } from 'vitest'
import type { Client } from '../../src/client/client.ts'
import { ReadFailure } from '../../src/ports/document-reader.ts'
import { startApp, upload } from '../support/app.ts'
import { scan, tiff } from '../support/data/files.ts'
import { pdf } from '../support/data/pdf-file.ts'

const ask = (client: Client, id: string, page: number | string, query = '', headers = {}) =>
  client.send('GET', `/api/documents/${id}/pages/${page}/image${query}`, undefined, headers)

const sizeOf = async (response: Response) => {
  const { format, width, height } = await sharp(Buffer.from(await response.arrayBuffer())).metadata()
  return { format, width, height }
}

test('each page of a PDF and of a TIFF has a picture of the requested width and type; 304 by its ETag', async () => {
  const { asAda } = await startApp()
  const book = await upload(asAda, 'a.pdf', pdf({ pages: [{ text: ['one'] }, { text: ['two'], width: 842, height: 595 }] }))
  const first = await ask(asAda, book.id, 1)
  expect(await sizeOf(first)).toEqual({ format: 'webp', width: 1000, height: 1415 })
  expect(await sizeOf(await ask(asAda, book.id, 2, '?width=2000', { accept: 'image/jpeg' }))).toEqual({
    format: 'jpeg',
    width: 2000,
    height: 1413,
  })
  const etag = first.headers.get('etag') ?? ''
  expect((await ask(asAda, book.id, 1, '', { 'if-none-match': etag })).status).toBe(304)
  expect((await ask(asAda, book.id, 2, '', { 'if-none-match': etag })).status).toBe(200)
  const pages = [await scan(['one'], { width: 300, height: 100 }), await scan(['two'], { width: 200, height: 100 })]
  const fax = await upload(asAda, 'a.tif', tiff(pages))
  expect(await sizeOf(await ask(asAda, fax.id, 2))).toEqual({ format: 'webp', width: 200, height: 100 })
})

test('404 PAGE_IMAGE_NOT_FOUND for a page that does not exist, a text, a damaged file, an encrypted one; 400 for another width', async () => {
  const { asAda } = await startApp()
  const book = await upload(asAda, 'a.pdf', pdf({ pages: [{ text: ['one'] }] }))
  const text = await upload(asAda, 'a.txt', 'text')
  const broken = await upload(asAda, 'b.pdf', '%PDF-1.4 nothing')
  const locked = await upload(asAda, 'c.pdf', pdf({ pages: [{ text: ['one'] }], locked: true }))
  const wanted: [string, number | string][] = [
    ...[0, 2, -1, 'x', '1e3', 1_000_000].map((page): [string, number | string] => [book.id, page]),
    ...[text.id, broken.id, locked.id].map((id): [string, number] => [id, 1]),
  ]
  for (const [id, page] of wanted) {
    const answer = await ask(asAda, id, page)
    expect([page, answer.status, await answer.json()]).toMatchObject([page, 404, { error: { code: 'PAGE_IMAGE_NOT_FOUND' } }])
  }
  for (const query of ['?width=0', '?width=999', '?width=100000']) expect((await ask(asAda, book.id, 1, query)).status).toBe(400)
})

test('a picture is rendered once and cached for its owner; pages after the hundredth, and failures, are not cached', async () => {
  const { app, asAda, asBob } = await startApp()
  const bytes = pdf({ pages: Array.from({ length: 101 }, () => ({ text: ['one'] })) })
  const { id } = await upload(asAda, 'a.pdf', bytes)
  const rendered = vi.spyOn(app.previewer, 'thumbnail')
  const twice = async (page: number, client = asAda, of = id) => {
    const before = rendered.mock.calls.length
    for (let times = 0; times < 2; times++) await (await ask(client, of, page)).arrayBuffer()
    return rendered.mock.calls.length - before
  }
  expect([await twice(1), await twice(100), await twice(101)]).toEqual([1, 1, 2])
  expect(await twice(1, asBob, (await upload(asBob, 'a.pdf', bytes)).id)).toBe(1)
  rendered.mockRejectedValue(new ReadFailure('READ_TIMEOUT'))
  expect([await twice(1), await twice(2)]).toEqual([0, 2])
})
