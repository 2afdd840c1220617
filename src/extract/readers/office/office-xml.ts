/** Reader of XML, with office documents in one file: flat OpenDocument, flat Open XML, Word and Excel 2003. */
import { type ByteSource, bytesSource, type OpenedDocument } from '../../opened-document.ts'
import { openWithParts, type PartTools } from '../../parts.ts'
import { createTextSink, normalizeWhitespace } from '../decode.ts'
import { decodeXml, localName, readAnyXml, walkXml } from '../markup.ts'
import type { Parts } from '../zip.ts'
import { readFlatOpenDocument } from './open-document.ts'
import { addRuns, readDocx, readPptx } from './open-xml.ts'
import { readSpreadsheet } from './sheets/spreadsheet.ts'

const headLength = 2000

/** Opens an XML file with the files in it. */
export const openXml = (source: ByteSource, tools: PartTools): OpenedDocument =>
  openWithParts(tools, async (collector) => {
    const xml = decodeXml(source.read())
    const officeText = readOfficeXml(xml)
    const { text, files } = officeText === null ? readAnyXml(xml) : { text: officeText, files: [] }
    collector.addText(`${text}\n\n`)
    for (const { filename, bytes } of files) if (!collector.isFull) await collector.addPart(bytesSource(bytes, filename))
    return { metadata: {} }
  })

/** Reads the text of an office document in an XML file by its root element. Returns null for other files. */
function readOfficeXml(xml: string): string | null {
  const head = xml.slice(0, headLength)
  const root = /<([A-Za-z][\w:.-]*)/.exec(head)?.[1]
  if (root === 'office:document') return readFlatOpenDocument(xml)
  if (root === 'pkg:package') return readFlatPackage(xml)
  if (/^(ss:)?Workbook$/.test(root ?? '') && head.includes(spreadsheetNamespace)) return readWorkbook2003(xml)
  if (root !== 'w:wordDocument') return null
  const sink = createTextSink()
  addRuns(sink, xml)
  return normalizeWhitespace(sink.text())
}

const spreadsheetNamespace = 'urn:schemas-microsoft-com:office:spreadsheet'
const workbookProperties = new Set(['Title', 'Subject', 'Author', 'Keywords', 'Description', 'Company'])

/** Reads the properties and the sheets of an XML spreadsheet with their names, one line per row with tabs between cells. */
function readWorkbook2003(xml: string): string {
  const sink = createTextSink()
  let textDepth = 0
  let cellCount = 0
  const isText = (name: string): boolean => name === 'Data' || workbookProperties.has(name)
  walkXml(
    xml,
    {
      open(prefixedName, attributes) {
        const name = localName(prefixedName)
        if (name === 'Worksheet') sink.add(`\n${attributes['ss:Name'] ?? ''}\n`)
        else if (name === 'Row') cellCount = 0
        else if (name === 'Cell' && cellCount++ > 0) sink.add('\t')
        else if (name === 'Comment') sink.add(' ')
        else if (isText(name)) textDepth++
      },
      text: (part) => textDepth > 0 && sink.add(part),
      close(prefixedName) {
        const name = localName(prefixedName)
        if (isText(name)) textDepth--
        if (name === 'Row' || workbookProperties.has(name)) sink.add('\n')
      },
    },
    () => sink.isFull,
  )
  return normalizeWhitespace(sink.text())
}

function readFlatPackage(xml: string): string {
  const archive = openFlatPackage(xml)
  const has = (folder: string): boolean => archive.names.some((name) => name.startsWith(folder))
  if (has('word/')) return readDocx(archive)
  return has('ppt/') ? readPptx(archive) : readSpreadsheet(archive)
}

/** Returns the parts of a package in one XML file as those of an archive. */
function openFlatPackage(xml: string): Parts {
  const parts = new Map<string, string>()
  for (const part of xml.split('<pkg:part ').slice(1)) {
    const name = /^[^<>]{0,1000}?pkg:name="\/([^"]*)"/.exec(part)?.[1]
    if (name !== undefined) parts.set(name, part)
  }
  const contentOf = (part: string, tag: string): string | null => {
    const start = part.indexOf(`<${tag}`)
    return start < 0 ? null : part.slice(part.indexOf('>', start) + 1, part.lastIndexOf(`</${tag}>`))
  }
  return {
    names: [...parts.keys()],
    readPart(name) {
      const part = parts.get(name)
      if (part === undefined) return null
      const content = contentOf(part, 'pkg:xmlData')
      return content === null ? Buffer.from(contentOf(part, 'pkg:binaryData') ?? '', 'base64') : Buffer.from(content)
    },
  }
}
