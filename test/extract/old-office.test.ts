/** Office documents from before 2007 and Rich Text, as programs write them. */
import iconv from 'iconv-lite'
import { describe, expect, test } from 'vitest'
import { ole } from '../support/data/files.ts'
import { powerPointRecord, zip } from '../support/data/office-files.ts'
import { doc } from '../support/data/word-files.ts'
import { failureOf, readBytes } from '../support/read-bytes.ts'

describe('PowerPoint', () => {
  const container = 0xf
  const text = (words: string) => powerPointRecord(4008, Buffer.from(words, 'latin1'))

  test('placeholders of dates and slide numbers are not read', async () => {
    const slides = powerPointRecord(
      1006,
      Buffer.concat([text('*'), text('shown *'), powerPointRecord(4000, Buffer.from('*', 'utf16le'))]),
      container,
    )
    expect((await readBytes(ole({ 'PowerPoint Document': slides }), 'a.ppt')).text).toBe('shown *')
  })

  test('2007 and later: the slides behind a ZIP file in a record that has the version of containers', async () => {
    const styles = powerPointRecord(1064, zip({ 'ppt/tableStyles.xml': '<a:tblStyleLst/>' }), container)
    const slides = Buffer.concat([
      powerPointRecord(1000, Buffer.concat([text('before'), styles]), container),
      powerPointRecord(1006, text('behind'), container),
    ])
    expect((await readBytes(ole({ 'PowerPoint Document': slides }), 'a.ppt')).text).toBe('before\nbehind')
  })

  test('comments in the tags of slides', async () => {
    const comment = powerPointRecord(12000, Buffer.concat([powerPointRecord(4026, Buffer.from('a remark', 'utf16le'), 0x10)]), container)
    const tag = powerPointRecord(
      5002,
      Buffer.concat([powerPointRecord(4026, Buffer.from('___PPT10', 'utf16le')), powerPointRecord(5003, comment)]),
      container,
    )
    const slide = powerPointRecord(1006, Buffer.concat([text('slide'), powerPointRecord(5000, tag, container), text('end')]), container)
    expect((await readBytes(ole({ 'PowerPoint Document': slide }), 'a.ppt')).text).toBe('slide\na remark\nend')
  })

  const u32 = (...values: number[]): Buffer => Buffer.from(Uint32Array.from(values).buffer)
  const title = (words: string) => Buffer.concat([powerPointRecord(3999, u32(0)), text(words)])
  const other = (words: string) => Buffer.concat([powerPointRecord(3999, u32(4)), text(words)])

  test('the prompts of a master are no text, its footer is', async () => {
    const slides = Buffer.concat([
      powerPointRecord(1016, Buffer.concat([title('Click to edit'), other('Confidential')]), container),
      powerPointRecord(1006, title('Agenda'), container),
    ])
    expect((await readBytes(ole({ 'PowerPoint Document': slides }), 'a.ppt')).text).toBe('Confidential\nAgenda')
  })

  /** A presentation that was saved twice, with a new version of the slide and one slide less. `lastEdit`: offset of the last edit, for damage. */
  function savedTwice(lastEdit?: number): Buffer {
    const stream: Buffer[] = []
    const notesMaster = u32(0, 0, 0, 0, 0, 0, 5, 0, 0, 0)
    const append = (kind: number, data: Uint8Array, version = 0): number => {
      const at = Buffer.concat(stream).length
      stream.push(powerPointRecord(kind, data, version))
      return at
    }
    const list = (instance: number, ...ids: number[]) =>
      powerPointRecord(4080, Buffer.concat(ids.map((id) => powerPointRecord(1011, u32(id)))), container | (instance << 4))
    const document = (...slideIds: number[]) =>
      append(1000, Buffer.concat([powerPointRecord(1001, notesMaster), list(1, 6), list(0, ...slideIds)]), container)
    const save = (previous: number, objects: Buffer): number => {
      const directory = append(6002, objects)
      return append(4085, u32(0, 0, previous, directory, 1, 0))
    }
    const slide = (words: string) => append(1006, text(words), container)
    const masters = [append(1008, title('Click to edit notes'), container), append(1006, title('Click to edit title'), container)]
    const first = save(0, u32((3 << 20) | 1, document(2, 3), slide('draft'), slide('deleted'), (2 << 20) | 5, ...masters))
    const last = save(first, u32((2 << 20) | 1, document(2, 4), slide('final'), (1 << 20) | 4, slide('added')))
    const user = Buffer.concat([u32(0, 0, 20, 0xe391c05f), u32(lastEdit ?? last)])
    return ole({ 'Current User': user, 'PowerPoint Document': Buffer.concat(stream) })
  }

  test('only the last save is text, without prompts of masters', async () => {
    expect((await readBytes(savedTwice(), 'a.ppt')).text).toBe('final\nadded')
  })

  test('all saves are text if the directory of objects is damaged', async () => {
    expect((await readBytes(savedTwice(1), 'a.ppt')).text).toContain('draft\ndeleted\nfinal\nadded')
  })

  test('FILE_ENCRYPTED with a password', async () => {
    const user = Buffer.concat([Buffer.from('1400000014000000', 'hex'), Buffer.from('14000000dfc4d1f3', 'hex')])
    expect(await failureOf(ole({ 'Current User': user, 'PowerPoint Document': Buffer.alloc(64, 0x5a) }), 'a.ppt')).toBe('FILE_ENCRYPTED')
  })
})

