/** What documents are called in an export, and what its manifest says of them. */
import { extname } from 'node:path'
import { truncateFilename } from '../../documents/file-names.ts'
import type { DocumentView } from '../../documents/view.ts'
import { safeName } from '../remote/save-file.ts'

/** A line of manifest.jsonl: the document, and where it is beside the manifest. */
export interface ManifestEntry extends DocumentView {
  readonly file: string
  readonly text_file?: string
}

export const manifestFileName = 'manifest.jsonl'

/** Bytes of a name: what an old archive takes, less the ending of a text. */
const maxBytes = 96

/** `contract-1a2b3c4d.pdf`: the same at each export, and no two alike, because of the end of the id. */
export function exportFileName({ id, filename }: Pick<DocumentView, 'id' | 'filename'>): string {
  const name = safeName(filename)
  const extension = extname(name)
  const mark = `-${id.replaceAll('-', '').slice(-12)}${extension}`
  const stem = name.slice(0, name.length - extension.length)
  return `${truncateFilename(stem, Math.max(1, maxBytes - Buffer.byteLength(mark)))}${mark}`
}

export const textFileName = (file: string): string => `${file}.txt`

export const manifestEntry = (document: DocumentView, file: string, hasText: boolean): ManifestEntry => ({
  ...document,
  file,
  ...(hasText ? { text_file: textFileName(file) } : {}),
})
