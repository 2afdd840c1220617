/** Messages that state no charset, or none for their headers. */
import iconv from 'iconv-lite'
import { expect, test } from 'vitest'
import { readBytes } from '../support/read-bytes.ts'

const russian = 'Договор аренды квартиры заключён между арендодателем и арендатором'
const message = (headers: string, body: Uint8Array, encoding = 'latin1'): Buffer =>
  Buffer.concat([iconv.encode(`From: a@example.org\r\nTo: b@example.org\r\n${headers}\r\n`, encoding), body])
const textOf = async (bytes: Uint8Array): Promise<string> => (await readBytes(bytes, 'a.eml')).text

test.each(['windows-1251', 'koi8-r'])('a subject of 8 bits has the charset of the body: %s', async (charset) => {
  const headers = `Subject: ${russian}\r\nContent-Type: text/plain; charset=${charset}\r\n`
  expect(await readBytes(message(headers, iconv.encode('Привет', charset), charset), 'a.eml')).toMatchObject({
    text: `Subject: ${russian}\nFrom: a@example.org\nTo: b@example.org\n\nПривет`,
    metadata: { subject: russian },
  })
})

test('a subject of 8 bits without a charset is guessed', async () => {
  expect(await textOf(message('Subject: Größe der Straße in Köln\r\n', Buffer.from('body')))).toContain('Subject: Größe der Straße in Köln')
})

test.each([
  ['windows-1252', 'Die Straße nach Köln führt über Brücken, größer als früher'],
  ['windows-1251', russian],
])('a body without a charset in %s', async (encoding, text) => {
  const body = iconv.encode(text, encoding)
  expect(await textOf(message('Subject: x\r\n', body))).toContain(text)
  expect(await textOf(message('Subject: x\r\nContent-Type: text/plain\r\n', body))).toContain(text)
  const coded = Buffer.from(body.toString('base64'))
  const headers = 'Subject: x\r\nContent-Type: text/plain;\r\n format=fixed\r\nContent-Transfer-Encoding: base64\r\n'
  expect(await textOf(message(headers, coded))).toContain(text)
})

test('HTML declares the charset that its header lacks', async () => {
  const html = iconv.encode('<html><head><meta charset="koi8-r"></head><body>Привет мир</body></html>', 'koi8-r')
  const parts = Buffer.concat([
    Buffer.from('--b\r\nContent-Type: text/plain;\r\n charset=utf-8\r\n\r\nöffentlich\r\n--b\r\nContent-Type: text/html\r\n\r\n'),
    html,
    Buffer.from('\r\n--b--\r\n'),
  ])
  const text = await textOf(message('Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n', parts))
  expect(text).toContain('öffentlich')
  expect(text).toContain('Привет мир')
})

test('UTF-8 without a charset stays as it is', async () => {
  expect(await textOf(message('Subject: Grüße\r\nContent-Type: text/plain\r\n', Buffer.from('schön'), 'utf-8'))).toBe(
    'Subject: Grüße\nFrom: a@example.org\nTo: b@example.org\n\nschön',
  )
})

const german = 'Schöne Grüße aus München: „Straße“ – 5 €'

test.each(['us-ascii', 'ISO-8859-1', '"windows-1252"', 'x-unknown', 'unknown-8bit'])('UTF-8 that is declared as %s', async (charset) => {
  const headers = `Subject: x\r\nContent-Type: text/plain; format=flowed; charset=${charset}\r\n`
  expect(await textOf(message(headers, Buffer.from(german)))).toContain(german)
  const html = `Subject: x\r\nContent-Type: text/html;\r\n\tcharset=${charset}\r\n`
  expect(await textOf(message(html, Buffer.from(`<p>日本語 ${german}</p>`)))).toContain(`日本語 ${german}`)
})

test.each([
  ['windows-1252', german],
  ['windows-1251', russian],
])('%s that is declared as UTF-8', async (encoding, text) => {
  const headers = 'Subject: x\r\nContent-Type: text/plain; charset="utf-8"\r\n'
  expect(await textOf(message(headers, iconv.encode(text, encoding)))).toContain(text)
  const coded = Buffer.from(iconv.encode(text, encoding).toString('base64'))
  expect(await textOf(message(`${headers}Content-Transfer-Encoding: base64\r\n`, coded))).toContain(text)
})

test('each part of a message has its own wrong charset; damaged UTF-8 keeps its other words', async () => {
  const part = (type: string, body: Uint8Array) =>
    Buffer.concat([Buffer.from(`--b\r\nContent-Type: ${type}\r\n\r\n`), body, Buffer.from('\r\n')])
  const parts = Buffer.concat([
    part('text/plain; charset=utf-8', iconv.encode('erste Größe', 'windows-1252')),
    part('text/plain; charset=iso-8859-1', Buffer.from('zweite Größe – ä')),
    part('text/plain; charset=koi8-r', iconv.encode('Привет мир', 'koi8-r')),
    part('text/plain; charset=utf-8', Buffer.from('vierte Größe')),
    Buffer.from('--b--\r\n'),
  ])
  const text = await textOf(message('Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n', parts))
  for (const words of ['erste Größe', 'zweite Größe – ä', 'Привет мир', 'vierte Größe']) expect(text).toContain(words)
  const damaged = Buffer.concat([Buffer.from('Größe der Straße in Köln: gr'), Buffer.from([0xc3])])
  expect(await textOf(message('Subject: x\r\nContent-Type: text/plain; charset=utf-8\r\n', damaged))).toContain('Größe der Straße in Köln')
})

test('text that only looks like misread UTF-8 stays as it is', async () => {
  for (const [charset, text] of [
    ['utf-8', 'The mail shows Ã¼ in place of ü, and a \ufffd'],
    ['windows-1252', 'CAFÉ» à côté'],
  ] as const)
    expect(await textOf(message(`Subject: x\r\nContent-Type: text/plain; charset=${charset}\r\n`, iconv.encode(text, charset)))).toContain(
      text,
    )
})

test.each([
  ['=?us-ascii?Q?Gr=C3=BC=C3=9Fe?=', 'Grüße'],
  ['=?iso-8859-1?Q?Gr=C3?= =?iso-8859-1?Q?=BC=C3=9Fe?=', 'Grüße'],
  ['=?windows-1252?B?R3LDvMOfZQ==?=', 'Grüße'],
  ['=?x-unknown?Q?Gr=FC=DFe_aus_K=F6ln?=', 'Grüße aus Köln'],
  ['=?utf-8?Q?Gr=FC=DFe_aus_K=F6ln?=', 'Grüße aus Köln'],
  ['=?iso-8859-1?Q?Gr=FC=DFe?=', 'Grüße'],
  ['=?utf-8?B?R3LDvMOfZQ==?=', 'Grüße'],
  ['=?koi8-r?B?8NLJ18XU?=', 'Привет'],
])('the encoded words %s are read in the charset of their bytes', async (subject, text) => {
  const { metadata } = await readBytes(message(`Subject: ${subject}\r\n`, Buffer.from('body')), 'a.eml')
  expect(metadata.subject).toBe(text)
})
