import iconv from 'iconv-lite'
import { describe, expect, test } from 'vitest'
import { ole } from '../support/data/files.ts'
import { relations, zip } from '../support/data/office-files.ts'
import { biff, biff12, formattedXlsx, xlsb } from '../support/data/sheet-files.ts'
import { failureOf, readBytes } from '../support/read-bytes.ts'

describe('numbers of cells', () => {
  const shown = async (value: number, code: string) =>
    (await readBytes(formattedXlsx([[value, code]]), 'a.xlsx')).text.split('\n')[1]?.trim()
  test.each([
    [1599.99, '"$"#,##0.00_);[Red]\\("$"#,##0.00\\)', '$1,599.99'],
    [-1599.99, '"$"#,##0.00_);[Red]\\("$"#,##0.00\\)', '($1,599.99)'],
    [0.025, '0.00%', '2.50%'],
    [2.5, '# ?/?', '2 1/2'],
    [198e6, '0.00E+00', '1.98E+08'],
    [0.2604166667, 'h:mm', '6:15'],
    [39219, 'd-mmm-yy', '17-May-07 2007-05-17'],
    [39219, 'yyyy-mm-dd', '2007-05-17'],
    [12.5, '[$€-407] #,##0.00', '€ 12,50'],
    [1.23456789012345e15, 'General', '1.23456789012345E+15'],
    [0.1 + 0.2, 'General', '0.3'],
    [7, 'not a [format', '7'],
    [1e12, 'yyyy-mm-dd', '1E+12'],
  ])('%d in format %s is %s', async (value, code, text) => {
    expect(await shown(value, code)).toBe(text)
  })

  test('days of workbooks from old Macintoshes count from 1904', async () => {
    const cells: [number, string][] = [
      [37757, 'yyyy-mm-dd'],
      [37757, 'mmm yyyy'],
      [37757, 'yyyy'],
      [1.25, '[h]:mm:ss'],
      [1.25, 'h:mm'],
    ]
    const { text } = await readBytes(formattedXlsx(cells, '', '<workbookPr date1904="1"/>'), 'a.xlsx')
    expect(text.split('\n')[1]?.trim()).toBe('2007-05-17\tMay 2007\t2007\t30:00:00\t6:00')
  })

  test('a format of any length terminates', async () => {
    expect(await shown(5, '0'.repeat(100_000))).toBe('5')
  })
})

test('xlsx: page headers and footers without codes, text boxes, charts', async () => {
  const headers =
    '<headerFooter><oddHeader>&amp;L&amp;"Arial,Bold"&amp;14Draft&amp;CR&amp;&amp;D&amp;RPage &amp;P</oddHeader></headerFooter>'
  const { text } = await readBytes(formattedXlsx([[1, '0']], headers), 'a.xlsx')
  expect(text).toBe('Sheet\n1\nDraft R&D Page\ntext box\n\nMarch\nApril')
})

describe('xlsx', () => {
  /** A workbook of one sheet; its related parts by name. */
  const workbook = (sheet: string, ofSheet: Record<string, [string, string]>, ofBook: Record<string, [string, string]> = {}): Buffer => {
    const related = (parts: Record<string, [string, string]>, further: Record<string, [string, string]> = {}) =>
      relations({ ...Object.fromEntries(Object.entries(parts).map(([name, [type]]) => [name, [type, `${name}.xml`]])), ...further })
    const contents = Object.entries({ ...ofSheet, ...ofBook }).map(([name, [, xml]]) => [`xl/${name}.xml`, xml])
    return zip({
      '[Content_Types].xml': '<Types/>',
      '_rels/.rels': relations({ r1: ['officeDocument', 'xl/workbook.xml'] }),
      'xl/workbook.xml': '<workbook><sheets><sheet name="Sheet" r:id="r1"/></sheets></workbook>',
      'xl/_rels/workbook.xml.rels': related(ofBook, { r1: ['worksheet', 'sheet1.xml'] }),
      'xl/sheet1.xml': `<worksheet><sheetData>${sheet}</sheetData></worksheet>`,
      'xl/_rels/sheet1.xml.rels': related(ofSheet),
      ...Object.fromEntries(contents),
    })
  }
  const comments = (...texts: string[]): [string, string] => [
    'comments',
    `<comments><authors><author>tc={8F}</author><author>Bob</author></authors><commentList>${texts.map((text, i) => `<comment authorId="${i}"><text><t>${text}</t></text></comment>`).join('')}</commentList></comments>`,
  ]

  test('escapes for carriage returns and underscores', async () => {
    const escaped = 'Street 5_x000D_\nBerlin'
    const cells = `<row><c t="inlineStr"><is><t>${escaped}</t></is></c><c t="str"><v>_x005F_x000D_</v></c><c t="s"><v>0</v></c></row>`
    const strings = `<sst><si><t>a_x000d_</t><t>b _x12_</t></si></sst>`
    const { text } = await readBytes(workbook(cells, { c: comments(escaped) }, { s: ['sharedStrings', strings] }), 'a.xlsx')
    expect(text).toBe('Sheet\nStreet 5\nBerlin\t_x000D_\ta\nb _x12_\ntc={8F}\nBob\nStreet 5\nBerlin')
  })

  test('threaded comments replace their placeholders', async () => {
    const thread = (person: string, text: string) => `<threadedComment personId="{${person}}"><text>${text}</text></threadedComment>`
    const threads = `<ThreadedComments>${thread('1', 'Check this')}${thread('2', 'Done')}${thread('3', 'Why?')}</ThreadedComments>`
    const persons = '<personList><person displayName="Ada" id="{1}"/><person displayName="Eve" id="{2}"/></personList>'
    const placeholders = comments('[Threaded comment] Your version of Excel', 'a note')
    const parts = { c: placeholders, t: ['threadedComment', threads] } satisfies Record<string, [string, string]>
    const { text } = await readBytes(workbook('', parts, { p: ['person', persons] }), 'a.xlsx')
    expect(text).toBe('Sheet\nBob\na note\nAda\nCheck this\nEve\nDone\nWhy?')
    expect((await readBytes(workbook('', { c: placeholders }), 'a.xlsx')).text).toContain('[Threaded comment]')
  })
})

