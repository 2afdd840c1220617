/** Documents of Hangul, the word processor of Korea. */
import { createCipheriv } from 'node:crypto'
import { deflateRawSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { ole } from '../support/data/files.ts'
import { failureOf, readBytes } from '../support/read-bytes.ts'

const header = (flags: number): Buffer => {
  const bytes = Buffer.alloc(256)
  bytes.write('HWP Document File')
  bytes.writeUInt32LE(flags, 36)
  return bytes
}

/** A record; its size is separate from 4,095 bytes on. */
function record(kind: number, data: Buffer): Buffer {
  const head = Buffer.alloc(data.length < 0xfff ? 4 : 8)
  head.writeUInt32LE((kind | (Math.min(data.length, 0xfff) << 20)) >>> 0)
  if (head.length === 8) head.writeUInt32LE(data.length, 4)
  return Buffer.concat([head, data])
}

/** A paragraph; control characters except line ends have seven more units. */
const paragraph = (text: string): Buffer =>
  record(
    67,
    Buffer.from(
      text.replace(/\p{Cc}/gu, (sign) => ('\n\r\x18\x1e\x1f'.includes(sign) ? sign : `${sign}xxxxxx${sign}`)),
      'utf16le',
    ),
  )

const section = Buffer.concat([
  record(66, Buffer.alloc(22, 7)),
  paragraph('\x02계약서\tNo.\x1e1\x18a\x1fb\nend\r'),
  paragraph(`${'긴'.repeat(3000)}\r`),
])
const document = (flags: number, sections: Record<string, Buffer>): Buffer =>
  ole({ FileHeader: header(flags), DocInfo: Buffer.alloc(4), ...sections })
const lines = ['계약서\tNo. 1-a b', 'end', '긴'.repeat(3000)]

test.each([
  ['stored', 0, section],
  ['compressed', 1, deflateRawSync(section)],
])('paragraphs of all sections in their order, %s', async (_, flags, bytes) => {
  const sections = { 'BodyText/Section10': bytes, 'BodyText/Section0': bytes }
  const { mimeType, text } = await readBytes(document(flags, sections), 'a')
  expect([mimeType, text.split(/\n+/)]).toEqual(['application/x-hwp', [...lines, ...lines]])
})

test('a document that is protected against changes is decrypted; one with a password is FILE_ENCRYPTED', async () => {
  const seed = 0x2545
  const key = Buffer.from('0123456789abcdef')
  const data = Buffer.alloc(256)
  key.copy(data, 4 + (seed & 15))
  let state = seed
  const random = (): number => {
    state = Number((BigInt(state) * 214_013n + 2_531_011n) & 0xffff_ffffn)
    return (state >>> 16) & 0x7fff
  }
  for (let i = 0, left = 0, mask = 0; i < data.length; i++, left--) {
    if (left === 0) [mask, left] = [random() & 255, (random() & 15) + 1]
    if (i >= 4) data[i]! ^= mask
  }
  data.writeUInt32LE(seed)
  const packed = deflateRawSync(section)
  const cipher = createCipheriv('aes-128-ecb', key, null).setAutoPadding(false)
  const body = cipher.update(Buffer.concat([packed, Buffer.alloc(-packed.length & 15)]))
  const sections = {
    'BodyText/Section0': deflateRawSync(paragraph('protected')),
    'ViewText/Section0': Buffer.concat([record(28, data), body]),
  }
  expect((await readBytes(document(5, sections), 'a.hwp')).text.split(/\n+/)).toEqual(lines)
  expect(await failureOf(document(2, {}), 'a.hwp')).toBe('FILE_ENCRYPTED')
})

test('damaged documents, and those from before version 5, have no text', async () => {
  for (const flags of [0, 1, 5])
    for (const bytes of [Buffer.alloc(3), section.subarray(0, 9), Buffer.alloc(300, 255)])
      await readBytes(document(flags, { 'BodyText/Section0': bytes, 'ViewText/Section0': bytes }), 'a.hwp')
  expect(await readBytes(Buffer.from('HWP Document File V3.00 \x1a\x01\x02\x03\x04\x05\x00\x00', 'latin1'), 'a.hwp')).toMatchObject({
    hasReader: false,
    text: '',
  })
})