describe('Word 97', () => {
  test('deleted text of tracked changes is no text', async () => {
    const file = doc([
      { text: 'The period is thirty forty days\r', deleted: [14, 20] },
      { text: 'one\r', list: 1, level: 0 },
      { text: 'gone\r', list: 1, level: 0, deleted: [0, 4] },
      { text: 'two\r', list: 1, level: 0 },
      { text: 'left\x07', deleted: [0, 4] },
      { text: 'right\x07' },
      { text: '\x07', isRowEnd: true },
    ])
    expect((await readBytes(file, 'a.doc')).text).toBe('The period is forty days\n1. one\n2. two\n\tright')
  })
})

describe('Word 6 and 95', () => {
  const english = 0x409
  const word95 = (bytes: Uint8Array, charset = 0): Buffer => {
    const header = Buffer.alloc(0x300)
    header.writeUInt16LE(charset, 0x14)
    header.writeUInt16LE(0x68, 2)
    header.writeUInt16LE(english, 6)
    header.writeUInt32LE(header.length, 0x18)
    header.writeUInt32LE(header.length + bytes.length, 0x1c)
    header.writeUInt32LE(bytes.length, 0x34)
    return ole({ WordDocument: Buffer.concat([header, bytes]) })
  }

  test.each([
    ['windows-1251', 'Предлагает со склада в Москве следующий ассортимент вин'],
    ['windows-1250', 'Faktura została wystawiona dnia trzeciego marca, a należność wynosi tysiąc złotych'],
    ['windows-1252', 'Die Straße nach Köln führt über Brücken, größer als früher'],
  ])('of an English program in %s', async (encoding, text) => {
    expect((await readBytes(word95(iconv.encode(text, encoding)), 'a.doc')).text).toBe(text)
  })

  test('of a Macintosh', async () => {
    const text = 'L’équipe a présenté la stratégie à Zürich'
    expect((await readBytes(word95(iconv.encode(text, 'macroman'), 256), 'a.doc')).text).toBe(text)
  })
})

describe('RTF', () => {
  const read = async (body: string): Promise<string> => (await readBytes(Buffer.from(`{\\rtf1\\ansi ${body}}`, 'latin1'), 'a.rtf')).text

  test('properties have the code page of the document, or are in Unicode', async () => {
    const info = "{\\info{\\title \\'83^\\'83C\\'83g\\'83\\'8b}{\\upr{\\author ???}{\\*\\ud{\\author \\u23614 ?\\u23822 ?}}}}"
    const { metadata } = await readBytes(Buffer.from(`{\\rtf1\\ansi\\ansicpg932${info} text}`, 'latin1'), 'a.rtf')
    expect(metadata).toEqual({ title: 'タイトル', author: '尾崎' })
  })

  test('only the start of a group marks a destination', async () => {
    const line = String.raw`\*\cs7 hidden} fox`
    expect(await read(`${String.raw`{\loch\b0\*\cs7\cf0 The quick}{\*\cs7 hidden}{`}\n${line}`)).toBe('The quick fox')
  })

  test('comments and footnotes follow the text, and divide no word', async () => {
    const comment = String.raw`{\*\atnid AL}{\*\atnauthor Ada}\chatn{\*\annotation \pard a remark}`
    expect(await read(String.raw`super${comment}cali{\footnote a source}fragil\par end`)).toBe(
      'supercalifragil\nend\n\nAda\na remark\na source',
    )
  })

  test('page headers, footers and text boxes have lines of their own', async () => {
    expect(await read(String.raw`{\header above}first{\*\shpinst{\sp{\sn fFlipV}{\sv 0}}{\shptxt box}}second{\footerf below}`)).toBe(
      'above\nfirst\nbox\nsecond\nbelow',
    )
  })

  test('deleted text of tracked changes is no text', async () => {
    const digits = String.raw`{\deleted\revauthdel1 thirty\u8364?\'e4}{\revised forty}`
    expect(await read(String.raw`The period is ${digits} days\deleted0 !\par{\deleted gone\plain  here}\deleted x\deleted0 y`)).toBe(
      'The period is forty days!\n herey',
    )
  })

  test.each([
    ['mac', '8a'],
    ['pca', '84'],
    ['pc', '84'],
  ])('the character set %s', async (word, hex) => {
    expect(await read(`\\${word} M\\'${hex}rz`)).toBe('März')
  })

  test('control words like members of objects are no text', async () => {
    expect(await read(String.raw`a\constructor b\toString c`)).toBe('abc')
  })
})
