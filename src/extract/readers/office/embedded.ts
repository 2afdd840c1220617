/** Files in compound files: objects that Word, Excel and PowerPoint embed ([MS-OLEDS]). */

import { viewOf } from '../../bytes.ts'
import { type ByteSource, bytesSource, type OpenedDocument } from '../../opened-document.ts'
import { openWithParts, type PartCollector, type PartTools } from '../../parts.ts'
import { decodeCodePage } from '../code-pages.ts'
import { readDoc } from './doc.ts'
import { isOle, type Ole, openOle } from './ole.ts'
import { readPpt } from './ppt.ts'
import { readXls } from './sheets/xls.ts'

const maxObjects = 1000
/** Streams that hold a file: packages of Open XML, PDFs, OpenDocument. */
const fileStreams = ['package', 'contents', 'embeddedodf']

/** Opens a compound file of an unknown type. */
export const openOleObject = (source: ByteSource, tools: PartTools): OpenedDocument =>
  openWithParts(tools, async (collector) => {
    await addOleObjects(collector, openOle(source.read()))
    return { metadata: {} }
  })

/** Adds a part that may be wrapped as an object. */
export async function addEmbeddedFile(collector: PartCollector, part: ByteSource): Promise<void> {
  if (isOle(part.head(8))) {
    const ole = readOr(() => openOle(part.read()), null)
    const isObject = ole?.names.every((name) => !documentStreams.has(name.toLowerCase()))
    if (ole && isObject) return addOleObjects(collector, ole)
  }
  await collector.addPart(part)
}

const documentStreams = new Map<string, (ole: Ole) => string>([
  ['worddocument', readDoc],
  ['workbook', readXls],
  ['book', readXls],
  ['powerpoint document', readPpt],
])

/** Adds the objects in all storages. `isDocument`: the streams of the root are those of the document itself. */
export async function addOleObjects(collector: PartCollector, ole: Ole, { isDocument = false } = {}): Promise<void> {
  let count = 0
  for (const name of ole.names) {
    const slash = name.lastIndexOf('/') + 1
    const kind = name.slice(slash).toLowerCase()
    const readDocument = documentStreams.get(kind)
    if (slash === 0 && isDocument) continue
    if (!readDocument && kind !== '\x01ole10native' && !fileStreams.includes(kind)) continue
    if (collector.isFull || ++count > maxObjects) return
    if (readDocument) collector.addText(`${readOr(() => readDocument(ole.storage(name.slice(0, slash))), '')}\n\n`)
    else {
      const bytes = ole.stream(name) ?? new Uint8Array()
      const part = kind === '\x01ole10native' ? readPackage(bytes.subarray(4)) : bytesSource(bytes, '')
      if (part) await collector.addPart(part)
    }
  }
}

function readOr<T>(read: () => T, otherwise: T): T {
  try {
    return read()
  } catch {
    return otherwise
  }
}

/** Reads a packaged file: flags, label, path, two numbers, temporary path, size, content. */
function readPackage(bytes: Uint8Array): ByteSource | null {
  const view = viewOf(bytes)
  let at = 2
  const readText = (): string => {
    const end = bytes.indexOf(0, at)
    const text = decodeCodePage(bytes.subarray(at, end < 0 ? at : end), 1252)
    at = end < 0 ? bytes.length : end + 1
    return text
  }
  const label = readText()
  const path = readText()
  at += 4
  if (at + 4 > bytes.length) return null
  at += 4 + view.getUint32(at, true)
  if (at + 4 > bytes.length) return null
  const size = view.getUint32(at, true)
  return bytesSource(bytes.subarray(at + 4, at + 4 + size), (path || label).split(/[\\/]/).at(-1) ?? '')
}

/** Returns the file in an object of RTF: version, kind, class, topic, item, size, content ([MS-OLEDS] 2.2.5). */
export function readOle1Object(bytes: Uint8Array): ByteSource | null {
  const view = viewOf(bytes)
  const embeddedKind = 2
  if (bytes.length < 12 || view.getUint32(4, true) !== embeddedKind) return null
  let at = 8
  let className = ''
  for (let i = 0; i < 3; i++) {
    if (at + 4 > bytes.length) return null
    const length = view.getUint32(at, true)
    if (i === 0) className = Buffer.from(bytes.subarray(at + 4, at + 4 + Math.max(0, length - 1))).toString('latin1')
    at += 4 + length
  }
  if (at + 4 > bytes.length) return null
  const data = bytes.subarray(at + 4, at + 4 + view.getUint32(at, true))
  return className === 'Package' ? readPackage(data) : bytesSource(data, '')
}