test('xlsb: shared strings, formats, results of formulas, page headers', async () => {
  const file = xlsb(
    [biff12(44, { u16: 164 }, { wide: '0.0 "kg"' }), biff12(617), biff12(47, 0, 0, { u16: 164 }), biff12(618)],
    [biff12(19, 0, { wide: 'Weight' })],
    [
      biff12(0, { u32: 0 }),
      biff12(7, { u32: 0 }, { u32: 0 }, { u32: 0 }),
      biff12(5, { u32: 1 }, { u32: 0 }, { f64: 2.25 }),
      biff12(8, { u32: 2 }, { u32: 0 }, { wide: 'heavy' }),
      biff12(479, { u16: 0 }, { wide: '&LDraft' }, { u32: 0xffffffff }),
    ],
  )
  const { text, mimeType } = await readBytes(file, 'a.xlsb')
  expect({ text, mimeType }).toEqual({
    mimeType: 'application/vnd.ms-excel.sheet.binary.macroenabled.12',
    text: 'Binary\n\nWeight\t2.3 kg\theavy\nDraft',
  })
  expect(await failureOf(file.subarray(0, 40), 'a.xlsb')).toBe('FILE_CORRUPT')
})

test('xls: the text of a formula stands in the row of the formula, also in the first column', async () => {
  const cell = (row: number, column: number) => [{ u16: row }, { u16: column }, { u16: 0 }]
  const text = (row: number, column: number, value: string) => biff(0x204, ...cell(row, column), { u16: value.length }, 0, value)
  const formula = (row: number, column: number) => biff(0x6, ...cell(row, column), 0, 0, 0, 0, 0, 0, { u16: 0xffff }, { u16: 0 })
  const result = (value: string) => biff(0x207, { u16: value.length }, 0, value)
  const begin = (type: number) => biff(0x809, { u16: 0x600 }, { u16: type })
  const rows = [text(0, 0, 'a1'), text(0, 1, 'b1'), formula(1, 0), result('a2'), text(1, 1, 'b2'), formula(1, 2), result('c2')]
  const book = Buffer.concat([begin(5), begin(0x10), ...rows])
  expect((await readBytes(ole({ Workbook: book }), 'a.xls')).text).toBe('a1\tb1\na2\tb2\tc2')
})

test('xls: formats, page headers, text boxes, chart titles, code pages, any case of the stream', async () => {
  const begin = biff(0x809, { u16: 0x600 }, { u16: 5 })
  const globals = (at: number) => [
    begin,
    biff(0x41e, { u16: 164 }, { u16: 4 }, 0, '0.0%'),
    biff(0xe0, { u16: 0 }, { u16: 164 }),
    biff(0x85, { u32: at }, { u16: 0 }, 5, 0, 'Costs'),
  ]
  const at = Buffer.concat(globals(0)).length
  const sheet = [
    biff(0x809, { u16: 0x600 }, { u16: 0x20 }),
    biff(0x14, { u16: 7 }, 0, '&LDraft'),
    biff(0x203, { u16: 0 }, { u16: 0 }, { u16: 0 }, { f64: 0.075 }),
    biff(0x205, { u16: 0 }, { u16: 1 }, { u16: 0 }, 1, 0),
    biff(0x1b6, '0123456789', { u16: 4 }),
    biff(0x3c, 0, 'no'),
    biff(0x3c, 1, 't\0e\0'),
    biff(0x100d, { u16: 0 }, 5, 0, 'Title'),
  ]
  const stream = Buffer.concat([...globals(at), ...sheet])
  expect((await readBytes(ole({ WORKBOOK: stream }), 'a.xls')).text).toBe('Costs\nDraft\n\n7.5%\tTRUE\nnote\nTitle')
  const old = Buffer.concat([
    biff(0x809, { u16: 0x500 }, { u16: 5 }),
    biff(0x42, { u16: 1251 }),
    biff(0x204, { u16: 0 }, { u16: 0 }, { u16: 0 }, { u16: 3 }, 0xc4, 0xee, 0xec),
  ])
  expect((await readBytes(ole({ Book: old }), 'a.xls')).text).toBe('Дом')
})

describe('xls of Excel 5 and 95', () => {
  const begin = (type: number) => biff(0x809, { u16: 0x500 }, { u16: type })
  const end = biff(0x0a)
  const label = (encoding: string, row: number, text: string) => {
    const bytes = iconv.encode(text, encoding)
    return biff(0x204, { u16: row }, { u16: 0 }, { u16: 0 }, { u16: bytes.length }, ...bytes)
  }
  const textOf = async (...records: Buffer[]) => (await readBytes(ole({ Book: Buffer.concat(records) }), 'a.xls')).text

  test('the code page of the workbook is that of all sheets', async () => {
    const sheet = (text: string) => [begin(0x10), label('windows-1251', 0, text), end]
    expect(await textOf(begin(5), biff(0x42, { u16: 1251 }), end, ...sheet('Дом'), ...sheet('Сад'))).toBe('Дом\nСад')
  })

  test.each([
    ['windows-1251', 'Предлагает со склада в Москве'],
    ['windows-1252', 'Größe der Straße in Köln'],
  ])('a workbook without a code page in %s', async (encoding, text) => {
    expect(await textOf(begin(0x10), label(encoding, 0, text), end)).toBe(text)
  })
})
