import sharp from 'sharp'
import { describe, expect, test } from 'vitest'
import { openFile } from '../../src/extract/extract.ts'
import { bytesSource } from '../../src/extract/opened-document.ts'
import { bmp, claimedPng, eml, image, ole, scan, tiff } from '../support/data/files.ts'
import { docx, epub, openDocument, packedSpaces, paragraph, powerPointRecord, pptx, xlsx } from '../support/data/office-files.ts'
import { pdf } from '../support/data/pdf-file.ts'
import { failureOf, readBytes as read, readTools as tools } from '../support/read-bytes.ts'

const encode = (text: string, width: 2 | 4, isBig: boolean): Buffer => {
  const out = Buffer.alloc([...text].length * width)
  for (const [i, letter] of [...text].entries()) {
    const code = letter.codePointAt(0)!
    if (isBig) out.writeUIntBE(code, i * width, width)
    else out.writeUIntLE(code, i * width, width)
  }
  return out
}

describe('text', () => {
  const german = 'Die Straße nach Köln führt über Brücken; äußerst schön, größer als früher.'
  test.each([
    ['UTF-8', Buffer.from(german)],
    ['UTF-8 with mark', Buffer.from(`\ufeff${german}`)],
    ['windows-1252', Buffer.from(german, 'latin1')],
    ['UTF-16 LE with mark', Buffer.from(`\ufeff${german}`, 'utf16le')],
    ['UTF-16 LE', encode(german, 2, false)],
    ['UTF-16 BE', encode(german, 2, true)],
    ['UTF-32 LE', encode(german, 4, false)],
  ])('is read in %s', async (_, bytes) => {
    expect((await read(bytes, 'a.txt')).text).toBe(german)
  })

  test('is read in ISO-2022-JP and Shift JIS', async () => {
    const japanese = Buffer.from('1b2442467c4b5c386c1b2842', 'hex')
    expect((await read(japanese, 'a.txt')).text).toBe('日本語')
    const shiftJis = Buffer.concat(Array.from({ length: 8 }, () => Buffer.from('93fa967b8cea82cc95b68f9182c582b78142', 'hex')))
    expect((await read(shiftJis, 'a.txt')).text).toContain('日本語の文書です。')
  })

  test.each([
    ['cut inside a character', Buffer.from('Grüße aus Köln für François').subarray(0, -4)],
    ['with a line in Latin-1', Buffer.concat([Buffer.from('Größe der Tür: fünf Fuß\n'.repeat(4)), Buffer.from('Größe\n', 'latin1')])],
    ['with the colours of a terminal', Buffer.from('\x1b[31mFehler: Größe\x1b[0m der Tür')],
    ['in Japanese, cut inside a character', Buffer.from('日本語の文書です。').subarray(0, -1)],
  ])('is read as UTF-8 %s', async (_, bytes) => {
    const { text } = await read(bytes, 'a.txt')
    expect(text).toMatch(/Köln|Größe der Tür|Größe.*der Tür|日本語の文書です/)
    expect(text).not.toMatch(/Ã/)
  })

  test.each([
    ['colours', '\x1b[1;31mFehler\x1b[0m', 'a.log', 'Fehler'],
    ['a progress', '\x1b]0;build\x07\x1b[?25l10 %\r\x1b[K20 %', 'a.txt', '10 %\r20 %'],
    ['bold and underlined letters', 'N\bNA\bA  _\bu_\bn', 'a.txt', 'NA  un'],
    ['bells', '\x07\x07x', 'a.txt', '\x07\x07x'],
    ['the end of a file of DOS', 'dir\x1a', 'a.bat', 'dir\x1a'],
    ['colours in JSON', '{"log": "\\u001b[32mok\\u001b[0m"}', 'a.json', '{"log": "ok"}'],
    ['sequences without an end', '\x1b]0;x \x1b[', 'a.txt', '\x1b]0;x \x1b['],
  ])('of terminals is read without their codes: %s', async (_, text, name, readable) => {
    expect((await read(Buffer.from(text), name)).text).toBe(readable)
  })

  test.each([
    '<html><head><title>T</title><p>Hello body',
    '<html><head><meta charset=utf-8><title>T</title><style>a{}</style><div>Hello body</div></html>',
    '<html><head><title>T</title>Hello body',
  ])('HTML whose head has no end: %s', async (html) => {
    expect((await read(Buffer.from(html), 'a.html')).text).toBe('T\nHello body')
  })

  test('loses NUL and unpaired surrogates only', async () => {
    const { text } = await read(Buffer.from('naïve \ud83d\ude00 text\nwith lines\ta tab'), 'a.md')
    expect(text).toBe('naïve \ud83d\ude00 text\nwith lines\ta tab')
    const html = await read(Buffer.from('<html><body>a&#0;b&#xD800;c</body></html>'), 'a.html')
    expect(html.text).not.toMatch(/[\0\ud800-\udfff]/)
  })

  test('is cut after 20 million characters, with a warning', async () => {
    const { text, metadata } = await read(Buffer.alloc(20_000_100, 'word '), 'a.txt')
    expect(text.length).toBe(20_000_000)
    expect(metadata.text_truncated).toBe(true)
    expect((await read(Buffer.from(`<html><body>${'word '.repeat(4_000_200)}`), 'a.html')).metadata.text_truncated).toBe(true)
  })

  test('of an unknown type is empty', async () => {
    expect(await read(Buffer.from('00010203fffe9988', 'hex'), 'a.bin')).toMatchObject({
      text: '',
      mimeType: 'application/octet-stream',
      pages: [{ page: 1, needsOcr: false }],
    })
  })
})

