/** Text that a document shows, and text that it contains but does not show. */
import { expect, test } from 'vitest'
import { docx, openDocument, relations, zip } from '../support/data/office-files.ts'
import { readBytes } from '../support/read-bytes.ts'

const textOf = async (bytes: Uint8Array, filename: string): Promise<string> => (await readBytes(bytes, filename)).text
const run = (text: string): string => `<w:r><w:t>${text}</w:t></w:r>`

test('docx: deleted tabs, line breaks and hyphens divide no word', async () => {
  const deleted = (sign: string) => `<w:del><w:r><${sign}/></w:r></w:del>`
  const signs = ['w:tab', 'w:br', 'w:noBreakHyphen', 'w:cr'].map(deleted).join('')
  expect(await textOf(docx(`<w:p>${run('Liefer')}${signs}${run('schein')}</w:p>`), 'a.docx')).toBe('Lieferschein')
})

test('docx: a deleted paragraph mark ends no line; deleted items of a list are not counted', async () => {
  const item = (inner: string, mark = '') =>
    `<w:p><w:pPr><w:numPr><w:ilvl w:val="0"/><w:numId w:val="1"/></w:numPr><w:rPr>${mark}</w:rPr></w:pPr>${inner}</w:p>`
  const deleted = (text: string) => `<w:del><w:r><w:delText>${text}</w:delText></w:r></w:del>`
  const items = [
    ...[item(run('one')), item(deleted('gone'), '<w:del/>'), item(run('Liefer'), '<w:del/>'), item(run('schein'), '<w:ins/>')],
    ...[item(deleted('moved'), '<w:moveFrom/>'), item(''), item(run('four'))],
  ]
  const numbering =
    '<w:numbering><w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:start w:val="1"/><w:lvlText w:val="%1."/></w:lvl></w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>'
  const text = await textOf(docx(items.join(''), { 'n.xml': ['numbering', numbering] }), 'a.docx')
  expect(text.split(/\n+/)).toEqual(['1. one', '2. Lieferschein', '4. four'])
})

test('docx: results of fields in the instructions of other fields are not shown; fields without an end are', async () => {
  const mark = (type: string) => `<w:r><w:fldChar w:fldCharType="${type}"/></w:r>`
  const field = (instruction: string, result: string) =>
    `${mark('begin')}<w:r><w:instrText>x</w:instrText></w:r>${instruction}${mark('separate')}${result}${mark('end')}`
  const conditional = field(field('', run('m')), run('Herr'))
  const body = `<w:p>${run('An ')}${conditional}${run(' Meier')}</w:p><w:p>${field('', run('7'))}${run(' von ')}${mark('begin')}${mark('end')}</w:p>`
  expect(await textOf(docx(body), 'a.docx')).toBe('An Herr Meier\n7 von')
  const endless = `<w:p>${mark('begin')}${run('all')}</w:p><w:p>${run('text')}</w:p>`
  expect(await textOf(docx(endless), 'a.docx')).toBe('all\ntext')
})

test('docx: the words below phonetic guides of older documents', async () => {
  const mark = (type: string) => `<w:r><w:fldChar w:fldCharType="${type}"/></w:r>`
  const guide = (...instruction: string[]) =>
    `${mark('begin')}${instruction.map((part) => `<w:r><w:instrText>${part}</w:instrText></w:r>`).join('')}${mark('end')}`
  const body = `<w:p>${guide('EQ \\* jc2 \\* "Font:MS Mincho" \\* hps11 \\o\\ad(\\s\\up 10(', 'とうきょう', '),東京)')}${run('都')}${guide('XE "Tokyo"')}</w:p>`
  expect(await textOf(docx(body), 'a.docx')).toBe('東京都')
})

test('docx: the chosen entry of a drop-down field', async () => {
  const field = (result: string) =>
    `<w:r><w:fldChar w:fldCharType="begin"><w:ffData><w:ddList>${result}<w:listEntry w:val="Herr"/><w:listEntry w:val="Frau"/></w:ddList></w:ffData></w:fldChar></w:r>`
  const body = `<w:p>${field('<w:result w:val="1"/>')}${run(' Meier')}</w:p><w:p>${field('')}${run(' Huber')}</w:p>`
  expect(await textOf(docx(body), 'a.docx')).toBe('Frau Meier\nHerr Huber')
})

