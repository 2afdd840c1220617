/** Office documents: ZIP files of little XML. */
import { constants, crc32, deflateRawSync } from 'node:zlib'

/** A ZIP file; packed parts are given as `{packed, size}`. */
export function zip(parts: Record<string, string | Uint8Array | { packed: Buffer; size: number }>): Buffer {
  const chunks: Buffer[] = []
  const directory: Buffer[] = []
  let length = 0
  for (const [name, content] of Object.entries(parts)) {
    const isPacked = typeof content === 'object' && 'packed' in content
    const plain = isPacked ? Buffer.alloc(0) : Buffer.from(content as string)
    const stored = name === 'mimetype'
    const data = isPacked ? content.packed : stored ? plain : deflateRawSync(plain)
    const header = Buffer.alloc(46)
    header.writeUInt32LE(0x02014b50, 0)
    header.writeUInt16LE(20, 4)
    header.writeUInt16LE(20, 6)
    header.writeUInt16LE(stored ? 0 : 8, 10)
    header.writeUInt32LE(isPacked ? 0 : crc32(plain), 16)
    header.writeUInt32LE(data.length, 20)
    header.writeUInt32LE(isPacked ? content.size : plain.length, 24)
    header.writeUInt16LE(Buffer.byteLength(name), 28)
    header.writeUInt32LE(length, 42)
    const local = Buffer.concat([Buffer.from('504b0304', 'hex'), header.subarray(6, 32)])
    chunks.push(local, Buffer.from(name), data)
    length += local.length + Buffer.byteLength(name) + data.length
    directory.push(header, Buffer.from(name))
  }
  const list = Buffer.concat(directory)
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(Object.keys(parts).length, 8)
  end.writeUInt16LE(Object.keys(parts).length, 10)
  end.writeUInt32LE(list.length, 12)
  end.writeUInt32LE(length, 16)
  return Buffer.concat([...chunks, list, end])
}

/** Packed megabytes of spaces, at almost no cost. */
export function packedSpaces(megabytes: number): { packed: Buffer; size: number } {
  const one = deflateRawSync(Buffer.alloc(1024 * 1024, ' '), { finishFlush: constants.Z_FULL_FLUSH })
  return {
    packed: Buffer.concat([...Array.from({ length: megabytes }, () => one), deflateRawSync(Buffer.alloc(0))]),
    size: megabytes * 1024 * 1024,
  }
}

const relation = 'http://schemas.openxmlformats.org/officeDocument/2006/relationships'

export const relations = (targets: Record<string, [type: string, target: string]>): string =>
  `<Relationships>${Object.entries(targets)
    .map(([id, [type, target]]) => `<Relationship Id="${id}" Type="${relation}/${type}" Target="${target}"/>`)
    .join('')}</Relationships>`

const properties =
  '<cp:coreProperties><dc:title>Quarterly</dc:title><dc:creator>Ada</dc:creator><dcterms:created>2024-02-29T12:00:00Z</dcterms:created></cp:coreProperties>'

/** A Word document: the body is WordprocessingML; further parts by name. */
export const docx = (
  body: string,
  further: Record<string, [type: string, xml: string]> = {},
  parts: Parameters<typeof zip>[0] = {},
): Buffer =>
  zip({
    '[Content_Types].xml': '<Types/>',
    '_rels/.rels': relations({ r1: ['officeDocument', 'word/document.xml'] }),
    'docProps/core.xml': properties,
    'word/document.xml': `<w:document><w:body>${body}</w:body></w:document>`,
    'word/_rels/document.xml.rels': relations(Object.fromEntries(Object.entries(further).map(([name, [type]]) => [name, [type, name]]))),
    ...Object.fromEntries(Object.entries(further).map(([name, [, xml]]) => [`word/${name}`, xml])),
    ...parts,
  })

export const paragraph = (text: string): string => `<w:p><w:r><w:t>${text}</w:t></w:r></w:p>`

