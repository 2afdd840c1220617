/** Mail with files in its text, and with several authors. */
import { expect, test } from 'vitest'
import { readBytes } from '../support/read-bytes.ts'

const mail = (...lines: string[]): Buffer => Buffer.from(['From: a@example.org', 'To: b@example.org', 'Subject: x', ...lines].join('\r\n'))

/** Returns a file as uuencode writes it, with the grave accent or with spaces, which are removed at the ends of lines. */
function uuencode(filename: string, bytes: Buffer, zero: '`' | ' ' = '`'): string[] {
  const lines: string[] = []
  for (let at = 0; at < bytes.length; at += 45) {
    const part = bytes.subarray(at, at + 45)
    const padded = Buffer.concat([part, Buffer.alloc(-part.length % 3 === 0 ? 0 : 3 - (part.length % 3))])
    const codes = [part.length]
    for (let i = 0; i < padded.length; i += 3) {
      const bits = padded.readUIntBE(i, 3)
      codes.push(bits >> 18, (bits >> 12) & 63, (bits >> 6) & 63, bits & 63)
    }
    const line = codes.map((code) => (code === 0 ? zero : String.fromCharCode(code + 32))).join('')
    lines.push(zero === ' ' ? line.trimEnd() : line)
  }
  return [`begin 644 ${filename}`, ...lines, zero === ' ' ? '' : '`', 'end']
}

/** The last group of six bits of the first line is 0. */
const words = `${'The rent for January in the harbour'.padEnd(42)}@@@ and more than one line`
const text = words.replace(/ +/g, ' ')

test.each(['`', ' '] as const)('a file in the text (uuencode with %o) is read as an attachment', async (zero) => {
  const bytes = mail('', 'see below', ...uuencode('Miete Januar.txt', Buffer.from(words), zero), 'regards')
  const read = await readBytes(bytes, 'a.eml')
  expect(read.text.split(/\n+/).slice(3)).toEqual(['see below', 'regards', 'Miete Januar.txt', text])
  expect(read.text).not.toContain('begin 644')
})

test('a part in the encoding x-uuencode is decoded', async () => {
  const part = [
    'Content-Type: application/octet-stream; name="a.txt"',
    'Content-Disposition: attachment',
    'Content-Transfer-Encoding: x-uuencode',
  ]
  const content = [...part, '', ...uuencode('b.txt', Buffer.from(words))]
  const bytes = mail('MIME-Version: 1.0', 'Content-Type: multipart/mixed; boundary=b', '', '--b', ...content, '--b--')
  expect((await readBytes(bytes, 'a.eml')).text.split(/\n+/).slice(-2)).toEqual(['a.txt', text])
})

test('a sentence that begins like a file stays in the text', async () => {
  const lines = ['begin 644 times with this long sentence, which is no line of a file', 'and go on']
  expect((await readBytes(mail('', ...lines), 'a.eml')).text).toContain(lines.join('\n'))
})

test('all authors and blind copies are read', async () => {
  const bytes = mail('From: =?utf-8?Q?J=C3=BCrgen?= <j@example.org>, Eva <e@example.org>', 'Bcc: hidden@example.org', '', 'text')
  const { text: whole, metadata } = await readBytes(Buffer.from(bytes.toString().replace('From: a@example.org\r\n', '')), 'a.eml')
  expect(metadata.from).toBe('Jürgen <j@example.org>, Eva <e@example.org>')
  expect(whole).toContain('From: Jürgen <j@example.org>, Eva <e@example.org>')
  expect(whole).toContain('Bcc: hidden@example.org')
})
