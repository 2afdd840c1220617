/** Office documents in one XML file, OpenDocument lists, custom properties. */
import { describe, expect, test } from 'vitest'
import { docx, openDocument, paragraph, zip } from '../support/data/office-files.ts'
import { readBytes } from '../support/read-bytes.ts'

const xml = '<?xml version="1.0" encoding="UTF-8"?>'
const list = (style: string, items: string, further = ''): string => `<text:list text:style-name="${style}"${further}>${items}</text:list>`
const item = (text: string, inner = '', further = ''): string =>
  `<text:list-item${further}><text:p>${text}</text:p>${inner}</text:list-item>`
const styles = `<text:list-style style:name="L"><text:list-level-style-number text:level="1" style:num-format="1" style:num-suffix="."/><text:list-level-style-number text:level="2" style:num-format="a" style:num-prefix="(" style:num-suffix=")" text:display-levels="2"/></text:list-style><text:list-style style:name="B"><text:list-level-style-bullet text:level="1"/></text:list-style>`
const outline =
  '<text:outline-style><text:outline-level-style text:level="1" style:num-format="I" text:start-value="4"/></text:outline-style>'
const flat = (body: string, further = ''): Buffer =>
  Buffer.from(`${xml}<office:document>${further}${styles}${outline}<office:body>${body}</office:body></office:document>`)

const word = 'http://schemas.openxmlformats.org/wordprocessingml/2006/main'
const officeRelation = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships'

describe('prefixes of namespaces', () => {
  test.each([
    [
      'of ElementTree',
      `<ns0:document xmlns:ns0="${word}"><ns0:body><ns0:p><ns0:r><ns0:t>text</ns0:t></ns0:r></ns0:p></ns0:body></ns0:document>`,
    ],
    ['none', `<document xmlns="${word}"><body><p><r><t>text</t></r></p></body></document>`],
    [
      'of the strict form',
      '<x:document xmlns:x="http://purl.oclc.org/ooxml/wordprocessingml/main"><x:p><x:r><x:t>text</x:t></x:r></x:p></x:document>',
    ],
    [
      'of an inner element',
      `<w:document xmlns:w="${word}"><o:p xmlns:o="${word}"><o:r><o:t>text</o:t></o:r></o:p><o:p><o:t>not</o:t></o:p></w:document>`,
    ],
  ])('docx: %s', async (_, document) => {
    expect((await readBytes(docx('', {}, { 'word/document.xml': document }), 'a.docx')).text).toBe('text')
  })

  test('docx: labels of lists, and relations', async () => {
    const relations = `<a:Relationships xmlns:a="http://schemas.openxmlformats.org/package/2006/relationships"><a:Relationship Id="n" Type="${officeRelation}/numbering" Target="n.xml"/></a:Relationships>`
    const numbering = `<n:numbering xmlns:n="${word}"><n:abstractNum n:abstractNumId="0"><n:lvl n:ilvl="0"><n:start n:val="4"/><n:numFmt n:val="decimal"/><n:lvlText n:val="%1)"/></n:lvl></n:abstractNum><n:num n:numId="1"><n:abstractNumId n:val="0"/></n:num></n:numbering>`
    const document = `<d:document xmlns:d="${word}"><d:p><d:pPr><d:numPr><d:ilvl d:val="0"/><d:numId d:val="1"/></d:numPr></d:pPr><d:r><d:t>item</d:t></d:r></d:p></d:document>`
    const parts = { 'word/document.xml': document, 'word/_rels/document.xml.rels': relations, 'word/n.xml': numbering }
    expect((await readBytes(docx('', {}, parts), 'a.docx')).text).toBe('4) item')
  })

  test('xlsx: of the Open XML SDK', async () => {
    const main = 'http://schemas.openxmlformats.org/spreadsheetml/2006/main'
    const bytes = zip({
      '[Content_Types].xml': '<Types/>',
      '_rels/.rels': `<Relationships><Relationship Id="a" Type="${officeRelation}/officeDocument" Target="xl/workbook.xml"/></Relationships>`,
      'xl/workbook.xml': `<x:workbook xmlns:x="${main}"><x:sheets><x:sheet name="S" d3p1:id="b" xmlns:d3p1="${officeRelation}"/></x:sheets></x:workbook>`,
      'xl/_rels/workbook.xml.rels': `<Relationships><Relationship Id="b" Type="${officeRelation}/worksheet" Target="s.xml"/></Relationships>`,
      'xl/s.xml': `<x:worksheet xmlns:x="${main}"><x:row><x:c t="str"><x:v>cell</x:v></x:c></x:row></x:worksheet>`,
    })
    expect((await readBytes(bytes, 'a.xlsx')).text).toBe('S\ncell')
  })

  test('odt: paragraphs and properties', async () => {
    const office = 'urn:oasis:names:tc:opendocument:xmlns:office:1.0'
    const text = 'urn:oasis:names:tc:opendocument:xmlns:text:1.0'
    const content = `<o:document-content xmlns:o="${office}" xmlns:x="${text}"><o:body><x:p>one<x:tab/>two</x:p></o:body></o:document-content>`
    const meta = '<d:title xmlns:d="http://purl.org/dc/elements/1.1/">Title</d:title>'
    const bytes = zip({ mimetype: 'application/vnd.oasis.opendocument.text', 'content.xml': content, 'meta.xml': meta })
    expect(await readBytes(bytes, 'a.odt')).toMatchObject({ text: 'one\ttwo', metadata: { title: 'Title' } })
  })
})

