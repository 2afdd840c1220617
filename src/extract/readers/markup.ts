/** XML as a stream of events: no tree, no recursion, no DTD, no entities but the five. */
import { type Handler, Parser } from 'htmlparser2'
import { byteOrderMark, decode, normalizeWhitespace } from './decode.ts'
import { createTextSink } from './text-sink.ts'

export interface XmlEvents {
  open?(name: string, attributes: Record<string, string>): void
  text?(text: string): void
  close?(name: string): void
}

/** Walks through a document, or until `isEnough()`; broken markup is walked as far as it makes sense. */
export const walkXml = (xml: string, { open, text, close }: XmlEvents, isEnough?: () => boolean): void =>
  parseMarkup(xml, { onopentag: open, ontext: text, onclosetag: close }, true, isEnough)

/** Decodes by mark or declaration. */
export function decodeXml(bytes: Uint8Array): string {
  const head = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, 200)).toString('latin1')
  const declared = byteOrderMark(bytes) ? null : /^\s*<\?xml[^>]*encoding=["']([\w.:-]+)["']/.exec(head)?.[1]
  return decode(bytes, declared)
}

/** What an XML document of any kind says: its character data, an element a line. */
export function xmlToText(xml: string): string {
  const sink = createTextSink()
  let depth = 0
  const events: XmlEvents = {
    open: () => {
      depth++
    },
    // Outside of the root there is nothing but the rest of a document type.
    text: (part) => depth > 0 && sink.add(part),
    close: () => {
      depth--
      sink.add('\n')
    },
  }
  walkXml(xml, events, () => sink.isFull)
  return normalizeWhitespace(sink.text().replace(/\n\s*\n/g, '\n'))
}

/** The parser's time grows with the square of the depth; no honest document comes near. */
const maxDepth = 2000
const chunkLength = 1024 * 1024

/** From `maxDepth` on, elements have no inside: what follows is still read, as if it were flat. */
class ShallowParser extends Parser {
  protected override isVoidElement(name: string): boolean {
    return (this as unknown as { stack: readonly string[] }).stack.length >= maxDepth || super.isVoidElement(name)
  }
}

/** Parses to the end, or until `isEnough()`. */
export function parseMarkup(text: string, handler: Partial<Handler>, xmlMode: boolean, isEnough: () => boolean = () => false): void {
  const parser = new ShallowParser(handler, { xmlMode, decodeEntities: true })
  for (let at = 0; at < text.length && !isEnough(); at += chunkLength) parser.write(text.slice(at, at + chunkLength))
  parser.end()
}
