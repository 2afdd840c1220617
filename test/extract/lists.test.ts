import { describe, expect, test } from 'vitest'
import { docx } from '../support/data/office-files.ts'
import { doc, doc95 } from '../support/data/word-files.ts'
import { failureOf, readBytes } from '../support/read-bytes.ts'

const item = (text: string, level: number, list = 1): string =>
  `<w:p><w:pPr><w:numPr><w:ilvl w:val="${level}"/><w:numId w:val="${list}"/></w:numPr></w:pPr><w:r><w:t>${text}</w:t></w:r></w:p>`
const level = (number: number, format: string, text: string, further = '<w:start w:val="1"/>'): string =>
  `<w:lvl w:ilvl="${number}">${further}<w:numFmt w:val="${format}"/><w:lvlText w:val="${text}"/></w:lvl>`
const numbering = (levels: readonly string[], further = ''): Record<string, [string, string]> => ({
  'numbering.xml': [
    'numbering',
    `<w:numbering><w:abstractNum w:abstractNumId="0">${levels.join('')}</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>${further}</w:numbering>`,
  ],
})

describe('docx', () => {
  test('labels count by level, and restart below an outer item', async () => {
    const levels = [level(0, 'decimal', '%1.'), level(1, 'lowerLetter', '%1.%2)'), level(2, 'upperRoman', '%3', '<w:start w:val="4"/>')]
    const body = [item('one', 0), item('a', 1), item('b', 1), item('IV', 2), item('two', 0), item('a again', 1), item('IV', 2)]
    expect((await readBytes(docx(body.join(''), numbering(levels)), 'a.docx')).text).toBe(
      '1. one\n1.a) a\n1.b) b\nIV IV\n2. two\n2.a) a again\nIV IV',
    )
  })

  test('labels are ordinals, padded, legal or none; bullets have none; a level without a start begins at 0', async () => {
    const levels = [
      level(0, 'ordinal', '%1', ''),
      level(1, 'upperRoman', '%1-%2', '<w:start w:val="3"/>'),
      level(2, 'decimalZero', '%2.%3', '<w:isLgl/><w:start w:val="7"/>'),
      level(3, 'bullet', '*'),
    ]
    const body = [item('zero', 0), item('next', 0), item('roman', 1), item('legal', 2), item('dot', 3)]
    expect((await readBytes(docx(body.join(''), numbering(levels)), 'a.docx')).text).toBe(
      '0th zero\n1st next\n1st-III roman\n3.7 legal\ndot',
    )
  })

  test('a list continues with other labels, and restarts once at its own start', async () => {
    const other = `<w:num w:numId="2"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="0">${level(0, 'upperLetter', '%1')}</w:lvlOverride></w:num>`
    const fresh =
      '<w:num w:numId="3"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="9"/></w:lvlOverride></w:num>'
    const body = [item('x', 0), item('x', 0, 2), item('x', 0, 3), item('x', 0, 3), item('x', 0, 99)]
    const file = docx(body.join(''), numbering([level(0, 'decimal', '%1.')], other + fresh))
    expect((await readBytes(file, 'a.docx')).text).toBe('1. x\nB x\n9. x\n10. x\nx')
  })

  test('a style brings its list, also by the style it is based on; circles of styles end', async () => {
    const styles = `<w:styles><w:style w:styleId="Base"><w:basedOn w:val="Item"/><w:pPr><w:numPr><w:numId w:val="1"/></w:numPr></w:pPr></w:style><w:style w:styleId="Item"><w:basedOn w:val="Base"/></w:style></w:styles>`
    const body = '<w:p><w:pPr><w:pStyle w:val="Item"/><w:tabs><w:tab/></w:tabs></w:pPr><w:r><w:t>styled</w:t></w:r></w:p>'
    const file = docx(body.repeat(2), { ...numbering([level(0, 'lowerRoman', '(%1)')]), 'styles.xml': ['styles', styles] })
    expect((await readBytes(file, 'a.docx')).text).toBe('(i) styled\n(ii) styled')
  })
})

describe('doc', () => {
  test('labels of lists, tables, results of fields', async () => {
    const file = doc([
      { text: 'Caf\xe9\r' },
      { text: 'one\r', list: 1, level: 0 },
      { text: 'inner\r', list: 1, level: 1 },
      { text: 'two\r', list: 1, level: 0 },
      { text: 'left\x07' },
      { text: 'right\x07' },
      { text: '\x07', isRowEnd: true },
      { text: 'see \x13 HYPERLINK "x" \x14the page\x15, non\x1ebreaking\r' },
    ])
    const { text } = await readBytes(file, 'a.doc')
    expect(text).toBe('Café\n1. one\n1.a) inner\n2. two\nleft\tright\nsee the page, non-breaking')
  })

  test('the words below phonetic guides, which are fields without a result', async () => {
    const guide = String.raw`EQ \* jc2 \* "Font:MS Mincho" \* hps11 \o\ad(\s\up 10(guide),words)`
    const file = doc([{ text: `the \x13${guide}\x15 \x13 XE "hidden" \x15end\x13 ${guide} \x14 result\x15\r` }])
    expect((await readBytes(file, 'a.doc')).text).toBe('the words end result')
  })

  test('headers come first; notes and comments follow the text', async () => {
    const file = doc([{ text: 'body\r' }, { text: 'note\r' }, { text: 'header\r' }, { text: 'comment\r' }], [5, 5, 7, 0, 8])
    expect((await readBytes(file, 'a.doc')).text.split(/\n+/)).toEqual(['header', 'body', 'note', 'comment'])
  })

  test('Word 95 in the code page of its language', async () => {
    expect((await readBytes(doc95(Buffer.from('c4eeec0d', 'hex'), 0x419), 'a.doc')).text).toBe('Дом')
  })

  test('FILE_ENCRYPTED with a password; FILE_CORRUPT without a piece table; wild numbers terminate', async () => {
    const paragraphs = [{ text: 'text\r', list: 1, level: 0 }]
    expect(
      await failureOf(
        doc(paragraphs, [], (fib) => void fib.writeUInt16LE(0x300, 10)),
        'a.doc',
      ),
    ).toBe('FILE_ENCRYPTED')
    expect(
      await failureOf(
        doc(paragraphs, [], (fib) => void fib.writeUInt32LE(0xfffffff0, 0x1a2)),
        'a.doc',
      ),
    ).toBe('FILE_CORRUPT')
    for (const at of [0x4c, 0xfa, 0xfe, 0x102, 0x106, 0xa2, 0xa6, 0x2e2, 0x2e6, 0x2ea, 0x2ee])
      expect(
        await failureOf(
          doc(paragraphs, [], (fib) => void fib.writeUInt32LE(0x7ffffff0, at)),
          'a.doc',
        ),
      ).toBe('none')
  })
})
