/** Removes the parts of a PDF outside of pages that PDF/A-2 forbids: scripts, actions, forms, foreign metadata. Also removes unreferenced objects. */
import { deflateSync } from 'node:zlib'
import { decodePDFRawStream, PDFArray, PDFDict, PDFInvalidObject, PDFName, type PDFObject, PDFRawStream, PDFRef } from '@cantoo/pdf-lib'
import { ReadFailure } from '../../ports/document-reader.ts'
import { filtersOf } from './check-colours.ts'
import { nameOf } from './check-font.ts'
import type { PdfContext } from './streams.ts'

const catalogKeys = new Set([
  ...[
    'Type',
    'Pages',
    'PageLabels',
    'Names',
    'Dests',
    'ViewerPreferences',
    'PageLayout',
    'PageMode',
    'Outlines',
    'StructTreeRoot',
    'MarkInfo',
  ],
  ...['Lang', 'OCProperties'],
])
const allowedActions = new Set(['GoTo', 'GoToR', 'Thread', 'URI', 'Named', 'SubmitForm'])
const namedActions = new Set(['NextPage', 'PrevPage', 'FirstPage', 'LastPage'])

/** Reduces the catalog to entries that conform. Returns the reason why the document cannot be converted without a loss; null if it can. */
export function checkCatalog(catalog: PDFDict): string | null {
  const form = catalog.lookup(PDFName.of('AcroForm'))
  if (form instanceof PDFDict && form.has(PDFName.of('XFA'))) return 'it is an XFA form'
  const names = catalog.lookup(PDFName.of('Names'))
  if (catalog.has(PDFName.of('Collection')) || (names instanceof PDFDict && names.has(PDFName.of('EmbeddedFiles'))))
    return 'it has attached files'
  for (const key of catalog.keys()) if (!catalogKeys.has(key.decodeText())) catalog.delete(key)
  if (names instanceof PDFDict) for (const key of names.keys()) if (key !== PDFName.of('Dests')) names.delete(key)
  const layers = catalog.lookup(PDFName.of('OCProperties'))
  return layers instanceof PDFDict ? 'it has layers' : null
}

/** Deletes the objects that the document does not reach and cleans the others. Throws ReadFailure NOT_CONVERTIBLE. */
export function removeUnreachable(context: PdfContext, catalog: PDFDict): void {
  const reached = new Set<PDFRef>()
  const waiting: PDFObject[] = [catalog]
  for (const ref of [context.trailerInfo.Info, context.trailerInfo.Root]) if (ref instanceof PDFRef) waiting.push(ref)
  for (let object = waiting.pop(); object; object = waiting.pop()) {
    if (object instanceof PDFInvalidObject) throw new ReadFailure('NOT_CONVERTIBLE', 'The PDF cannot be converted to PDF/A: it is damaged.')
    if (object instanceof PDFRef) {
      if (reached.has(object)) continue
      reached.add(object)
    }
    if (object instanceof PDFRawStream) cleanStream(object)
    if (object instanceof PDFDict && object !== catalog) cleanDictionary(object)
    for (const child of childrenOf(context, object)) waiting.push(child)
  }
  for (const [ref] of context.enumerateIndirectObjects()) if (!reached.has(ref)) context.delete(ref)
}

function childrenOf(context: PdfContext, object: PDFObject): readonly PDFObject[] {
  if (object instanceof PDFArray) return object.asArray()
  if (object instanceof PDFDict) return object.values()
  if (object instanceof PDFRawStream) return [object.dict]
  const target = object instanceof PDFRef ? context.lookup(object) : undefined
  return target ? [target] : []
}

function cleanDictionary(dict: PDFDict): void {
  for (const key of ['AA', 'PieceInfo', 'Metadata']) dict.delete(PDFName.of(key))
  for (const key of ['A', 'PA', 'Next']) {
    const action = dict.lookup(PDFName.of(key))
    const kind = action instanceof PDFDict ? nameOf(action, 'S') : undefined
    if (action instanceof PDFDict && kind !== undefined && !isAllowed(action, kind)) dict.delete(PDFName.of(key))
  }
}

const isAllowed = (action: PDFDict, kind: string): boolean =>
  allowedActions.has(kind) && (kind !== 'Named' || namedActions.has(nameOf(action, 'N') ?? ''))

/** Replaces LZW, which PDF/A forbids, by Flate. */
function cleanStream(stream: PDFRawStream): void {
  const { dict } = stream
  const filters = filtersOf(dict)
  if (dict.has(PDFName.of('F')) || filters.includes('Crypt'))
    throw new ReadFailure('NOT_CONVERTIBLE', 'The PDF cannot be converted to PDF/A: it refers to other files or is encrypted.')
  if (!filters.includes('LZWDecode')) return
  stream.updateContents(new Uint8Array(deflateSync(decodePDFRawStream(stream).decode())))
  dict.set(PDFName.of('Filter'), PDFName.of('FlateDecode'))
  const list = dict.lookup(PDFName.of('DecodeParms'))
  const parameters = list instanceof PDFArray ? list.lookup(filters.indexOf('LZWDecode')) : list
  if (parameters instanceof PDFDict) {
    parameters.delete(PDFName.of('EarlyChange'))
    dict.set(PDFName.of('DecodeParms'), parameters)
  } else dict.delete(PDFName.of('DecodeParms'))
}
