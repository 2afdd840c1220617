import { expect, test } from 'vitest'
import { multipart, type Upload } from '../../src/client/http/multipart.ts'

const file = (filename: string, text: string, size: number | null = text.length): Upload => ({
  filename,
  size,
  open: () => [Buffer.from(text)],
})

async function send(files: readonly Upload[]) {
  const { body, contentType, contentLength } = multipart({ labels: 'a,b' }, 'files', files)
  const chunks = await Array.fromAsync(body as AsyncIterable<Uint8Array>)
  const form = await new Response(Buffer.concat(chunks), { headers: { 'content-type': contentType } }).formData()
  const sent = await Promise.all(form.getAll('files').map(async (value) => [(value as File).name, await (value as File).text()]))
  const bytes = chunks.reduce((sum, { length }) => sum + length, 0)
  return { chunks: chunks.length, labels: form.get('labels'), sent, bytes, contentLength }
}

test('ten small files are one chunk, whose length is the Content-Length', async () => {
  const { chunks, bytes, contentLength, labels, sent } = await send(Array.from({ length: 10 }, (_, at) => file(`${at}.txt`, `text ${at}`)))
  expect([chunks, bytes, labels]).toEqual([1, contentLength, 'a,b'])
  expect(sent).toEqual(Array.from({ length: 10 }, (_, at) => [`${at}.txt`, `text ${at}`]))
})

test('files around the size of a chunk arrive whole and in order', async () => {
  const sizes = [0, 1, 65_535, 65_536, 65_537, 300_000, 5]
  const { chunks, bytes, contentLength, sent } = await send(sizes.map((size) => file(`${size}`, 'x'.repeat(size))))
  expect(sent).toEqual(sizes.map((size) => [`${size}`, 'x'.repeat(size)]))
  expect(bytes).toBe(contentLength)
  expect(chunks).toBeLessThan(sizes.length)
})

test('the bytes of a pipe are sent as they come', async () => {
  let sent = 0
  const pipe: Upload = {
    filename: 'pipe',
    size: null,
    async *open() {
      for (let at = 0; at < 3; at++) {
        yield Buffer.from('x')
        sent++
      }
    },
  }
  const reader = multipart({}, 'file', [pipe]).body.getReader()
  const first = await reader.read()
  expect(first.done).toBe(false)
  expect(sent).toBeLessThan(3)
  await reader.cancel()
})