/** A workbook of one sheet with shared and inline strings, numbers, a date and a formula's result. */
export const xlsx = (): Buffer =>
  zip({
    '[Content_Types].xml': '<Types/>',
    '_rels/.rels': relations({ r1: ['officeDocument', 'xl/workbook.xml'] }),
    'docProps/core.xml': properties,
    'xl/workbook.xml': '<workbook><sheets><sheet name="Umsätze" sheetId="1" r:id="r1"/></sheets></workbook>',
    'xl/_rels/workbook.xml.rels': relations({
      r1: ['worksheet', 'worksheets/sheet1.xml'],
      r2: ['sharedStrings', 'sharedStrings.xml'],
      r3: ['styles', 'styles.xml'],
    }),
    'xl/sharedStrings.xml': '<sst><si><t>Kunde</t></si><si><r><t>Mül</t></r><r><t>ler</t></r><rPh><t>furigana</t></rPh></si></sst>',
    'xl/styles.xml': '<styleSheet><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>',
    'xl/worksheets/sheet1.xml':
      '<worksheet><sheetData><row><c t="s"><v>0</v></c><c t="s"><v>1</v></c></row><row><c t="inlineStr"><is><t>direkt</t></is></c><c><v>0.10000000000000001</v></c><c s="1"><v>45351</v></c><c t="str"><f>A1</f><v>Ergebnis</v></c><c t="b"><v>1</v></c></row></sheetData></worksheet>',
  })

/** Two slides whose files are numbered in reverse, with notes. */
export const pptx = (): Buffer =>
  zip({
    '[Content_Types].xml': '<Types/>',
    '_rels/.rels': relations({ r1: ['officeDocument', 'ppt/presentation.xml'] }),
    'ppt/presentation.xml': '<p:presentation><p:sldIdLst><p:sldId r:id="r2"/><p:sldId r:id="r1"/></p:sldIdLst></p:presentation>',
    'ppt/_rels/presentation.xml.rels': relations({ r1: ['slide', 'slides/slide1.xml'], r2: ['slide', 'slides/slide2.xml'] }),
    'ppt/slides/slide1.xml': '<p:sld><a:p><a:r><a:t>second slide</a:t></a:r></a:p></p:sld>',
    'ppt/slides/slide2.xml': '<p:sld><a:p><a:r><a:t>first slide</a:t></a:r></a:p></p:sld>',
    'ppt/slides/_rels/slide2.xml.rels': relations({ r1: ['notesSlide', '../notesSlides/notes1.xml'] }),
    'ppt/notesSlides/notes1.xml': '<p:notes><a:p><a:r><a:t>say hello</a:t></a:r></a:p></p:notes>',
  })

/** A document of the OpenDocument family with a header line. */
export const openDocument = (
  kind: 'text' | 'spreadsheet' | 'presentation',
  body: string,
  manifest = '<manifest:manifest/>',
  parts: Parameters<typeof zip>[0] = {},
): Buffer =>
  zip({
    mimetype: `application/vnd.oasis.opendocument.${kind}`,
    'content.xml': `<office:document-content><office:automatic-styles/><office:body>${body}</office:body></office:document-content>`,
    'styles.xml':
      '<office:document-styles><office:master-styles><text:p>Kopfzeile</text:p></office:master-styles></office:document-styles>',
    'meta.xml': '<office:document-meta><dc:title>Bericht</dc:title><meta:initial-creator>Ada</meta:initial-creator></office:document-meta>',
    'META-INF/manifest.xml': manifest,
    ...parts,
  })

/** A book of two chapters, the second listed first. */
/** Returns a book of two chapters. `parts`: further files of the archive. */
export const epub = (parts: Readonly<Record<string, string>> = {}): Buffer =>
  zip({
    ...{ mimetype: 'application/epub+zip', ...parts },
    'META-INF/container.xml': '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>',
    'OEBPS/book.opf':
      '<package><metadata><dc:title>Buch</dc:title><dc:creator>Ada</dc:creator></metadata><manifest><item id="a" href="a.xhtml"/><item id="b" href="b.xhtml"/></manifest><spine><itemref idref="b"/><itemref idref="a"/></spine></package>',
    'OEBPS/a.xhtml': '<html><body><p>zweites Kapitel</p></body></html>',
    'OEBPS/b.xhtml': '<html><body><p>erstes Kapitel</p></body></html>',
  })

/** Returns a record of a `.ppt` file. `version`: 0xf for a container. */
export function powerPointRecord(kind: number, data: Uint8Array, version = 0): Buffer {
  const head = Buffer.alloc(8)
  head.writeUInt16LE(version, 0)
  head.writeUInt16LE(kind, 2)
  head.writeUInt32LE(data.length, 4)
  return Buffer.concat([head, data])
}
