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

describe('OpenDocument', () => {
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

test('custom properties are metadata', async () => {
  const custom =
    '<Properties><property name="Client"><vt:lpwstr>ACME</vt:lpwstr></property><property name="Year"><vt:i4>2024</vt:i4></property></Properties>'
  const word = docx(paragraph('body'), {}, { 'docProps/custom.xml': custom })
  expect((await readBytes(word, 'a.docx')).metadata).toMatchObject({ title: 'Quarterly', 'custom.Client': 'ACME', 'custom.Year': '2024' })
  expect((await readBytes(openDocument('text', '<text:p>x</text:p>'), 'a.odt')).metadata).toMatchObject({ title: 'Bericht' })
})
