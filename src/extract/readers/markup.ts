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

/** Returns the character data of any XML document, one element per line. */
export function xmlToText(xml: string): string {
  const sink = createTextSink()
  let depth = 0
  const events: XmlEvents = {
    open: () => {
      depth++
    },
    // Text outside of the root is the rest of a document type.
    text: (part) => depth > 0 && sink.add(part),
    close: () => {
      depth--
      sink.add('\n')
    },
  }
  walkXml(xml, events, () => sink.isFull)
  return normalizeWhitespace(sink.text().replace(/\n\s*\n/g, '\n'))
}

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