test('ods: former values of tracked changes are not read', async () => {
  const paragraph = (text: string) => `<text:p>${text}</text:p>`
  const previous = `<table:previous><table:change-track-table-cell>${paragraph('former')}</table:change-track-table-cell></table:previous>`
  const changes = `<table:tracked-changes><table:cell-content-change>${previous}</table:cell-content-change></table:tracked-changes>`
  const sheet = `<table:table table:name="T"><table:table-row><table:table-cell>${paragraph('current')}</table:table-cell></table:table-row></table:table>`
  const bytes = openDocument('spreadsheet', `<office:spreadsheet>${changes}${sheet}</office:spreadsheet>`)
  expect((await textOf(bytes, 'a.ods')).split(/\n+/)).toEqual(['Kopfzeile', 'T', 'current'])
})

test('OpenDocument: placeholders of fields in page headers are not read', async () => {
  const header =
    '<text:p><text:sheet-name>???</text:sheet-name></text:p><text:p>Budget (<text:title>???</text:title>)</text:p><text:p>why???</text:p><text:p><text:page-number>&lt;number&gt;</text:page-number></text:p>'
  const styles = `<office:document-styles><office:master-styles>${header}</office:master-styles></office:document-styles>`
  const bytes = openDocument('spreadsheet', '<text:p>cell <text:page-number>1</text:page-number></text:p>', undefined, {
    'styles.xml': styles,
  })
  expect((await textOf(bytes, 'a.ods')).split(/\n+/)).toEqual(['Budget ()', 'why???', 'cell 1'])
})

test('odp: alternative texts of pictures are lines of their own', async () => {
  const picture = '<draw:frame><svg:title>Harbour</svg:title><svg:desc>Plan of the harbour</svg:desc></draw:frame>'
  const slide = `<draw:page>${picture}<draw:frame><text:p>text</text:p></draw:frame></draw:page>`
  expect((await textOf(openDocument('presentation', slide), 'a.odp')).split(/\s*\n\s*/)).toEqual([
    ...['Kopfzeile', 'Harbour', 'Plan of the harbour', 'text'],
  ])
})

test('odt: labels and values of form controls', async () => {
  const entry = (label: string, more = '') => `<form:option form:label="${label}"${more}/>`
  const list = `<form:listbox>${entry('Berlin')}${entry('Hamburg', ' form:current-selected="true"')}</form:listbox>`
  const controls = `<form:fixed-text form:label="Name"/><form:text form:name="Text Box 1" form:current-value="Ada"/>${list}<form:button/>`
  const body = `<office:forms><form:form form:name="Form">${controls}</form:form></office:forms><text:p>below</text:p>`
  expect((await textOf(openDocument('text', body), 'a.odt')).split('\n')).toEqual(['Kopfzeile', 'Name', 'Ada', 'Hamburg', 'below'])
})

test('phonetic guides divide no word', async () => {
  const ruby = '<text:ruby><text:ruby-base>東京</text:ruby-base><text:ruby-text>とうきょう</text:ruby-text></text:ruby>'
  expect(await textOf(openDocument('text', `<office:text><text:p>${ruby}都</text:p></office:text>`), 'a.odt')).toBe('Kopfzeile\n東京都')
  const html = '<html><p><ruby>東<rp>(</rp><rt>とう</rt><rp>)</rp>京<rt>きょう</ruby>都</p><p>next <button>send</button>now</p></html>'
  expect((await textOf(Buffer.from(html), 'a.html')).split(/\n+/)).toEqual(['東京都', 'next', 'send', 'now'])
})

test('pptx: authors of threaded comments', async () => {
  const bytes = zip({
    '[Content_Types].xml': '<Types/>',
    '_rels/.rels': relations({ r1: ['officeDocument', 'ppt/presentation.xml'] }),
    'ppt/presentation.xml': '<p:presentation/>',
    'ppt/_rels/presentation.xml.rels': relations({ r1: ['authors', 'authors.xml'] }),
    'ppt/authors.xml': '<p188:authorLst><p188:author id="1" name="Grace Hopper" initials="GH"/></p188:authorLst>',
  })
  expect(await textOf(bytes, 'a.pptx')).toBe('Grace Hopper (GH)')
})