describe('HTML and XML', () => {
  test('has the visible text: no scripts, separated cells, title first', async () => {
    const { text, metadata } = await read(
      Buffer.from(
        '<!doctype html><html><head><title>Head &amp; tail</title><style>p{}</style><meta name=author content=Ada><meta name=constructor content=none></head><body><script>var x</script><table><tr><td>c1</td><td>c2</td></tr></table><p>one<p>two<img alt="chart"></body>',
      ),
      'a.html',
    )
    expect(text).toBe('Head & tail\nc1\tc2\n\none\n\ntwo chart')
    expect(metadata).toEqual({ title: 'Head & tail', author: 'Ada' })
  })

  test('is decoded with the encoding of its meta element', async () => {
    const bytes = Buffer.concat([
      Buffer.from('<html><head><meta charset="windows-1251"></head><body>'),
      Buffer.from('cff0e8e2e5f2', 'hex'),
      Buffer.from('</body></html>'),
    ])
    expect((await read(bytes, 'a.html')).text).toBe('Привет')
  })

  test('without its root, named as a workbook', async () => {
    const table = '<table border="1"><tr><td>M&uuml;ller</td><td>12</td></tr></table>'
    expect((await read(Buffer.from(table), 'export.xls')).text).toBe('Müller\t12')
  })

  test('XHTML: elements that are closed in their own tag have no content', async () => {
    const root = '<html xmlns="http://www.w3.org/1999/xhtml">'
    const body = '<head><title/><style/><script src="a.js"/></head><body><p>one</p><textarea/><iframe src="b"/><p>two</p></body></html>'
    for (const name of ['a.xhtml', 'a.html']) expect((await read(Buffer.from(root + body), name)).text).toBe('one\n\ntwo')
    expect((await read(Buffer.from(`<?xml version="1.0"?><!DOCTYPE html><html>${body}`), 'a.xhtml')).text).toBe('one\n\ntwo')
  })

  test('of any depth is read or refused', async () => {
    expect((await read(Buffer.from(`<html><body>${'<div>'.repeat(1_000_000)}deep</body></html>`), 'a.html')).text).toBe('deep')
  })

  test('expands no custom entities: a billion laughs stay one', async () => {
    const laughs = '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "ha"><!ENTITY c "&b;&b;&b;">]><a><x>&c;</x><y attr="no">text</y></a>'
    expect((await read(Buffer.from(laughs), 'a.xml')).text).toBe('&c;\ntext')
  })
})

