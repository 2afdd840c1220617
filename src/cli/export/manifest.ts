/** File names and manifest of an export. */
import { extname } from 'node:path'
import { truncateFilename } from '../../documents/file-names.ts'
import type { DocumentView } from '../../documents/view.ts'
import { safeName } from '../remote/save-file.ts'

/** A line of manifest.jsonl: the document and its file names, relative to the manifest. */
export interface ManifestEntry extends DocumentView {
  readonly file: string
  readonly text_file?: string
}

export const manifestFileName = 'manifest.jsonl'

/** Limit in bytes: the name field of a tar header (100) minus the ending of the text file. */
const maxBytes = 96

/** Returns `contract-1a2b3c4d.pdf`. The end of the id makes it unique and repeatable. */
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