test('xlsx: alternative texts of pictures', async () => {
  const drawing =
    '<xdr:wsDr><xdr:pic><xdr:nvPicPr><xdr:cNvPr id="2" name="Picture 1" descr="Plan of the harbour"/></xdr:nvPicPr></xdr:pic></xdr:wsDr>'
  const bytes = zip({
    '[Content_Types].xml': '<Types/>',
    '_rels/.rels': relations({ r1: ['officeDocument', 'xl/workbook.xml'] }),
    'xl/workbook.xml': '<workbook><sheets><sheet name="S" r:id="r1"/></sheets></workbook>',
    'xl/_rels/workbook.xml.rels': relations({ r1: ['worksheet', 'sheet.xml'] }),
    'xl/sheet.xml': '<worksheet/>',
    'xl/_rels/sheet.xml.rels': relations({ r1: ['drawing', 'drawing.xml'] }),
    'xl/drawing.xml': drawing,
  })
  expect((await textOf(bytes, 'a.xlsx')).split(/\s*\n\s*/)).toEqual(['S', 'Plan of the harbour'])
})

test('docx: categories of several levels in charts, charts of Office 2016, and text boxes in charts', async () => {
  const categories =
    '<c:multiLvlStrCache><c:lvl><c:pt><c:v>March</c:v></c:pt></c:lvl><c:lvl><c:pt><c:v>2024</c:v></c:pt></c:lvl></c:multiLvlStrCache>'
  const title = (text: string) => `<a:p><a:r><a:t>${text}</a:t></a:r></a:p>`
  const chart: [string, string] = ['chart', `<c:chart>${categories}<c:numCache><c:pt><c:v>7</c:v></c:pt></c:numCache></c:chart>`]
  const box = { 'word/_rels/chart.xml.rels': relations({ r1: ['chartUserShapes', 'box.xml'] }), 'word/box.xml': title('box') }
  const bytes = docx('', { 'chart.xml': chart, 'funnel.xml': ['chartEx', title('Funnel')] }, box)
  expect((await textOf(bytes, 'a.docx')).split(/\n+/)).toEqual(['March', '2024', 'Funnel', 'box'])
})

test('a saved web page has no style sheets; a style sheet that is attached to a mail is read', async () => {
  const part = (...lines: string[]) => ['--b', ...lines]
  const bytes = (...lines: string[]) =>
    Buffer.from(['Subject: Page', 'MIME-Version: 1.0', 'Content-Type: multipart/related; boundary=b', '', ...lines, '--b--'].join('\r\n'))
  const html = part('Content-Type: text/html', 'Content-Location: https://example.org/', '', '<p>words</p>')
  const style = part('Content-Type: text/css', 'Content-Location: cid:css-1', '', '.footer { color: red }')
  const attached = part('Content-Type: text/css', 'Content-Disposition: attachment; filename=a.css', '', '.header { color: red }')
  const text = await textOf(bytes(...html, ...style, ...attached), 'a.mht')
  expect(text.split(/\n+/)).toEqual(['Subject: Page', 'words', 'a.css', '.header { color: red }'])
})

test('json: escapes are letters and line ends', async () => {
  const json = '{"name": "M\\u00fcller", "note": "first\\nEnd\\tof \\"it\\" C:\\\\new \\ud83d\\ude00 a\\/b \\u0000"}'
  const text = '{"name": "Müller", "note": "first\nEnd\tof \\"it\\" C:\\\\new 😀 a/b  "}'
  expect(await textOf(Buffer.from(json), 'a.json')).toBe(text)
  expect(await textOf(Buffer.from(`${json}\n${json}\n`), 'a.jsonl')).toBe(`${text}\n${text}\n`)
})

test('rtf: entries of an index or a table of contents divide no word', async () => {
  const rtf = '{\\rtf1\\ansi Haus{\\xe\\pard\\plain {\\v Haus!Dach}}{\\tc Kapitel}boot{\\*\\bkmkstart x}\\par}'
  expect(await textOf(Buffer.from(rtf), 'a.rtf')).toBe('Hausboot')
})