describe('office documents', () => {
  test('docx: header, table, text box once, footnote, comment, footer, properties; deleted text not', async () => {
    const box =
      '<mc:AlternateContent><mc:Choice><w:txbxContent><w:p><w:r><w:t>boxed</w:t></w:r></w:p></w:txbxContent></mc:Choice><mc:Fallback><w:p><w:r><w:t>boxed</w:t></w:r></w:p></mc:Fallback></mc:AlternateContent>'
    const table = `<w:tbl><w:tr><w:tc>${paragraph('left')}</w:tc><w:tc>${paragraph('right')}</w:tc></w:tr></w:tbl>`
    const bytes = docx(
      `<w:p><w:r><w:t>split</w:t></w:r><w:r><w:t>ted &amp; whole</w:t></w:r><w:del><w:r><w:t>gone</w:t></w:r></w:del></w:p>${box}${table}`,
      {
        'header1.xml': ['header', `<w:hdr>${paragraph('above')}</w:hdr>`],
        'footnotes.xml': ['footnotes', `<w:footnotes>${paragraph('noted')}</w:footnotes>`],
        'comments.xml': ['comments', `<w:comments>${paragraph('remarked')}</w:comments>`],
        'footer1.xml': ['footer', `<w:ftr>${paragraph('below')}</w:ftr>`],
      },
    )
    const { text, metadata, pages } = await read(bytes, 'wrong-name.zip')
    expect(text.split(/\s+/)).toEqual(['above', 'splitted', '&', 'whole', 'boxed', 'left', 'right', 'noted', 'remarked', 'below'])
    expect(metadata).toEqual({ title: 'Quarterly', author: 'Ada', created: '2024-02-29T12:00:00.000Z' })
    expect(pages).toHaveLength(1)
  })

  test('xlsx: sheet name, shared and inline strings, numbers as typed, dates, results of formulas', async () => {
    expect((await read(xlsx(), 'a.xlsx')).text).toBe('Umsätze\nKunde\tMüller\ndirekt\t0.1\t2/29/24 2024-02-29\tErgebnis\tTRUE')
  })

  test('pptx: slides in the order of the show, notes with them', async () => {
    expect((await read(pptx(), 'a.pptx')).text.split(/\n+/)).toEqual(['first slide', 'say hello', 'second slide'])
  })

  test('odt: header line, spaces, properties; FILE_ENCRYPTED with a password', async () => {
    const body = '<office:text><text:h>Titel</text:h><text:p>ein<text:s text:c="2"/><text:span>Satz</text:span></text:p></office:text>'
    expect(await read(openDocument('text', body), 'a.odt')).toMatchObject({
      text: 'Kopfzeile\nTitel\nein Satz',
      metadata: { title: 'Bericht', author: 'Ada' },
    })
    expect(await failureOf(openDocument('text', body, '<manifest:manifest><manifest:encryption-data/></manifest:manifest>'), 'a.odt')).toBe(
      'FILE_ENCRYPTED',
    )
  })

  test('ods: sheet name, one line per row', async () => {
    const cell = (text: string) => `<table:table-cell><text:p>${text}</text:p></table:table-cell>`
    const { text } = await read(
      openDocument(
        'spreadsheet',
        `<table:table table:name="Blatt"><table:table-row>${cell('a')}${cell('b')}</table:table-row></table:table>`,
      ),
      'a.ods',
    )
    expect(text).toBe('Kopfzeile\nBlatt\na \tb')
  })

  test('epub: chapters in the order of the spine', async () => {
    expect(await read(epub(), 'a.epub')).toMatchObject({
      text: 'erstes Kapitel\n\nzweites Kapitel',
      metadata: { title: 'Buch', author: 'Ada' },
    })
  })

  test('epub: FILE_ENCRYPTED for chapters under protection, not for fonts', async () => {
    const protect = (name: string) => ({
      'META-INF/encryption.xml': `<encryption><enc:EncryptedData><enc:CipherData><enc:CipherReference URI="${name}"/></enc:CipherData></enc:EncryptedData></encryption>`,
    })
    expect(await failureOf(epub(protect('OEBPS/a.xhtml')), 'a.epub')).toBe('FILE_ENCRYPTED')
    expect((await read(epub(protect('OEBPS/font.otf')), 'a.epub')).text).toBe('erstes Kapitel\n\nzweites Kapitel')
  })

  test('bytes before the archive shift no offset', async () => {
    expect((await read(Buffer.concat([Buffer.from('PK\x03\x04junk'), docx(paragraph('still here'))]), 'a.docx')).text).toBe('still here')
  })

  test('FILE_CORRUPT for a truncated file, FILE_TOO_COMPLEX for a bomb, FILE_ENCRYPTED for an encrypted one', async () => {
    expect(await failureOf(docx(paragraph('text')).subarray(0, 200), 'a.docx')).toBe('FILE_CORRUPT')
    expect(await failureOf(docx('', { 'header1.xml': ['header', ''] }, { 'word/header1.xml': packedSpaces(300) }), 'a.docx')).toBe(
      'FILE_TOO_COMPLEX',
    )
    const lying = packedSpaces(300)
    expect(await failureOf(docx('', { 'header1.xml': ['header', ''] }, { 'word/header1.xml': { ...lying, size: 10 } }), 'a.docx')).toBe(
      'FILE_TOO_COMPLEX',
    )
    expect(await failureOf(ole({ EncryptedPackage: Buffer.alloc(10) }), 'a.xlsx')).toBe('FILE_ENCRYPTED')
  })
})

