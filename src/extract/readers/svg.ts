/** Reader of drawings (SVG 2). */
import type { ByteSource, Limits, OpenedDocument } from '../opened-document.ts'
import { createTextSink, normalizeWhitespace } from './decode.ts'
import { openImage } from './image.ts'
import { decodeXml, localName, walkXml } from './markup.ts'

/** Opens a drawing. Its letters are text or outlines; OCR is for drawings without text. */
export function openSvg(source: ByteSource, limits: Limits): OpenedDocument {
  const image = openImage(source, 'image/svg+xml', limits)
  return {
    ...image,
    async contents() {
      const text = readSvg(decodeXml(source.read()))
      const { pages, ...rest } = await image.contents()
      return { ...rest, pages: pages.map((page) => ({ ...page, text, needsOcr: page.needsOcr && text === '' })) }
    },
  }
}

const textElements = new Set(['text', 'title', 'desc', 'foreignObject', 'flowRoot'])
const hiddenElements = new Set(['style', 'script'])
/** Elements in texts that end a line. */
const lineElements = new Set([...textElements, 'flowPara', 'p', 'div', 'br', 'li', 'tr', 'td', 'h1', 'h2', 'h3'])

function readSvg(xml: string): string {
  const sink = createTextSink()
  let textDepth = 0
  let hiddenDepth = 0
  let lastY: string | undefined
  walkXml(
    xml,
    {
      open(prefixedName, attributes) {
        const name = localName(prefixedName)
        if (hiddenElements.has(name)) hiddenDepth++
        if (textElements.has(name)) textDepth++
        if (name === 'tspan' && startsLine(attributes, lastY)) sink.add('\n')
        if (name === 'text' || name === 'tspan') lastY = attributes.y ?? (name === 'text' ? undefined : lastY)
      },
      text(part) {
        if (textDepth > 0 && hiddenDepth === 0) sink.add(part.replace(/\s+/g, ' '))
      },
      close(prefixedName) {
        const name = localName(prefixedName)
        if (hiddenElements.has(name)) hiddenDepth--
        if (textElements.has(name)) textDepth--
        if (lineElements.has(name)) sink.add('\n')
      },
    },
    () => sink.isFull,
  )
  const lines = normalizeWhitespace(sink.text()).split('\n')
  return lines.flatMap((line) => line.trim() || []).join('\n')
}

/** Returns whether a span stands below the text before it, rather than beside it. */
const startsLine = ({ x, y, dy, 'sodipodi:role': role }: Record<string, string>, lastY: string | undefined): boolean =>
  role === 'line' || (x !== undefined && (Number.parseFloat(dy ?? '') > 0 || (y !== undefined && y !== lastY)))