test('docx: formulas and aligned tabs', async () => {
  const body = `<w:p><w:r><w:t>left</w:t><w:ptab/><w:t>right</w:t></w:r></w:p><w:p><m:oMath><m:r><m:t>E=mc²</m:t></m:r></m:oMath></w:p>`
  expect((await readBytes(docx(body), 'a.docx')).text).toBe('left\tright\nE=mc²')
})

test('docx: text boxes do not join the word before them', async () => {
  const box = (text: string) =>
    `<w:r><mc:AlternateContent><mc:Choice><wps:txbx><w:txbxContent>${paragraph(text)}</w:txbxContent></wps:txbx></mc:Choice><mc:Fallback><w:pict><w:txbxContent>${paragraph(text)}</w:txbxContent></w:pict></mc:Fallback></mc:AlternateContent></w:r>`
  const anchor = (text: string, boxed: string) => `<w:p><w:r><w:t>${text}</w:t></w:r>${box(boxed)}</w:p>`
  const table = `<w:tbl><w:tr><w:tc>${anchor('Sum', 'checked')}</w:tc><w:tc>${paragraph('9')}</w:tc></w:tr></w:tbl>`
  const { text } = await readBytes(docx(anchor('Total', 'Approved') + table), 'a.docx')
  expect(text.split(/\n+/)).toEqual(['Total', 'Approved', 'Sum checked \t9'])
})

test('docx: symbols, and no phonetic guides', async () => {
  const symbols = '<w:r><w:t>5</w:t><w:sym w:font="Arial" w:char="20AC"/><w:sym w:font="Wingdings" w:char="F0FC"/><w:sym/></w:r>'
  const run = (text: string) => `<w:r><w:t>${text}</w:t></w:r>`
  const ruby = (guide: string, base: string) =>
    `<w:r><w:ruby><w:rt>${run(guide)}</w:rt><w:rubyBase>${run(base)}</w:rubyBase></w:ruby></w:r>`
  const { text } = await readBytes(docx(`<w:p>${symbols}</w:p><w:p>${ruby('とう', '東')}${ruby('きょう', '京')}</w:p>`), 'a.docx')
  expect(text).toBe('5€\n東京')
})

test('docx: watermarks and WordArt, once', async () => {
  const shape = (text: string) => `<w:pict><v:shape><v:textpath on="t" string="${text}"/></v:shape></w:pict>`
  const choice = '<mc:Choice><w:drawing><a:p><a:r><a:t>WordArt</a:t></a:r></a:p></w:drawing></mc:Choice>'
  const art = `<mc:AlternateContent>${choice}<mc:Fallback>${shape('WordArt')}</mc:Fallback></mc:AlternateContent>`
  const header = `<w:hdr><w:p><w:r><w:t>Acme</w:t></w:r><w:r>${shape('CONFIDENTIAL')}</w:r></w:p></w:hdr>`
  const { text } = await readBytes(docx(`<w:p><w:r>${art}</w:r></w:p>`, { 'h.xml': ['header', header] }), 'a.docx')
  expect(text.split(/\n+/)).toEqual(['Acme', 'CONFIDENTIAL', 'WordArt'])
})

