/** Outlook mail in winmail.dat, web archives, and signed files. */
import { describe, expect, test } from 'vitest'
import { ole } from '../support/data/files.ts'
import { docx, paragraph } from '../support/data/office-files.ts'
import { pdf } from '../support/data/pdf-file.ts'
import { failureOf, readBytes } from '../support/read-bytes.ts'

const u16 = (value: number): Buffer => Buffer.from([value & 0xff, value >> 8])
const u32 = (value: number): Buffer => Buffer.concat([u16(value & 0xffff), u16(value >>> 16)])
const wide = (text: string): Buffer => Buffer.from(`${text}\0`, 'utf16le')
const padded = (bytes: Buffer): Buffer => Buffer.concat([bytes, Buffer.alloc(-bytes.length & 3)])

/** MAPI properties of variable size, after one of fixed size and a named one. */
function mapi(values: readonly [id: number, type: number, value: Buffer][]): Buffer {
  const fixed = Buffer.concat([u16(3), u16(0x0017), u32(1)])
  const named = Buffer.concat([u16(3), u16(0x8001), Buffer.alloc(16), u32(1), u32(8), wide('own'), u32(2)])
  const others = values.map(([id, type, value]) => Buffer.concat([u16(type), u16(id), u32(1), u32(value.length), padded(value)]))
  return Buffer.concat([u32(values.length + 2), fixed, named, ...others])
}

const attribute = (level: number, id: number, data: Buffer): Buffer =>
  Buffer.concat([Buffer.from([level]), u16(id), u16(6), u32(data.length), data, u16(0)])

const tnef = (...all: Buffer[]): Buffer => Buffer.concat([u32(0x223e9f78), u16(1), ...all])

const body = (id: number, value: Buffer): Buffer => attribute(1, 0x9003, mapi([[id, id === 0x1009 ? 0x102 : 0x1f, value]]))
const storedRtf = (rtf: string): Buffer => Buffer.concat([u32(rtf.length + 12), u32(rtf.length), u32(0x414c454d), u32(0), Buffer.from(rtf)])
/** `{\rtf1\ansi\ansicpg1252\pard hello world}`, the example of the specification. */
const packedRtf = Buffer.from('2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0', 'hex')
const winmail = tnef(
  attribute(1, 0x8004, Buffer.from('Offer\0')),
  attribute(
    1,
    0x9003,
    mapi([
      [0x0037, 0x1f, wide('Größe')],
      [0x1000, 0x1f, wide('See the letter.')],
    ]),
  ),
  attribute(2, 0x9002, Buffer.alloc(14)),
  attribute(2, 0x8010, Buffer.from('LETTER~1.DOC\0')),
  attribute(2, 0x800f, docx(paragraph('harbour fees'))),
  attribute(2, 0x9005, mapi([[0x3707, 0x1f, wide('letter 1.docx')]])),
  attribute(2, 0x9002, Buffer.alloc(14)),
  attribute(2, 0x8010, Buffer.from('a.txt\0')),
  attribute(2, 0x800f, Buffer.from('second file')),
)

describe('winmail.dat', () => {
  test('subject, body and attachments with their long names', async () => {
    const { mimeType, text, metadata } = await readBytes(winmail, 'winmail.dat')
    expect([mimeType, metadata]).toEqual(['application/vnd.ms-tnef', { title: 'Größe', subject: 'Größe', attachment_count: 2 }])
    expect(text.split(/\n+/)).toEqual(['Größe', 'See the letter.', 'letter 1.docx', 'harbour fees', 'a.txt', 'second file'])
  })

  test('the time of sending is the date', async () => {
    const time = Buffer.alloc(8)
    time.writeBigUInt64LE((BigInt(Date.UTC(2024, 2, 5, 10)) + 11_644_473_600_000n) * 10_000n)
    const sent = attribute(1, 0x9003, Buffer.concat([u32(1), u16(0x40), u16(0x0039), time]))
    expect((await readBytes(tnef(sent), 'winmail.dat')).metadata).toEqual({ created: '2024-03-05T10:00:00.000Z' })
  })

  test('an HTML or RTF body, stored and compressed', async () => {
    const html = attribute(1, 0x9003, mapi([[0x1013, 0x102, Buffer.from('<html><body><p>in tags</p></body></html>')]]))
    expect((await readBytes(tnef(html), 'winmail.dat')).text).toBe('in tags')
    expect((await readBytes(tnef(body(0x1009, storedRtf('{\\rtf1 in braces}'))), 'winmail.dat')).text).toBe('in braces')
    expect((await readBytes(tnef(body(0x1009, packedRtf)), 'winmail.dat')).text).toContain('hello world')
  })
})

