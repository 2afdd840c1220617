/** XML as a stream of events: no tree, no recursion, no DTD, no entities but the five. */
import { byteOrderMark, decode, tidy } from './decode.ts'
import { parseMarkup } from './markup.ts'
import { openSink } from './text-sink.ts'

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
  const sink = openSink()
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
  return tidy(sink.text().replace(/\n\s*\n/g, '\n'))
}
