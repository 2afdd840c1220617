/** Files in office documents and messages. */
import { deflateSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { ole } from '../support/data/files.ts'
import { docx, paragraph, relations, zip } from '../support/data/office-files.ts'
import { pdf } from '../support/data/pdf-file.ts'
import { doc } from '../support/data/word-files.ts'
import { readBytes } from '../support/read-bytes.ts'

const u32 = (value: number): Buffer => Buffer.from(Uint32Array.of(value).buffer)
const wide = (text: string): Buffer => Buffer.from(text, 'utf16le')

/** A file as Windows packages it. */
const packaged = (path: string, content: Uint8Array): Buffer => {
  const inner = Buffer.concat([
    Buffer.from(`\x02\0label\0${path}\0\0\0\x03\0`),
    u32(5),
    Buffer.from('temp\0'),
    u32(content.length),
    content,
  ])
  return Buffer.concat([u32(inner.length), inner])
}

const inner = docx(paragraph('inner words'))

describe('Open XML', () => {
  test('a document in a document, a text file and a PDF in objects, an alternate chunk', async () => {
    const chunk = { 'chunk.html': ['aFChunk', '<html><body>chunk of HTML</body></html>'] } as Record<string, [string, string]>
    const file = docx(paragraph('outer words'), chunk, {
      'word/embeddings/Document.docx': inner,
      'word/embeddings/oleObject1.bin': ole({ '\x01Ole10Native': packaged('C:\\temp\\note.txt', Buffer.from('packaged words')) }),
      'word/embeddings/oleObject2.bin': ole({ CONTENTS: pdf({ pages: [{ text: ['printed words'] }] }) }),
      'word/embeddings/oleObject3.bin': Buffer.from('d0cf11e0a1b11ae1ffff', 'hex'),
    })
    const { text, metadata } = await readBytes(file, 'a.docx')
    for (const words of ['outer words', 'chunk of HTML', 'Document.docx\ninner words', 'note.txt\npackaged words', 'printed words'])
      expect.soft(text).toContain(words)
    expect(metadata.parts_unread).toBe(1)
  })

  test('nesting ends at the limit', async () => {
    let file = docx(paragraph('level 9'))
    for (let level = 8; level >= 0; level--) file = docx(paragraph(`level ${level}`), {}, { 'word/embeddings/next.docx': file })
    expect((await readBytes(file, 'a.docx')).text.match(/level \d/g)).toEqual(['level 0', 'level 1', 'level 2', 'level 3'])
  })

  test('masters, handouts and comments of presentations, without prompts; texts that layouts repeat once', async () => {
    const shape = (text: string, placeholder = '') => `<p:sp>${placeholder}<a:p><a:r><a:t>${text}</a:t></a:r></a:p></p:sp>`
    const file = zip({
      '[Content_Types].xml': '<Types/>',
      '_rels/.rels': relations({ r1: ['officeDocument', 'ppt/presentation.xml'] }),
      'ppt/presentation.xml': '<p:presentation><p:sldIdLst><p:sldId r:id="r1"/></p:sldIdLst></p:presentation>',
      'ppt/_rels/presentation.xml.rels': relations({
        r1: ['slide', 's.xml'],
        r2: ['slideMaster', 'm.xml'],
        r3: ['handoutMaster', 'h.xml'],
        r4: ['commentAuthors', 'a.xml'],
      }),
      'ppt/s.xml': `<p:sld>${shape('slide')}</p:sld>`,
      'ppt/_rels/s.xml.rels': relations({ r1: ['comments', 'c.xml'] }),
      'ppt/c.xml': '<p:cmLst><p:cm><p:text>remark</p:text></p:cm></p:cmLst>',
      'ppt/m.xml': `<p:sldMaster>${shape('logo')}${shape('Click to edit', '<p:ph type="title"/>')}${shape('footer', '<p:ph type="ftr"/>')}</p:sldMaster>`,
      'ppt/_rels/m.xml.rels': relations({ r1: ['slideLayout', 'l1.xml'], r2: ['slideLayout', 'l2.xml'] }),
      'ppt/l1.xml': `<p:sldLayout>${shape('footer', '<p:ph type="ftr"/>')}</p:sldLayout>`,
      'ppt/l2.xml': `<p:sldLayout>${shape('footer', '<p:ph type="ftr"/>')}${shape('draft')}</p:sldLayout>`,
      'ppt/h.xml': `<p:handoutMaster>${shape('confidential', '<p:ph type="hdr"/>')}</p:handoutMaster>`,
      'ppt/a.xml': '<p:cmAuthorLst><p:cmAuthor name="Ada Byron" initials="AB"/></p:cmAuthorLst>',
    })
    expect((await readBytes(file, 'a.pptx')).text).toBe('slide\n\nremark\n\nlogo\nfooter\ndraft\nconfidential\nAda Byron (AB)')
  })
})

describe('compound files', () => {
  test('objects of doc, in storages of their own', async () => {
    const file = ole({
      Workbook: Buffer.alloc(8),
      'ObjectPool/_1/\x01Ole10Native': packaged('note.txt', Buffer.from('packaged words')),
      'ObjectPool/_2/Package': inner,
    })
    const { text } = await readBytes(file, 'a.xls')
    expect(text).toContain('note.txt\npackaged words')
    expect(text).toContain('inner words')
  })

  test('a document as an object', async () => {
    const file = ole({ Other: Buffer.alloc(8), 'Object/\x01Ole10Native': packaged('old.doc', doc([{ text: 'old words\r' }])) })
    expect((await readBytes(file, 'a.bin')).text).toBe('old.doc\nold words')
  })

  test('compressed objects of ppt', async () => {
    const object = deflateSync(ole({ Package: inner }))
    const head = Buffer.alloc(12)
    head.writeUInt16LE(0x10, 0)
    head.writeUInt16LE(4113, 2)
    head.writeUInt32LE(object.length + 4, 4)
    const { text } = await readBytes(ole({ 'PowerPoint Document': Buffer.concat([head, object]) }), 'a.ppt')
    expect(text).toBe('inner words')
  })

  test('title, code page and own properties', async () => {
    const text = (value: Buffer) => Buffer.concat([u32(30), u32(value.length), value, Buffer.alloc((4 - (value.length % 4)) % 4)])
    const section = (values: [number, Buffer][]) => {
      let at = 8 + values.length * 8
      const index = values.map(([id, value]) => {
        at += value.length
        return Buffer.concat([u32(id), u32(at - value.length)])
      })
      return Buffer.concat([u32(at), u32(values.length), ...index, ...values.map(([, value]) => value)])
    }
    const set = (...sections: Buffer[]) => {
      let at = 28 + sections.length * 20
      const index = sections.map((one) => {
        at += one.length
        return Buffer.concat([Buffer.alloc(16), u32(at - one.length)])
      })
      return Buffer.concat([Buffer.alloc(24), u32(sections.length), ...index, ...sections])
    }
    const codePage = (number: number): [number, Buffer] => [1, Buffer.concat([u32(2), u32(number)])]
    const names = Buffer.concat([u32(1), u32(2), u32(6), Buffer.from('Client'), Buffer.alloc(2)])
    const { metadata } = await readBytes(
      ole({
        Workbook: Buffer.alloc(8),
        '\x05SummaryInformation': set(section([codePage(1251), [2, text(Buffer.from('c4eeec00', 'hex'))]])),
        '\x05DocumentSummaryInformation': set(section([]), section([[0, names], codePage(1252), [2, text(Buffer.from('ACME\0'))]])),
      }),
      'a.xls',
    )
    expect(metadata).toEqual({ title: 'Дом', 'custom.Client': 'ACME' })
  })
})

describe('msg', () => {
  test('code pages, recipients, attachments, messages in messages', async () => {
    const fixed = Buffer.alloc(64)
    fixed.writeUInt32LE(0x3ffd0003, 32)
    fixed.writeUInt32LE(1251, 40)
    const { text, metadata } = await readBytes(
      ole({
        '__properties_version1.0': fixed,
        '__substg1.0_0037001E': Buffer.from('c4eeec', 'hex'),
        '__substg1.0_10130102': Buffer.from('<p>body in HTML</p>'),
        '__recip_version1.0_#00000000/__substg1.0_3001001F': wide('Grace'),
        '__recip_version1.0_#00000000/__substg1.0_39FE001F': wide('grace@example.org'),
        '__attach_version1.0_#00000000/__substg1.0_3707001F': wide('inner.docx'),
        '__attach_version1.0_#00000000/__substg1.0_37010102': inner,
        '__attach_version1.0_#00000001/__substg1.0_3701000D/__properties_version1.0': Buffer.alloc(24),
        '__attach_version1.0_#00000001/__substg1.0_3701000D/__substg1.0_0037001F': wide('forwarded subject'),
      }),
      'a.msg',
    )
    expect(metadata.subject).toBe('Дом')
    for (const words of ['body in HTML', 'Grace <grace@example.org>', 'inner.docx\ninner words', 'forwarded subject'])
      expect.soft(text).toContain(words)
  })

  test('text that is not UTF-8 as stated is read in the code page of Windows', async () => {
    const fixed = Buffer.alloc(64)
    fixed.writeUInt32LE(0x3ffd0003, 32)
    fixed.writeUInt32LE(65_001, 40)
    const read = async (subject: Buffer) =>
      (await readBytes(ole({ '__properties_version1.0': fixed, '__substg1.0_0037001E': subject }), 'a.msg')).text
    expect(await read(Buffer.from('Gr\xfc\xdfe aus K\xf6ln', 'latin1'))).toBe('Grüße aus Köln')
    expect(await read(Buffer.from('Grüße aus Köln'))).toBe('Grüße aus Köln')
  })

  test('compressed RTF is used if there is no other body', async () => {
    const rtf = '{\\rtf1 words of RTF}'
    const stored = Buffer.concat([u32(0), u32(rtf.length), Buffer.from('MELA'), u32(0), Buffer.from(rtf)])
    const flags = [...Array(3)].map((_, i) => Buffer.concat([Buffer.from([0]), Buffer.from(rtf.slice(i * 8, i * 8 + 8))]))
    const packed = Buffer.concat([u32(0), u32(rtf.length), Buffer.from('LZFu'), u32(0), ...flags])
    for (const body of [stored, packed]) {
      const file = ole({ '__properties_version1.0': Buffer.alloc(32), '__substg1.0_10090102': body })
      expect((await readBytes(file, 'a.msg')).text).toContain('words of RTF')
    }
  })
})

describe('RTF', () => {
  const object = (className: string, data: Uint8Array) =>
    Buffer.concat([
      u32(0x501),
      u32(2),
      u32(className.length + 1),
      Buffer.from(`${className}\0`),
      u32(0),
      u32(0),
      u32(data.length),
      data,
    ]).toString('hex')

  test('packaged files and compound files are read; links and damaged objects are not', async () => {
    const files = [
      object('Package', packaged('C:\\note.txt', Buffer.from('packaged words')).subarray(4)),
      object('Word.Document.8', doc([{ text: 'old words\r' }])),
      '010500000100000000',
      'zz',
    ]
    const objects = files.map((hex) => `{\\object\\objemb{\\*\\objdata ${hex.replace(/.{60}/g, '$&\n')}}{\\result shown}}`)
    const { text } = await readBytes(Buffer.from(`{\\rtf1 outer\\par ${objects.join('')}}`), 'a.rtf')
    expect(text).toBe('outer\nshownshownshownshown\n\nnote.txt\npackaged words\n\nold words')
  })

  test('half a surrogate pair is a replacement character', async () => {
    expect((await readBytes(Buffer.from('{\\rtf1 a\\u-10179 ?b}'), 'a.rtf')).text).toBe('a\ufffdb')
  })

  test('numbers of lists are text', async () => {
    const item = (label: string, text: string) => `{\\pntext\\f0 ${label}\\tab}${text}\\par `
    expect((await readBytes(Buffer.from(`{\\rtf1 ${item('1.', 'one')}${item('2.', 'two')}}`), 'a.rtf')).text).toBe('1.\tone\n2.\ttwo')
  })
})

test('an HTML body is read too if it has more text than the plain one', async () => {
  const part = (type: string, body: string) => `--b\r\nContent-Type: text/${type}\r\n\r\n${body}\r\n`
  const head = 'From: a@example.org\r\nSubject: s\r\nContent-Type: multipart/alternative; boundary=b\r\n\r\n'
  const mail = (plain: string) => Buffer.from(`${head}${part('plain', plain)}${part('html', '<p>The invoice is due in May</p>')}--b--`)
  expect((await readBytes(mail('Your program cannot show HTML.'), 'a.eml')).text).toContain('invoice is due')
  expect((await readBytes(mail('The invoice is due in May'), 'a.eml')).text.match(/invoice/g)?.length).toBe(1)
})

test('a long run of tabs takes linear time', async () => {
  const { text } = await readBytes(docx(`<w:p><w:r><w:t>a</w:t>${'<w:tab/>'.repeat(300_000)}<w:t>b</w:t></w:r></w:p>`), 'a.docx')
  expect(text.length).toBe(300_002)
}, 60_000)