const element = (tag: number, ...content: Buffer[]): Buffer => {
  const all = Buffer.concat(content)
  const length = all.length < 128 ? Buffer.from([all.length]) : Buffer.from([0x82, all.length >> 8, all.length & 0xff])
  return Buffer.concat([Buffer.from([tag]), length, all])
}
/** An element of indefinite length. */
const open = (tag: number, ...content: Buffer[]): Buffer => Buffer.concat([Buffer.from([tag, 0x80]), ...content, Buffer.alloc(2)])
const signedOid = Buffer.from('06092a864886f70d010702', 'hex')
const dataOid = Buffer.from('06092a864886f70d010701', 'hex')
const [version, algorithms, signers] = [Buffer.from([2, 1, 1]), element(0x31), element(0x31)]

const signed = (content: Buffer): Buffer =>
  element(0x30, signedOid, element(0xa0, element(0x30, version, algorithms, element(0x30, dataOid, content), signers)))
const letter = docx(paragraph('signed words'))
const timestampedOid = Buffer.from('060b2a864886f70d010910011f', 'hex')
const timestamped = (content: Buffer): Buffer =>
  open(0x30, timestampedOid, open(0xa0, open(0x30, version, element(0x16, Buffer.from('a:b')), element(0x30), content, element(0xa0))))

describe('a signed file is read as its content', () => {
  test.each<[what: string, bytes: Buffer, name: string]>([
    ['in DER', signed(element(0xa0, element(4, letter))), 'letter.docx.p7m'],
    ['with a timestamp', timestamped(element(4, letter)), 'letter.docx.tsd'],
    [
      'with a timestamp, in pieces',
      timestamped(open(0x24, element(4, letter.subarray(0, 300)), element(4, letter.subarray(300)))),
      'a.tsd',
    ],
    ['with a signature and a timestamp', timestamped(element(4, signed(element(0xa0, element(4, letter))))), 'letter.docx.p7m.tsd'],
    [
      'in BER, in pieces',
      open(
        0x30,
        signedOid,
        open(
          0xa0,
          open(
            0x30,
            version,
            algorithms,
            open(0x30, dataOid, open(0xa0, open(0x24, element(4, letter.subarray(0, 300)), element(4, letter.subarray(300))))),
          ),
        ),
      ),
      'unnamed',
    ],
    [
      'in PEM',
      Buffer.from(`-----BEGIN PKCS7-----\n${signed(element(0xa0, element(4, letter))).toString('base64')}\n-----END PKCS7-----\n`),
      'a.p7m',
    ],
  ])('%s', async (_, bytes, name) => {
    expect(await readBytes(bytes, name)).toMatchObject({ mimeType: 'application/pkcs7-mime', hasReader: true, text: 'signed words' })
  })

  test('signed mail: its parts are read', async () => {
    const content =
      'Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n\r\n<p>signed <b>mail</b></p>\r\n--b--\r\n'
    const p7m = signed(element(0xa0, element(4, Buffer.from(content)))).toString('base64')
    const mail = `From: a@example.org\r\nSubject: offer\r\nMIME-Version: 1.0\r\nContent-Type: application/pkcs7-mime; smime-type=signed-data; name=smime.p7m\r\nContent-Transfer-Encoding: base64\r\n\r\n${p7m}\r\n`
    const { mimeType, text } = await readBytes(Buffer.from(mail), 'a.eml')
    expect(mimeType).toBe('message/rfc822')
    expect(text).toMatch(/offer[\s\S]*signed mail/)
  })

  test('a detached signature has no reader', async () => {
    expect(await readBytes(signed(Buffer.alloc(0)), 'a.p7s')).toMatchObject({ hasReader: false, text: '' })
  })
})

test.each([
  ['winmail.dat', winmail],
  ['packed RTF', tnef(body(0x1009, packedRtf))],
  ['p7m', signed(element(0xa0, element(4, letter)))],
])('%s, cut anywhere or with flipped bits, ends', async (_, bytes) => {
  for (let length = 0; length < bytes.length; length += 17)
    expect(['none', 'FILE_CORRUPT']).toContain(await failureOf(bytes.subarray(0, length), 'a'))
  for (let at = 6; at < bytes.length; at += 13) {
    const flipped = Buffer.from(bytes)
    flipped[at] = (flipped[at] ?? 0) ^ 0xff
    expect(['none', 'FILE_CORRUPT', 'FILE_TOO_COMPLEX', 'FILE_ENCRYPTED']).toContain(await failureOf(flipped, 'a'))
  }
})

