/** Entries that PDF/A-2u requires: XMP metadata, equal document information, output intent and file identifier. ISO 19005-2, 6.2.3 and 6.6. */
import { hash } from 'node:crypto'
import { PDFArray, type PDFDict, PDFHexString, PDFName, PDFString } from '@cantoo/pdf-lib'
import sharp from 'sharp'
import type { RenditionInfo } from '../../ports/document-reader.ts'
import { deflated, type PdfContext } from './streams.ts'

/** Sets the metadata, the output intent and the identifier of the document with this catalog. */
export async function addMetadata(context: PdfContext, catalog: PDFDict, info: RenditionInfo): Promise<void> {
  const created = toSeconds(info.created)
  const modified = toSeconds(info.modified)
  const text = { ...info, title: xmlSafe(info.title), author: info.author === null ? null : xmlSafe(info.author) }
  catalog.set(
    PDFName.of('Metadata'),
    context.register(context.stream(new TextEncoder().encode(xmp(text, created, modified)), { Type: 'Metadata', Subtype: 'XML' })),
  )
  context.trailerInfo.Info = context.register(
    context.obj({
      Title: PDFHexString.fromText(text.title),
      ...(text.author === null ? {} : { Author: PDFHexString.fromText(text.author) }),
      Producer: PDFString.of(info.producer),
      CreationDate: PDFString.of(pdfDate(created)),
      ModDate: PDFString.of(pdfDate(modified)),
    }),
  )
  if (info.language !== null) catalog.set(PDFName.of('Lang'), PDFString.of(info.language))
  const profile = context.register(deflated(context, await srgbProfile(), { N: 3 }))
  const intent = context.obj({
    Type: 'OutputIntent',
    S: 'GTS_PDFA1',
    OutputConditionIdentifier: PDFString.of('sRGB'),
    DestOutputProfile: profile,
    Info: PDFString.of('sRGB IEC61966-2.1'),
    RegistryName: PDFString.of('http://www.color.org'),
  })
  catalog.set(PDFName.of('OutputIntents'), context.obj([context.register(intent)]))
  const original = PDFHexString.of(info.sha256.slice(0, 32))
  const rendition = PDFHexString.of(hash('sha256', JSON.stringify(info)).slice(0, 32))
  const id = PDFArray.withContext(context)
  id.push(original)
  id.push(rendition)
  context.trailerInfo.ID = id
}

/** Returns the ICC profile of sRGB (IEC 61966-2-1, version 4.2) that libvips adds to pictures. */
async function srgbProfile(): Promise<Uint8Array> {
  const picture = sharp({ create: { width: 1, height: 1, channels: 3, background: '#fff' } }).withIccProfile('srgb')
  const { icc } = await sharp(await picture.png().toBuffer()).metadata()
  return icc as Buffer
}

function xmp({ title, author, language, producer }: RenditionInfo, created: string, modified: string): string {
  const element = (name: string, value: string): string => `<${name}>${escapeXml(value)}</${name}>`
  const list = (name: string, kind: 'Seq' | 'Bag', value: string): string =>
    `<${name}><rdf:${kind}><rdf:li>${escapeXml(value)}</rdf:li></rdf:${kind}></${name}>`
  return `<?xpacket begin="\uFEFF" id="W5M0MpCehiHzreSzNTczkc9d"?>
<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:xmp="http://ns.adobe.com/xap/1.0/" xmlns:pdf="http://ns.adobe.com/pdf/1.3/" xmlns:pdfaid="http://www.aiim.org/pdfa/ns/id/">
<pdfaid:part>2</pdfaid:part><pdfaid:conformance>U</pdfaid:conformance>
<dc:format>application/pdf</dc:format>
<dc:title><rdf:Alt><rdf:li xml:lang="x-default">${escapeXml(title)}</rdf:li></rdf:Alt></dc:title>
${author === null ? '' : list('dc:creator', 'Seq', author)}${language === null ? '' : list('dc:language', 'Bag', language)}
${element('pdf:Producer', producer)}
${element('xmp:CreateDate', created)}${element('xmp:ModifyDate', modified)}${element('xmp:MetadataDate', modified)}
</rdf:Description></rdf:RDF></x:xmpmeta>
<?xpacket end="r"?>`
}

const escapeXml = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

/** Removes characters that XML 1.0 does not allow. */
const xmlSafe = (text: string): string => text.replace(/[^\t\n\r\x20-\uD7FF\uE000-\uFFFD\u{10000}-\u{10FFFF}]/gu, '')

/** A time in UTC without fractions of a second. */
const toSeconds = (time: string): string => `${new Date(time).toISOString().slice(0, 19)}Z`

const pdfDate = (time: string): string => `D:${time.replace(/[-:TZ]/g, '')}Z`
