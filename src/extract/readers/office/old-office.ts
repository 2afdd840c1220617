/** Readers of office documents from before 2007. */
import { typeByExtension } from '../../mime-types.ts'
import { type ByteSource, bytesSource, type OpenedDocument } from '../../opened-document.ts'
import { openWithParts, type PartTools } from '../../parts.ts'
import { readDoc } from './doc.ts'
import { addEmbeddedFile, addOleObjects } from './embedded.ts'
import { type Ole, openOle } from './ole.ts'
import { readPpt, readPptObjects } from './ppt.ts'
import { readXls } from './sheets/xls.ts'
import { readSummary } from './summary.ts'

/** Detects the type of a compound file by its streams. Returns null for an unknown type. */
export function detectOleType(ole: Ole): string | null {
  const names = new Set(ole.names.map((name) => name.toLowerCase()))
  const has = (...streams: string[]): boolean => streams.some((name) => names.has(name.toLowerCase()))
  if (has('WordDocument')) return typeByExtension.doc!
  if (has('Workbook', 'Book')) return typeByExtension.xls!
  if (has('PowerPoint Document')) return typeByExtension.ppt!
  if (has('__properties_version1.0')) return typeByExtension.msg!
  if (has('FileHeader') && has('DocInfo')) return typeByExtension.hwp!
  if (has('VisioDocument')) return typeByExtension.vsd!
  if (has('Quill/QuillSub/CONTENTS')) return typeByExtension.pub!
  if (has('StarWriterDocument')) return typeByExtension.sdw!
  return has('MatOST', 'MN0') || isWorksText(ole) ? typeByExtension.wps! : null
}

const worksMark = 'CHNKWKS'
const isWorksText = (ole: Ole): boolean => Buffer.from(ole.stream('CONTENTS')?.subarray(0, 7) ?? []).toString('latin1') === worksMark

export const openDoc = (source: ByteSource, tools: PartTools): OpenedDocument => openWithObjects(source, tools, readDoc)
export const openXls = (source: ByteSource, tools: PartTools): OpenedDocument => openWithObjects(source, tools, readXls)
export const openPpt = (source: ByteSource, tools: PartTools): OpenedDocument =>
  openWithObjects(source, tools, (ole) => readPpt(ole), readPptObjects)

const openWithObjects = (
  source: ByteSource,
  tools: PartTools,
  readText: (ole: Ole) => string,
  readObjects: (ole: Ole) => Iterable<Uint8Array> = () => [],
): OpenedDocument =>
  openWithParts(tools, async (collector) => {
    const ole = openOle(source.read())
    collector.addText(`${readText(ole)}\n\n`)
    await addOleObjects(collector, ole, { isDocument: true })
    for (const object of readObjects(ole)) if (!collector.isFull) await addEmbeddedFile(collector, bytesSource(object, ''))
    return { metadata: readSummary(ole) }
  })
