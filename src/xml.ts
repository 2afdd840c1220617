/** Parses XML responses as a stream. The server is untrusted: sizes and depth are limited, and DOCTYPE and entities are refused. */
import { SaxesParser } from 'saxes'

const maxDepth = 64

/** A response does not have its required format. The message contains no text of the server. */
export class InvalidXml extends Error {}

export interface XmlFormat {
  /** local name of the root element */
  root: string
  /** name of the format in messages */
  label: string
  maxBodyBytes: number
  /** maximum length of a child of the root, in characters */
  maxChildLength: number
  /** Content-Type of the response */
  contentType?: string
}

/**
 * Reads a body to its end. Calls `onElement` at the end of each element with its path below the root (local names joined with `/`), its text ('' for
 * an element with others inside) and its namespace. Throws InvalidXml unless the body is one complete root element.
 */
export async function readXml(
  body: AsyncIterable<Uint8Array>,
  format: XmlFormat,
  onElement: (path: string, text: string, namespace: string) => void,
): Promise<void> {
  const parser = new SaxesParser({ xmlns: true, position: false })
  const openElements: { path: string; text: string; hasInner: boolean }[] = []
  let isComplete = false
  /** number of characters passed to the parser; its property `position` counts some of them twice between two writes */
  let length = 0
  /** parser position at the end of the last child of the root */
  let childStart = 0
  const wrongFormat = () => new InvalidXml(`The response is not ${format.label}.`)
  const addText = (text: string) => {
    const current = openElements.at(-1)
    if (current && openElements.length > 1) current.text += text
    else if (/\S/.test(text)) throw wrongFormat()
  }
  parser.on('opentag', ({ local }) => {
    const outer = openElements.at(-1)
    if (!outer && local !== format.root) throw wrongFormat()
    if (openElements.length === maxDepth) throw new InvalidXml('The response is nested too deeply.')
    if (outer) outer.hasInner = true
    openElements.push({ path: outer ? (outer.path === '' ? local : `${outer.path}/${local}`) : '', text: '', hasInner: false })
  })
  parser.on('closetag', ({ uri }) => {
    const current = openElements.pop()
    if (!current) return
    if (openElements.length === 0) isComplete = true
    if (openElements.length <= 1) childStart = parser.position
    onElement(current.path, current.hasInner ? '' : current.text, uri)
  })
  parser.on('text', addText)
  parser.on('cdata', addText)
  parser.on('doctype', (doctype) => {
    throw /^\s*html\b/i.test(doctype) ? wrongFormat() : new InvalidXml('The response has a DOCTYPE.')
  })
  parser.on('error', () => {
    throw openElements.length === 0 && !isComplete ? wrongFormat() : new InvalidXml('The response is not well-formed XML.')
  })
  for await (const text of decodeText(body, format)) {
    parser.write(text)
    length += text.length
    if (length - childStart > format.maxChildLength)
      throw new InvalidXml(`The response has an entry of more than ${format.maxChildLength >> 10} KiB.`)
  }
  if (!isComplete) throw openElements.length > 0 ? new InvalidXml('The response is incomplete.') : wrongFormat()
  parser.close()
}

/** Decodes a body with the charset of its byte order mark, Content-Type or XML declaration. Removes leading white space. */
async function* decodeText(body: AsyncIterable<Uint8Array>, { maxBodyBytes, contentType = '' }: XmlFormat): AsyncGenerator<string> {
  let decoder: TextDecoder | null = null
  let total = 0
  let hasBegun = false
  try {
    for await (const bytes of body) {
      total += bytes.length
      if (total > maxBodyBytes) throw new InvalidXml(`The response is larger than ${maxBodyBytes >> 20} MiB.`)
      decoder ??= new TextDecoder(detectEncoding(bytes, contentType), { fatal: true })
      const text = decoder.decode(bytes, { stream: true })
      // Some scripts send empty lines before the XML declaration, which XML forbids.
      const own: string = hasBegun ? text : text.trimStart()
      hasBegun ||= own !== ''
      if (own !== '') yield own
    }
    yield decoder?.decode() ?? ''
  } catch (error) {
    if (error instanceof RangeError || (error as NodeJS.ErrnoException).code === 'ERR_ENCODING_INVALID_ENCODED_DATA')
      throw new InvalidXml('The encoding of the response cannot be read.')
    throw error
  }
}

function detectEncoding(start: Uint8Array, contentType: string): string {
  const [first, second] = start
  if ((first === 0xff && second === 0xfe) || (first === 0x3c && second === 0)) return 'utf-16le'
  if ((first === 0xfe && second === 0xff) || (first === 0 && second === 0x3c)) return 'utf-16be'
  const declared = /^(?:\xef\xbb\xbf)?<\?xml[^>]{0,100}\bencoding\s*=\s*["']([\w-]+)["']/.exec(
    Buffer.from(start.subarray(0, 200)).toString('latin1'),
  )
  return /;\s*charset\s*=\s*"?([\w-]+)/i.exec(contentType)?.[1] ?? declared?.[1] ?? 'utf-8'
}
