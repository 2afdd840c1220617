/** XML and HTML as a stream of events, without a tree, recursion, DTDs or entities of the document. */
import { type Handler, Parser, type ParserOptions } from 'htmlparser2'
import { byteOrderMark, createTextSink, decode, normalizeWhitespace } from './decode.ts'
import { declaresOtherPrefix, withUsualPrefixes, type XmlEvents } from './office/xml-namespaces.ts'

export type { XmlEvents } from './office/xml-namespaces.ts'

/** Returns the name of an element without its prefix. */
export const localName = (name: string): string => name.slice(name.indexOf(':') + 1)

/**
 * Parses XML to its end, or until `isEnough()`. Broken markup is parsed as far as possible. Elements and attributes of known namespaces have their
 * usual prefix, whichever the document declares.
 */
export function walkXml(xml: string, events: XmlEvents, isEnough?: () => boolean): void {
  const { open, text, close } = declaresOtherPrefix(xml) ? withUsualPrefixes(events) : events
  parseMarkup(xml, { onopentag: open, ontext: text, onclosetag: close }, { xmlMode: true }, isEnough)
}

/** Decodes by byte order mark or XML declaration. */
export function decodeXml(bytes: Uint8Array): string {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, 200)).toString('latin1')
  const declared = byteOrderMark(bytes) ? null : /^\s*<\?xml[^>]*encoding=["']([\w.:-]+)["']/.exec(head)?.[1]
  return decode(bytes, declared)
}

/** A file in an XML document. */
export interface XmlFile {
  readonly filename: string
  readonly bytes: Uint8Array<ArrayBuffer>
}

/**
 * Returns the character data of any XML document, one element per line, and the files in it. Other binary data, such as signatures, are left out. Files are
 * elements with the attribute `mimeCode`, as in electronic invoices (UBL, CII), and PDFs.
 */
export function readAnyXml(xml: string): { text: string; files: XmlFile[] } {
  const sink = createTextSink()
  const files: XmlFile[] = []
  let depth = 0
  let attributes: Record<string, string> = {}
  let data: string[] = []
  /** Adds the data since the last tag. */
  const flush = (): void => {
    const text = data.join('')
    data = []
    const isFile = isBase64(text) && (attributes.mimeCode !== undefined || text.trimStart().startsWith(pdfInBase64))
    if (isFile) files.push({ filename: attributes.filename ?? '', bytes: new Uint8Array(Buffer.from(text, 'base64')) })
    else if (text.length < minBinaryLength || !isBase64(text) || hasWords(text)) sink.add(text)
  }
  const events: XmlEvents = {
    open(_, own) {
      flush()
      attributes = own
      depth++
    },
    // Text outside of the root is the rest of a document type.
    text: (part) => depth > 0 && data.push(part),
    close() {
      flush()
      attributes = {}
      depth--
      sink.add('\n')
    },
  }
  walkXml(xml, events, () => sink.isFull)
  return { text: normalizeWhitespace(sink.text().replace(/\n\s*\n/g, '\n')), files }
}

/** Length from which characters of Base64 without words are binary data. */
const minBinaryLength = 1000
const pdfInBase64 = Buffer.from('%PDF-1').toString('base64')

const isBase64 = (text: string): boolean => /\S/.test(text) && !/[^A-Za-z\d+/=\s]/.test(text)
/** Returns whether a text has words that are shorter than a line of Base64. The last line may be short. */
const hasWords = (text: string): boolean => /(?:^|\s)\S{1,59}\s+\S/.test(text)

/** Maximum depth of elements. The time of the parser grows with the square of the depth. */
const maxDepth = 2000
const chunkLength = 1024 * 1024

/** `xmlMode`: XML rather than HTML. `recognizeSelfClosing`: `<script/>` has no content, as in XHTML; in HTML its content begins there. */
export type MarkupOptions = Pick<ParserOptions, 'xmlMode' | 'recognizeSelfClosing'>

/** Treats elements below `maxDepth` as void: their children become siblings. */
class DepthLimitedParser extends Parser {
  constructor(handler: Partial<Handler>, options: MarkupOptions) {
    let depth = 0
    /** between the name of a tag and the end of the tag */
    let isInTag = false
    let isVoid = false
    const counting: Partial<Handler> = {
      ...handler,
      onopentagname() {
        depth++
        isInTag = true
      },
      onclosetag(name, isImplied) {
        isInTag = false
        if (name !== '') depth--
        handler.onclosetag?.(name, isImplied)
      },
    }
    super(counting, { ...options, decodeEntities: true })
    // The parser asks twice for a tag, before and after its attributes, and needs one answer for both.
    this.isVoidElement = (name) => {
      if (!isInTag) isVoid = depth >= maxDepth || super.isVoidElement(name)
      isInTag = false
      return isVoid
    }
  }
}

/** Parses to the end, or until `isEnough()`. */
export function parseMarkup(text: string, handler: Partial<Handler>, options: MarkupOptions, isEnough: () => boolean = () => false): void {
  const parser = new DepthLimitedParser(handler, options)
  for (let at = 0; at < text.length && !isEnough(); at += chunkLength) parser.write(text.slice(at, at + chunkLength))
  parser.end()
}
