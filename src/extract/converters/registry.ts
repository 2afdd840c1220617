/** Converters by MIME type. */
import { typeByExtension } from '../mime-types.ts'
import type { ByteSource, OpenedDocument } from '../opened-document.ts'
import type { PdfTools } from '../readers/pdf/pdf.ts'
import { openDjvu } from './djvu.ts'
import type { ConverterName } from './find-converters.ts'
import { openByLibreOffice } from './libreoffice.ts'

interface Converter {
  readonly name: ConverterName
  /** Debian package */
  readonly package: string
  /** Opens a file with the program at this path. Returns null for a file that it does not read. */
  open(source: ByteSource, program: string, tools: PdfTools): Promise<OpenedDocument | null>
}

const writer = { name: 'libreoffice', package: 'libreoffice-writer', open: openByLibreOffice } as const
const draw = { ...writer, package: 'libreoffice-draw' } as const

const converters = new Map<string, Converter>([
  ['image/vnd.djvu', { name: 'djvulibre', package: 'djvulibre-bin', open: openDjvu }],
  [typeByExtension.wpd!, writer],
  [typeByExtension.wps!, writer],
  [typeByExtension.sdw!, writer],
  [typeByExtension.vsd!, draw],
  [typeByExtension.pub!, draw],
])

/** Returns the converter of a type, null if there is none. */
export const findConverter = (mimeType: string): Converter | null => converters.get(mimeType) ?? null
