import sharp from 'sharp'
import { describe, expect, test } from 'vitest'
import { detectType, headBytes } from '../../src/extract/detect.ts'
import { bmp, image, ole, scan, tiff } from '../support/data/files.ts'
import { docx, epub, openDocument, paragraph, xlsx, zip } from '../support/data/office-files.ts'
import { pdf } from '../support/data/pdf-file.ts'

const dot = await scan([], { width: 8, height: 8 })
const office = 'application/vnd.openxmlformats-officedocument'
const message = 'Received: by mx\r\nFrom: a@example.org\r\nSubject: s\r\n\r\nbody'

test.each<[what: string, bytes: Uint8Array | string, name: string, type: string]>([
  ['PDF', pdf({ pages: [{}] }), 'a.txt', 'application/pdf'],
  ['PDF behind junk', Buffer.concat([Buffer.from([0, 1, 2, 200]), pdf({ pages: [{}] })]), 'a', 'application/pdf'],
  ['PDF behind white space', Buffer.concat([Buffer.from(' \r\n\t '), pdf({ pages: [{}] })]), 'a', 'application/pdf'],
  ['PDF behind the headers of its download', `HTTP/1.1 200 OK\r\n\r\n${pdf({ pages: [{}] }).toString('latin1')}`, 'a', 'application/pdf'],
  ['PDF without the name of its format', '%\xe2\xe3\n1 0 obj \n<<\n/Kids [2 0 R]', 'a', 'application/pdf'],
  ['text that shows a PDF', 'In a PDF:\n%PDF-1.4\n1 0 obj\n<<\nendobj', 'a.md', 'text/markdown'],
  ['PDF stored in a ZIP', Buffer.concat([Buffer.from('PK\x03\x04'), Buffer.alloc(26), pdf({ pages: [{}] })]), 'a', 'application/zip'],
  ['PDF with a broken first line', '%PD-1.4\n1 0 obj\n<<>>\nendobj', 'a.pdf', 'application/pdf'],
  ['text about PDFs', 'Every file begins with %PDF-1.4, so', 'a.txt', 'text/plain'],
  ['UTF-8 text without a name', 'größer', '', 'text/plain'],
  ['UTF-16 text with mark', Buffer.from('\ufeffwide', 'utf16le'), 'a.mp3', 'text/plain'],
  ['UTF-16 text without mark', Buffer.from('wide text', 'utf16le'), 'a', 'text/plain'],
  ['UTF-16 text in Cyrillic without mark', Buffer.from('Счёт на оплату услуг', 'utf16le'), 'a', 'text/plain'],
  ['UTF-16 text in Arabic without mark', Buffer.from('فاتورة رقم 12', 'utf16le').swap16(), 'a.txt', 'text/plain'],
  [
    'numbers of 16 bits',
    Buffer.from(Uint16Array.from({ length: 999 }, (_, i) => (i * 7919) % 2300).buffer),
    'a',
    'application/octet-stream',
  ],
  ['latin text', Buffer.from('größer und schöner', 'latin1'), 'a.txt', 'text/plain'],
  ['text cut inside a character', Buffer.from(`${'a'.repeat(headBytes - 1)}ü`).subarray(0, headBytes), 'a', 'text/plain'],
  ['text with the colours and bells of a terminal', '\x1b[1;32mok\x1b[0m: a\b\x07', 'a', 'text/plain'],
  ['text with other control characters', '\x01ok\x02', 'a.txt', 'application/octet-stream'],
  ['CSV', 'a;b\n1;2', 'a.csv', 'text/csv'],
  ['Markdown', '# head', 'a.md', 'text/markdown'],
  ['JSON by content', '{"a": [1, 2]}', 'a', 'application/json'],
  ['no JSON in spite of its name', '{ not json', 'a.json', 'text/plain'],
  ['HTML', '<!-- c --><!DOCTYPE html><p>x', 'a.txt', 'text/html'],
  ['a piece of HTML by name', '<div>x</div>', 'a.html', 'text/html'],
  ['a table of HTML named as a workbook', '<table border="1"><tr><td>M&uuml;ller</td></tr></table>', 'a.xls', 'text/html'],
  ['a piece of HTML without a name', '<!-- c --><h1>x</h1>', 'a', 'text/html'],
  ['a piece of HTML in a text', '<div>x</div>', 'a.txt', 'text/plain'],
  ['a piece of HTML in Markdown', '<p align="center">x</p>', 'a.md', 'text/markdown'],
  ['XML whose root is called as an element of HTML', '<table><row/></table>', 'a.xml', 'application/xml'],
  ['XHTML', '<?xml version="1.0"?><html xmlns="x"></html>', 'a', 'application/xhtml+xml'],
  ['XML', '<?xml version="1.0"?><a/>', 'a.txt', 'application/xml'],
  ['SVG', '<?xml version="1.0"?><!-- c --><svg xmlns="x"/>', 'a.xml', 'image/svg+xml'],
  ['mail', message, 'a.txt', 'message/rfc822'],
  ['a box of mail', `From a Thu Feb 29 12:00:00 2024\n${message}`, 'a', 'application/mbox'],
  ['a memo', 'From: Finance\nDate: 5 March 2024\nRe: Budget\nAmount: 1,234.50\n\nPlease note.', 'memo.txt', 'text/plain'],
  ['mail without the headers of its transport', 'From: a@example.org\nSubject: s\n\nbody', 'a.eml', 'message/rfc822'],
  ['a letter that begins with To:', 'To: whom it may concern\n\nDear all', 'a.txt', 'text/plain'],
  ['a web archive', 'MIME-Version: 1.0\r\nContent-Type: multipart/related; boundary="b"\r\n\r\n--b', 'a.doc', 'message/rfc822'],
  ['a signed message', 'Content-Type: multipart/signed; protocol="p";\r\n\tboundary="b"\r\n\r\n--b', 'smime.p7m', 'message/rfc822'],
  ['text about MIME', 'Content-Type: multipart/mixed\n\nneeds a boundary=', 'a.txt', 'text/plain'],
  ['RTF', '{\\rtf1 x}', 'a.doc', 'application/rtf'],
  ['mailbox of Outlook', Buffer.from('2142444e11223344534d1700', 'hex'), 'a', 'application/vnd.ms-outlook-pst'],
  ['OneNote section', Buffer.from('e4525c7b8cd8a74daeb15378d02996d3', 'hex'), 'a', 'application/onenote'],
  ['PNG with the name of a text', await image(dot).png().toBuffer(), 'a.txt', 'image/png'],
  ['JPEG', await image(dot).jpeg().toBuffer(), 'a', 'image/jpeg'],
  ['GIF', await image(dot).gif().toBuffer(), 'a', 'image/gif'],
  ['WebP', await image(dot).webp().toBuffer(), 'a', 'image/webp'],
  ['AVIF', await image(dot).avif().toBuffer(), 'a', 'image/avif'],
  ['TIFF', tiff([dot]), 'a', 'image/tiff'],
  ['BMP', bmp(dot), 'a', 'image/bmp'],
  ['docx', docx(paragraph('x')), 'a.docx', `${office}.wordprocessingml.document`],
  ['docx without its name', docx(paragraph('x')), 'a', `${office}.wordprocessingml.document`],
  ['xlsx named docx, by its name until the whole is read', xlsx(), 'a.xlsx', `${office}.spreadsheetml.sheet`],
  ['odt', openDocument('text', ''), 'a.zip', 'application/vnd.oasis.opendocument.text'],
  ['epub', epub(), 'a', 'application/epub+zip'],
  ['ZIP', zip({ 'a.txt': 'x' }), 'a.zip', 'application/zip'],
  ['old Word', ole({ WordDocument: Buffer.alloc(1) }), 'a.doc', 'application/msword'],
  ['compound file without a telling name', ole({ WordDocument: Buffer.alloc(1) }), 'a', 'application/x-cfb'],
  ['binary data with the name of a text', Buffer.from([0, 1, 2, 3, 255, 254, 9]), 'a.txt', 'application/octet-stream'],
  ['nothing, by its name', '', 'a.csv', 'text/csv'],
  ['nothing', '', 'a', 'application/octet-stream'],
])('%s', async (_, bytes, name, type) => {
  const whole = Buffer.from(bytes as Uint8Array)
  expect(await detectType(whole.subarray(0, headBytes), name, whole.length)).toBe(type)
})

