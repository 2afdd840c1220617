/** Reader of signed (.p7m, RFC 5652) and timestamped files (.tsd, RFC 5544): their content as a separate file (X.690). Signatures are not verified. */

import { latin1 } from '../../bytes.ts'
import { type ByteSource, bytesSource, type OpenedDocument } from '../../opened-document.ts'
import type { PartTools } from '../../parts.ts'

const octetString = 0x04
const sequence = 0x30
const contextZero = 0xa0
const constructedFlag = 0x20
const signedData = '2a864886f70d010702'
const timestampedData = '2a864886f70d010910011f'
/** Maximum depth of constructed strings. */
const maxDepth = 16

interface Element {
  readonly tag: number
  readonly start: number
  readonly end: number
  /** begin of the next element */
  readonly next: number
}

/** Opens the signed content with its pages and thumbnail. Returns null for a detached signature or a list of certificates. */
export async function openSignedData(source: ByteSource, tools: PartTools): Promise<OpenedDocument | null> {
  const bytes = unwrapText(source.read())
  const content = findContent(bytes)
  if (!content || content.length === 0) return null
  // Signed mail may have a single header.
  const isMail = /^(content-[a-z-]+|mime-version):/i.test(Buffer.from(content.subarray(0, 100)).toString('latin1'))
  return tools.openPart(bytesSource(content, isMail ? 'content.eml' : source.filename.replace(/\.(?:p7[ms]|tsd)$/i, '')))
}

/** Decodes PEM and bare Base64. */
function unwrapText(bytes: Uint8Array): Uint8Array {
  if (bytes[0] === sequence) return bytes
  const text = latin1(bytes)
  return Buffer.from(text.replace(/-----[^-]+-----/g, ''), 'base64')
}

/** Returns the content: ContentInfo → SignedData → encapContentInfo → eContent, or ContentInfo → TimeStampedData → content. */
function findContent(bytes: Uint8Array): Uint8Array | null {
  const [info] = children(bytes, { start: 0, end: bytes.length })
  if (info?.tag !== sequence) return null
  const [type, wrapper] = children(bytes, info)
  if (!type || wrapper?.tag !== contextZero) return null
  const [data] = children(bytes, wrapper)
  const identifier = Buffer.from(bytes.subarray(type.start, type.end)).toString('hex')
  if (identifier === timestampedData && data) {
    const content = children(bytes, data).find(({ tag }) => (tag & ~constructedFlag) === octetString)
    return content ? readString(bytes, content, 0) : null
  }
  if (identifier !== signedData) return null
  const encapsulated = data && children(bytes, data).find(({ tag }) => tag === sequence)
  const wrapped = encapsulated && children(bytes, encapsulated).find(({ tag }) => tag === contextZero)
  return wrapped ? Buffer.concat(children(bytes, wrapped).map((string) => readString(bytes, string, 0))) : null
}

/** Joins the pieces of an octet string, which may be constructed of others. */
function readString(bytes: Uint8Array, element: Element, depth: number): Uint8Array {
  if (element.tag === octetString) return bytes.subarray(element.start, element.end)
  if (element.tag !== (octetString | constructedFlag) || depth >= maxDepth) return new Uint8Array()
  return Buffer.concat(children(bytes, element).map((piece) => readString(bytes, piece, depth + 1)))
}

/** Returns the complete elements between two positions. */
function children(bytes: Uint8Array, { start, end }: Pick<Element, 'start' | 'end'>): Element[] {
  const found: Element[] = []
  for (let at = start; at + 2 <= end; ) {
    const element = readElement(bytes, at, end, 0)
    if (!element) break
    found.push(element)
    at = element.next
  }
  return found
}

/** Reads tag and length. An element of indefinite length ends behind the two zeros after its last child. */
function readElement(bytes: Uint8Array, at: number, end: number, depth: number): Element | null {
  const tag = bytes[at] ?? 0
  const first = bytes[at + 1] ?? 0
  if (tag === 0 || depth > maxDepth) return null
  if (first === 0x80) {
    let child = at + 2
    while (child + 2 <= end && !(bytes[child] === 0 && bytes[child + 1] === 0)) {
      const next = readElement(bytes, child, end, depth + 1)?.next
      if (next === undefined) break
      child = next
    }
    return { tag, start: at + 2, end: Math.min(child, end), next: child + 2 }
  }
  const lengthBytes = first > 0x80 ? first & 0x7f : 0
  if (lengthBytes > 4) return null
  let length = lengthBytes === 0 ? first : 0
  for (let i = 0; i < lengthBytes; i++) length = length * 256 + (bytes[at + 2 + i] ?? 0)
  const start = at + 2 + lengthBytes
  return { tag, start, end: Math.min(start + length, end), next: start + length }
}
