/** Pages of a bucket's list, in any chunks of the network. */
import { expect, test } from 'vitest'
import { parseListPage } from '../../src/s3/list-page.ts'
import { InvalidXml } from '../../src/xml.ts'

const keys = Array.from({ length: 1000 }, (_, index) => `archive/files/${index.toString().padStart(64, '0')}`)
const object = (key: string) => `<Contents><Key>${key}</Key><Size>3</Size><ETag>&quot;e&quot;</ETag></Contents>`
const page = (inner: string) => Buffer.from(`<ListBucketResult><IsTruncated>false</IsTruncated>${inner}</ListBucketResult>`)

async function* inChunks(body: Buffer, bytes: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < body.length; at += bytes) yield body.subarray(at, at + bytes)
}

test.each([1000, 1 << 16, 1 << 20])('a page of 1,000 keys is complete in chunks of %i bytes', async (bytes) => {
  const { objects, nextToken } = await parseListPage(inChunks(page(keys.map(object).join('')), bytes))
  expect(objects.map(({ key }) => key)).toEqual(keys)
  expect(nextToken).toBeNull()
})

test.each([1000, 1 << 16])('an object of more than 64 KiB is InvalidXml in chunks of %i bytes', async (bytes) => {
  await expect(parseListPage(inChunks(page(object('k'.repeat(140_000))), bytes))).rejects.toThrow(
    new InvalidXml('The response has an entry of more than 64 KiB.'),
  )
})