describe('an image is never detected as text', () => {
  /** White above and noise below: compressed white has zeros where UTF-16 has them. */
  const shapes = [16, 100, 333, 640, 1001].flatMap((width) => [0, 30, 90].map((white) => ({ width, white })))
  test.each(shapes)('of width $width, with $white % white', async ({ width, white }) => {
    const height = 300
    const pixels = Buffer.alloc(width * height, 255)
    for (let i = Math.floor((width * height * white) / 100), noise = 1; i < pixels.length; i += 1 + (noise & 31)) {
      noise = (noise * 48271) % 2147483647
      pixels[i] = noise
    }
    const gray = () => sharp(pixels, { raw: { width, height, channels: 1 } })
    const colour = () => gray().toColourspace('srgb')
    const comment = Buffer.from([0xff, 0xd8, 0xff, 0xfe, 0x20, 0x20])
    const files: Record<string, Buffer> = {
      'image/jpeg': await gray().jpeg({ quality: 90 }).toBuffer(),
      'image/jpeg ': await colour().jpeg({ optimiseCoding: false, quality: 50 }).toBuffer(),
      'image/jpeg with a comment': Buffer.concat([comment, Buffer.alloc(0x2020, 'words '), await gray().jpeg().toBuffer()]),
      'image/png': await colour().png({ compressionLevel: 0 }).toBuffer(),
      'image/gif': await gray().gif().toBuffer(),
      'image/webp': await gray().webp().toBuffer(),
      'image/tiff': await gray()
        .tiff({ compression: white === 0 ? 'none' : 'lzw' })
        .toBuffer(),
      'image/bmp': bmp({ gray: pixels, width, height }),
      'image/x-portable-anymap': Buffer.concat([Buffer.from(`P5\n# words\n${width} ${height}\n255\n`), pixels]),
      'image/x-portable-anymap of black and white': Buffer.concat([Buffer.from(`P4\n${width} ${height}\n`), Buffer.alloc(9000, 'A')]),
      'image/x-portable-anymap of digits': Buffer.from(`P2\n# words\n${width} ${height}\n255\n${pixels.subarray(0, 3000).join(' ')}`),
    }
    for (const [what, bytes] of Object.entries(files))
      for (const name of ['a', 'a.txt', 'a.pdf'])
        expect.soft([what, await detectType(bytes.subarray(0, headBytes), name, bytes.length)]).toEqual([what, what.split(' ')[0]])
  })
})

test('random bytes of any length never throw', async () => {
  let seed = 1
  const next = () => {
    seed = (seed * 48271) % 2147483647
    return seed & 0xff
  }
  for (let length = 0; length < 300; length++)
    expect(await detectType(Uint8Array.from({ length }, next), 'a')).toMatch(/^[\w-]+\/[\w.+-]+$/)
})