describe('OpenDocument', () => {
  test('text boxes do not join the word before them', async () => {
    const body = '<text:p>Total<draw:frame><draw:text-box><text:p>Approved</text:p></draw:text-box></draw:frame></text:p>'
    expect((await readBytes(flat(body), 'a.fodt')).text).toBe('Total\nApproved')
  })

  test('notes and comments divide no word, and follow the text', async () => {
    const comment = '<office:annotation><dc:creator>Ada</dc:creator><text:p>remark</text:p></office:annotation>'
    const note = '<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>source</text:p></text:note-body></text:note>'
    const picture = '<draw:frame><svg:title>title</svg:title><svg:desc>alt</svg:desc></draw:frame>'
    const body = `<text:p>super${comment}cali${note}fragil${picture}end</text:p><text:p>next</text:p>`
    expect((await readBytes(flat(body), 'a.fodt')).text).toBe('supercalifragil title alt end\nnext\nAda\nremark\nsource')
  })

  test('headers, footers and dates of slides', async () => {
    const decl = (kind: string, text: string) => `<presentation:${kind}-decl presentation:name="a">${text}</presentation:${kind}-decl>`
    const body = `<office:presentation>${decl('header', 'Acme')}${decl('footer', 'Internal')}${decl('date-time', '3 May')}<draw:page><text:p>slide</text:p></draw:page></office:presentation>`
    expect((await readBytes(flat(body), 'a.fodp')).text).toBe('Acme\nInternal\n3 May\nslide')
  })

  test('labels of lists and headings', async () => {
    const body = [
      '<text:h text:outline-level="1">Heading</text:h>',
      list('L', item('one', list('L', item('inner') + item('inner'))) + item('two')),
      list('L', item('again') + item('nine', '', ' text:start-value="9"')),
      list('L', item('on'), ' text:continue-numbering="true"'),
      list('B', item('dot')),
      '<text:list text:style-name="L"><text:list-header><text:p>none</text:p></text:list-header></text:list>',
    ]
    const { text } = await readBytes(flat(body.join('')), 'a.fodt')
    expect(text).toBe('IV Heading\n1. one\n(1.a) inner\n(1.b) inner\n2. two\n1. again\n9. nine\n10. on\ndot\nnone')
  })

  test('documents and macros in a document', async () => {
    const files = {
      mimetype: 'application/vnd.oasis.opendocument.text',
      'content.xml': '<office:document-content><office:body><text:p>outer</text:p></office:body></office:document-content>',
      'Object 1/content.xml': '<office:document-content><office:body><text:p>inner</text:p></office:body></office:document-content>',
      'Basic/Standard/Module1.xml': '<script:module>Sub Main</script:module>',
    }
    expect((await readBytes(zip(files), 'a.odt')).text).toBe('outer\n\ninner\n\nSub Main')
  })

  test('flat: page headers, macros and no binary data', async () => {
    const further =
      '<office:scripts><office:script><ooo:source-code>Sub Main</ooo:source-code></office:script></office:scripts><office:master-styles><text:p>header</text:p></office:master-styles>'
    const image = '<text:p>body<draw:image><office:binary-data>AAAA</office:binary-data></draw:image></text:p>'
    expect((await readBytes(flat(image, further), 'a.fodt')).text.split(/\n+/)).toEqual(['header', 'body', 'Sub Main'])
  })
})