describe('parts without the headers of a mail', () => {
  const parts = (type: string) =>
    Buffer.from(
      [
        'MIME-Version: 1.0\r\nX-Document-Type: Workbook',
        `Content-Type: multipart/${type};\r\n\tboundary="b"\r\n`,
        '--b\r\nContent-Location: file:///C:/a.htm\r\nContent-Transfer-Encoding: quoted-printable',
        'Content-Type: text/html; charset="utf-8"\r\n',
        '<html><body><p>harbour =\r\nfees f=C3=BCr M=C3=A4rz</p></body></html>',
        '--b\r\nContent-Type: text/csv; name="table.csv"\r\n\r\na;b\r\n--b--\r\n',
      ]
        .join('\r\n')
        .padEnd(4096, '\r\n'),
    )

  test('a web archive of Office', async () => {
    const { mimeType, text } = await readBytes(parts('related'), 'report.doc')
    expect([mimeType, text.split(/\n+/)]).toEqual(['message/rfc822', ['harbour fees für März', 'table.csv', 'a;b']])
  })

  test('a signed message in the only attachment of an Outlook message', async () => {
    const attachment = '__attach_version1.0_#00000000'
    const file = ole({
      '__properties_version1.0': Buffer.alloc(32),
      [`${attachment}/__substg1.0_3707001F`]: Buffer.from('smime.p7m', 'utf16le'),
      [`${attachment}/__substg1.0_37010102`]: parts('signed; protocol="application/pkcs7-signature"'),
    })
    expect((await readBytes(file, 'a.msg')).text.split(/\n+/)).toEqual(['smime.p7m', 'harbour fees für März', 'table.csv', 'a;b'])
  })
})

describe('files in XML', () => {
  const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64')
  const invoice = (...elements: string[]): Buffer =>
    Buffer.from(`<?xml version="1.0"?><Invoice><ID>4711</ID>${elements.join('')}</Invoice>`)
  const note = pdf({ pages: [{ text: ['delivered to the harbour'] }] })

  test('attachments of electronic invoices are read: UBL, CII, FatturaPA', async () => {
    const ubl = `<cbc:EmbeddedDocumentBinaryObject mimeCode="application/pdf" filename="Lieferschein.pdf">${base64(note)}</cbc:EmbeddedDocumentBinaryObject>`
    const cii = `<ram:AttachmentBinaryObject mimeCode="text/plain" filename="note.txt">\n${base64(Buffer.from('small'))}\n</ram:AttachmentBinaryObject>`
    const fattura = `<NomeAttachment>ddt.pdf</NomeAttachment><Attachment>${base64(note).replace(/.{76}/g, '$&\n')}</Attachment>`
    const { text, metadata } = await readBytes(invoice(ubl, cii, fattura), 'a.xml')
    expect(text.split(/\n+/)).toEqual([
      ...['4711', 'ddt.pdf', 'Lieferschein.pdf', 'delivered to the harbour', 'note.txt', 'small', 'delivered to the harbour'],
    ])
    expect(metadata).toEqual({})
  })

  test('other binary data are no text: pictures of a book, signatures; long words are', async () => {
    const random = base64(Buffer.from(Array.from({ length: 1200 }, (_, i) => (i * 7919) % 251)))
    const words = 'harbour '.repeat(200).trim()
    const elements = [
      `<binary id="cover.jpg" content-type="image/jpeg">${random}</binary>`,
      `<p>${words}</p>`,
      `<p>${'Word'.repeat(200)}</p>`,
    ]
    const { text, pages } = await readBytes(invoice(...elements), 'a.fb2')
    expect(text.split(/\n+/)).toEqual(['4711', words, 'Word'.repeat(200)])
    expect(pages).toHaveLength(1)
  })

  test('an attachment that is damaged loses nothing else, and is counted', async () => {
    const damaged = `<Object mimeCode="application/pdf" filename="a.pdf">${base64(Buffer.from('%PDF-1.4 nothing'))}</Object>`
    expect(await readBytes(invoice(damaged, '<Note>last</Note>'), 'a.xml')).toMatchObject({
      text: '4711\nlast\n\na.pdf',
      metadata: { parts_unread: 1 },
    })
  })
})