describe('old office documents', () => {
  test('ppt: text atoms inside containers', async () => {
    const slide = powerPointRecord(
      1000,
      Buffer.concat([powerPointRecord(4000, Buffer.from('Grüße', 'utf16le')), powerPointRecord(4008, Buffer.from('latin', 'latin1'))]),
      0xf,
    )
    expect(await read(ole({ 'PowerPoint Document': slide }), 'a.bin')).toMatchObject({
      mimeType: 'application/vnd.ms-powerpoint',
      text: 'Grüße\nlatin',
    })
  })

  test('xls: sheet name, a string that continues in the next record, numbers', async () => {
    const part = (kind: number, ...data: (number | string)[]): Buffer => {
      const body = Buffer.concat(data.map((item) => (typeof item === 'string' ? Buffer.from(item, 'latin1') : Buffer.from([item]))))
      const head = Buffer.alloc(4)
      head.writeUInt16LE(kind, 0)
      head.writeUInt16LE(body.length, 2)
      return Buffer.concat([head, body])
    }
    const workbook = Buffer.concat([
      part(0x85, 0, 0, 0, 0, 0, 0, 5, 0, 'Preis'),
      part(0xfc, 1, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 'Apf'),
      part(0x3c, 1, 'e\0l\0!\0'),
      part(0x809, 0, 6, 0x10, 0),
      part(0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
      part(0x27e, 0, 0, 1, 0, 0, 0, 0x32, 1, 0, 0),
      part(0x0a),
    ])
    expect((await read(ole({ Workbook: workbook }), 'a.xls')).text).toBe('Preis\nApfel!\t76')
  })

  test('msg: subject, addresses and body', async () => {
    const wide = (text: string) => Buffer.from(text, 'utf16le')
    const message = ole({
      '__properties_version1.0': Buffer.alloc(8),
      '__substg1.0_0037001F': wide('Betreff'),
      '__substg1.0_0C1A001F': wide('Ada'),
      '__substg1.0_1000001F': wide('Der Text'),
    })
    expect(await read(message, 'a.msg')).toMatchObject({
      mimeType: 'application/vnd.ms-outlook',
      text: 'Betreff\nAda\nDer Text',
      metadata: { subject: 'Betreff', from: 'Ada' },
    })
  })

  test('a damaged compound file is FILE_CORRUPT and does not hang', async () => {
    expect(await failureOf(Buffer.concat([Buffer.from('d0cf11e0a1b11ae1', 'hex'), Buffer.alloc(4000, 1)]), 'a.doc')).toBe('FILE_CORRUPT')
  })

  test('rtf: code pages, Unicode with fallback, hidden destinations, info', async () => {
    const rtf = String.raw`{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}{\f1\fcharset204 Arial;}}{\info{\title Kurz}{\author Ada}{\creatim\yr2024\mo2\dy29\hr12\min0}}{\*\generator x;}Gr\'fc\'dfe \u8364?\par{\f1 \'cf\'f0}\tab{\pict 00ff}{\b fett}\{x\}}`
    expect(await read(Buffer.from(rtf), 'a.txt')).toMatchObject({
      mimeType: 'application/rtf',
      text: 'Grüße €\nПр\tfett{x}',
      metadata: { title: 'Kurz', author: 'Ada', created: '2024-02-29T12:00:00.000Z' },
    })
  })
})

describe('mail', () => {
  const headers = {
    From: 'Ada <ada@example.org>',
    To: 'Bob <bob@example.org>',
    Subject: '=?utf-8?q?Gr=C3=BC=C3=9Fe?=',
    Date: 'Thu, 29 Feb 2024 12:00:00 +0000',
  }

  test('headers, body and text of attachments, also of attached mails', async () => {
    const inner = eml({ ...headers, Subject: 'inner' }, [{ headers: { 'Content-Type': 'text/plain' }, body: 'inner body' }])
    const mail = eml(headers, [
      { headers: { 'Content-Type': 'text/html; charset=utf-8' }, body: '<p>outer <b>body</b></p>' },
      {
        headers: { 'Content-Type': 'application/octet-stream', 'Content-Disposition': 'attachment; filename="Vertrag.docx"' },
        body: docx(paragraph('attached words')),
      },
      { headers: { 'Content-Type': 'message/rfc822', 'Content-Disposition': 'attachment; filename="weiter.eml"' }, body: inner.toString() },
    ])
    const { text, metadata, pages, mimeType } = await read(mail, 'a.eml')
    expect(mimeType).toBe('message/rfc822')
    for (const word of ['Subject: Grüße', 'Ada <ada@example.org>', 'outer body', 'Vertrag.docx', 'attached words', 'inner body'])
      expect(text).toContain(word)
    expect(metadata).toMatchObject({
      subject: 'Grüße',
      from: 'Ada <ada@example.org>',
      created: '2024-02-29T12:00:00.000Z',
      attachment_count: 2,
    })
    expect(pages).toHaveLength(1)
  })

  test('an attached picture is a page for OCR, and page() returns it', async () => {
    const picture = await scan(['hello'], { width: 300, height: 100 })
    const mail = eml(headers, [
      { headers: { 'Content-Type': 'text/plain' }, body: 'see picture' },
      {
        headers: { 'Content-Type': 'image/png', 'Content-Disposition': 'attachment; filename="p.png"' },
        body: await image(picture).png().toBuffer(),
      },
    ])
    const opened = await openFile(bytesSource(mail, 'a.eml'), tools)
    expect((await opened.contents()).pages).toMatchObject([{ needsOcr: false }, { page: 2, needsOcr: true, width: 300, height: 100 }])
    expect(await opened.picture(2)).toMatchObject({ width: 300, height: 100 })
    expect(await opened.picture(3)).toBeNull()
  })

  test('a mailbox file has the text of all messages', async () => {
    const one = (body: string) =>
      `From ada Thu Feb 29 12:00:00 2024\nFrom: a@example.org\nSubject: s\nDate: Thu, 29 Feb 2024 12:00:00 +0000\n\n${body}\n\n`
    const { text, mimeType } = await read(Buffer.from(one('first words') + one('second words')), 'box')
    expect(mimeType).toBe('application/mbox')
    expect(text).toMatch(/first words[\s\S]*second words/)
  })

  test.each([
    ['with a date', 'From a@example.org Thu Feb 29 12:00:00 2024', true],
    ['without a date', 'From a@example.org', false],
  ])('mbox whose first line is %s: a line of a body that begins with From', async (_, separator, isWhole) => {
    const mail = (body: string) => `${separator}\nSubject: s\nMessage-ID: <a@b>\n\n${body}\n\n`
    const { text } = await read(Buffer.from(mail('We sailed.\n\nFrom the harbour: fees') + mail('end')), 'a.mbox')
    expect([text.includes('\nFrom the harbour: fees'), text.includes('\nend')]).toEqual([isWhole, true])
    expect(text.match(/^Subject: s/gm)).toHaveLength(2)
  })

  test('FILE_TOO_COMPLEX for endlessly nested parts', async () => {
    let mail = 'From: a@example.org\r\nSubject: s\r\nMIME-Version: 1.0\r\n'
    for (let i = 0; i < 300; i++) mail += `Content-Type: multipart/mixed; boundary=b${i}\r\n\r\n--b${i}\r\n`
    expect(await failureOf(Buffer.from(mail), 'a.eml')).toBe('FILE_TOO_COMPLEX')
  })

  test('a broken attachment loses no other part', async () => {
    const mail = eml(headers, [
      { headers: { 'Content-Type': 'text/plain' }, body: 'still there' },
      {
        headers: { 'Content-Type': 'application/pdf', 'Content-Disposition': 'attachment; filename="kaputt.pdf"' },
        body: Buffer.from('%PDF-1.4 nothing'),
      },
    ])
    expect((await read(mail, 'a.eml')).text).toMatch(/still there\s+kaputt\.pdf/)
  })
})

describe('pictures', () => {
  test.each(['png', 'jpeg', 'webp', 'gif', 'avif'] as const)('%s is one page for OCR with its size', async (format) => {
    const bytes = await image(await scan(['x'], { width: 120, height: 80 }))
      .toFormat(format)
      .toBuffer()
    expect(await read(bytes, 'a')).toMatchObject({
      mimeType: `image/${format}`,
      pages: [{ page: 1, text: '', needsOcr: true, width: 120, height: 80 }],
    })
  })

  test('a TIFF has all of its pages, up to the limit', async () => {
    const picture = await scan(['x'], { width: 40, height: 30 })
    expect(await read(tiff([picture, picture]), 'a')).toMatchObject({
      mimeType: 'image/tiff',
      metadata: { page_count: 2 },
      pages: [{ page: 1 }, { page: 2 }],
    })
    expect(await read(tiff(Array(5).fill(picture)), 'a')).toMatchObject({
      metadata: { page_count: 5, pages_without_ocr: 2 },
      pages: { length: 3 },
    })
  })

  test('a bitmap has equal pixels', async () => {
    const picture = await scan(['bmp'], { width: 61, height: 40 })
    const opened = await openFile(bytesSource(bmp(picture), 'a.dat'), tools)
    expect(opened.mimeType).toBe('image/bmp')
    expect(Buffer.from((await opened.picture(1))!.gray).equals(Buffer.from(picture.gray))).toBe(true)
  })

  test('EXIF orientation rotates page and pixels', async () => {
    const picture = await scan(['x'], { width: 120, height: 80 })
    const turned = await image(picture).withMetadata({ orientation: 6 }).jpeg().toBuffer()
    const opened = await openFile(bytesSource(turned, 'a.jpg'), tools)
    expect((await opened.contents()).pages).toMatchObject([{ width: 80, height: 120 }])
    expect(await opened.picture(1)).toMatchObject({ width: 80, height: 120 })
  })

  test('a truncated JPEG is read; garbage is FILE_CORRUPT; a claimed giant is FILE_TOO_COMPLEX before it is decoded', async () => {
    const whole = await image(await scan(['cut here'], { width: 600, height: 300 }))
      .jpeg()
      .toBuffer()
    const opened = await openFile(bytesSource(whole.subarray(0, whole.length * 0.7), 'a.jpg'), tools)
    expect((await opened.picture(1))!.gray).toHaveLength(600 * 300)
    expect(await failureOf(Buffer.from('89504e470d0a1a0a00000000', 'hex'), 'a.png')).toBe('FILE_CORRUPT')
    expect(await failureOf(claimedPng(30_000, 30_000), 'a.png')).toBe('FILE_TOO_COMPLEX')
  })

  test('transparent pixels become white, and very small pictures are not read', async () => {
    const clear = await image(await scan([], { width: 20, height: 20 }))
      .ensureAlpha(0)
      .png()
      .toBuffer()
    const opened = await openFile(bytesSource(clear, 'a.png'), tools)
    expect((await opened.picture(1))!.gray.every((value) => value === 255)).toBe(true)
    expect(
      (
        await read(
          await image(await scan([], { width: 4, height: 4 }))
            .png()
            .toBuffer(),
          'a.png',
        )
      ).pages,
    ).toMatchObject([{ needsOcr: false }])
  })

  test('an SVG has its text, and is rendered for OCR without any', async () => {
    const svg = (inner: string) => Buffer.from(`<svg xmlns="http://www.w3.org/2000/svg" width="90" height="60">${inner}</svg>`)
    expect(await read(svg('<text>label</text>'), 'a.svg')).toMatchObject({
      mimeType: 'image/svg+xml',
      pages: [{ text: 'label', needsOcr: false }],
    })
    expect((await read(svg('<path d="M0 0L9 9"/>'), 'a.svg')).pages).toMatchObject([{ text: '', needsOcr: true, width: 90, height: 60 }])
  })

  test('thumbnails fit the box and keep proportions; text has none', async () => {
    const opened = await openFile(
      bytesSource(
        await image(await scan(['x'], { width: 400, height: 200 }))
          .png()
          .toBuffer(),
        'a.png',
      ),
      tools,
    )
    expect(await sharp((await opened.thumbnail({ width: 100, height: 100 }, 'image/webp'))!).metadata()).toMatchObject({
      format: 'webp',
      width: 100,
      height: 50,
    })
    const fromPdf = await openFile(bytesSource(pdf({ pages: [{ text: ['x'], width: 200, height: 400 }] }), 'a.pdf'), tools)
    expect(await sharp((await fromPdf.thumbnail({ width: 100, height: 100 }, 'image/jpeg'))!).metadata()).toMatchObject({
      format: 'jpeg',
      width: 50,
      height: 100,
    })
    expect(
      await (await openFile(bytesSource(Buffer.from('text'), 'a.txt'), tools)).thumbnail({ width: 9, height: 9 }, 'image/webp'),
    ).toBeNull()
  })
})