describe('Word', () => {
  test('2003: paragraphs are complete, pictures are not text', async () => {
    const file = `${xml}<w:wordDocument><w:body><w:p><w:r><w:t>run </w:t></w:r><w:r><w:t>ning</w:t></w:r></w:p><w:binData>AAAA</w:binData></w:body></w:wordDocument>`
    expect((await readBytes(Buffer.from(file), 'a.xml')).text).toBe('run ning')
  })

  test('flat Open XML has the parts of a package', async () => {
    const relation = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships'
    const part = (name: string, content: string) => `<pkg:part pkg:name="/${name}"><pkg:xmlData>${content}</pkg:xmlData></pkg:part>`
    const parts = [
      part(
        '_rels/.rels',
        `<Relationships><Relationship Id="a" Type="${relation}/officeDocument" Target="word/document.xml"/></Relationships>`,
      ),
      part(
        'word/_rels/document.xml.rels',
        `<Relationships><Relationship Id="b" Type="${relation}/header" Target="h.xml"/></Relationships>`,
      ),
      part('word/h.xml', `<w:hdr>${paragraph('header')}</w:hdr>`),
      part('word/document.xml', `<w:document><w:body>${paragraph('body')}</w:body></w:document>`),
    ]
    expect((await readBytes(Buffer.from(`${xml}<pkg:package>${parts.join('')}</pkg:package>`), 'a.xml')).text).toBe('header\n\nbody')
  })
})

test('Excel 2003: names of sheets, rows with their cells, comments, properties', async () => {
  const cell = (data: string): string => `<Cell ss:StyleID="s1">${data}</Cell>`
  const file = `${xml}<?mso-application progid="Excel.Sheet"?>
<Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet" xmlns:ss="urn:schemas-microsoft-com:office:spreadsheet">
 <DocumentProperties><Author>Ada</Author><LastSaved>2024-02-29T12:00:00Z</LastSaved></DocumentProperties>
 <Worksheet ss:Name="Umsätze">
  <Table>
   <Row>
    ${cell('<Data ss:Type="String">Kunde</Data><Comment><ss:Data><B>new</B></ss:Data></Comment>')}
    ${cell('<ss:Data ss:Type="String">Mü<B>ller</B></ss:Data>')}
   </Row>
   <Row>${cell('<Data ss:Type="Number">12</Data>')}</Row>
  </Table>
 </Worksheet>
</Workbook>`
  expect((await readBytes(Buffer.from(file), 'a.xls')).text).toBe('Ada\n\nUmsätze\nKunde new\tMüller\n12')
})

test('own properties without limit: the metadata has at most 32 KiB, and those of the document come first', async () => {
  const property = (name: string, value: string) => `<property name="${name}"><vt:lpwstr>${value}</vt:lpwstr></property>`
  const custom = `<Properties xmlns:vt="x">${property('a&#xD800;b', 'odd')}${Array.from({ length: 20_000 }, (_, n) => property(`P${n}`, 'x'.repeat(50))).join('')}</Properties>`
  const core =
    '<cp:coreProperties xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:cp="c"><dc:title>Quarterly</dc:title></cp:coreProperties>'
  const { metadata } = await readBytes(docx(paragraph('body'), {}, { 'docProps/custom.xml': custom, 'docProps/core.xml': core }), 'a.docx')
  expect(metadata).toMatchObject({ title: 'Quarterly', 'custom.P0': 'x'.repeat(50) })
  expect(JSON.stringify(metadata).length).toBeLessThan(32 << 10)
  expect(Object.keys(metadata).every((key) => key.isWellFormed())).toBe(true)
})

test('an element with the name of a member of all objects is no property', async () => {
  const core =
    '<coreProperties xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Quarterly</dc:title><constructor>none</constructor></coreProperties>'
  expect((await readBytes(docx(paragraph('body'), {}, { 'docProps/core.xml': core }), 'a.docx')).metadata).toEqual({ title: 'Quarterly' })
})

test('custom properties are metadata', async () => {
  const custom =
    '<Properties><property name="Client"><vt:lpwstr>ACME</vt:lpwstr></property><property name="Year"><vt:i4>2024</vt:i4></property></Properties>'
  const word = docx(paragraph('body'), {}, { 'docProps/custom.xml': custom })
  expect((await readBytes(word, 'a.docx')).metadata).toMatchObject({ title: 'Quarterly', 'custom.Client': 'ACME', 'custom.Year': '2024' })
  expect((await readBytes(openDocument('text', '<text:p>x</text:p>'), 'a.odt')).metadata).toMatchObject({ title: 'Bericht' })
})
