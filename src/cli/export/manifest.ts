/** Files and manifest of an export. */
import type { Client } from '../../client/client.ts'
import { extensionOf, renditionName, truncateFilename } from '../../documents/file-names.ts'
import type { DocumentView } from '../../documents/view.ts'
import { safeName } from '../remote/save-file.ts'

type Version = Awaited<ReturnType<Client['documents']['versions']>>[number]

/** A line of manifest.jsonl: a document, its rendition, or one of its old versions, with file names relative to the manifest. */
export type ManifestEntry = {
  readonly file: string
  readonly text_file?: string
  /** files under earlier names, which --delete-extra deletes */
  readonly earlier_files?: readonly string[]
} & (
  | (DocumentView & {
      readonly current?: true
      readonly rendition?: { readonly kind: 'pdfa'; readonly size: number; readonly sha256: string }
    })
  | (Omit<Version, 'number' | 'current'> & { readonly id: string; readonly version: number; readonly current: false })
)

/** A file to export: the file of a document or of an old version. */
export interface ExportFile {
  readonly id: string
  /** null: the current version; one request fetches the current versions of many documents */
  readonly version: number | null
  readonly size: number
  readonly sha256: string
  readonly createdAt: string
  /** file name in the export */
  readonly file: string
  readonly hasText: boolean
  entry(options: { hasText: boolean }): ManifestEntry
  download(): Promise<Response>
  text(): Promise<string>
}

/** Returns the names of all files of an entry. */
export const filesOf = ({ file, text_file, earlier_files = [] }: ManifestEntry): string[] => [
  file,
  ...(text_file === undefined ? [] : [text_file]),
  ...earlier_files,
]

export const manifestFileName = 'manifest.jsonl'

/** Limit in bytes: the name field of a tar header (100) minus the ending of the text file. */
const maxBytes = 96

/** Returns `contract-1a2b3c4d.pdf`, for an old version `contract-1a2b3c4d.v1.pdf`. The end of the id makes it unique and repeatable. */
export function exportFileName({ id, filename }: Pick<DocumentView, 'id' | 'filename'>, version: number | null = null): string {
  const name = safeName(filename)
  // An extension such as .v1 would make the name that of an old version.
  const extension = extensionOf(name).replace(/^\.v\d+$/i, '')
  const stem = name.slice(0, name.length - extension.length)
  const mark = `-${id.replaceAll('-', '').slice(-12)}${version === null ? '' : `.v${version}`}${extension}`
  return `${truncateFilename(stem, Math.max(1, maxBytes - Buffer.byteLength(mark)))}${mark}`
}

export const textFileName = (file: string): string => `${file}.txt`

/** Returns the key of a line: a document has one for its current version and one for each old version. */
export const manifestKey = (entry: ManifestEntry): string => (entry.current === false ? `${entry.id} ${entry.version}` : entry.id)

/** Returns the file of a document. Requests its version by number: a version that arrives meanwhile has another size and checksum. */
export function documentFile({ documents }: Client, document: DocumentView): ExportFile {
  const { id, size, sha256, created_at, version } = document
  const file = exportFileName(document)
  return {
    id,
    version: null,
    size,
    sha256,
    createdAt: created_at,
    file,
    hasText: document.status === 'completed',
    entry: ({ hasText }) => ({ ...document, current: true, ...names(file, hasText) }),
    download: () => documents.downloadVersion(id, version),
    text: () => documents.text(id),
  }
}

/** Returns the rendition of a document, to be exported in place of its file; null without a completed one. */
export async function renditionFile(client: Client, document: DocumentView, kind: 'pdfa'): Promise<ExportFile | null> {
  const { documents } = client
  const { id, version, filename } = document
  const found = (await documents.renditions(id)).find((rendition) => rendition.number === version && rendition.kind === kind)
  const { size = null, sha256 = null } = found ?? {}
  if (size === null || sha256 === null) return null
  const file = exportFileName({ id, filename: renditionName(filename) })
  return {
    ...documentFile(client, document),
    version,
    size,
    sha256,
    file,
    entry: ({ hasText }) => ({ ...document, current: true, rendition: { kind, size, sha256 }, ...names(file, hasText) }),
    download: () => documents.download(id, { rendition: kind }),
  }
}

/** Returns the files of the old versions of a document. */
export async function oldVersionFiles({ documents }: Client, { id, version }: DocumentView): Promise<ExportFile[]> {
  const old = version < 2 ? [] : (await documents.versions(id)).filter(({ number }) => number < version)
  return old.map(({ number, current: _, ...about }) => {
    const file = exportFileName({ id, filename: about.filename }, number)
    return {
      id,
      version: number,
      size: about.size,
      sha256: about.sha256,
      createdAt: about.created_at,
      file,
      hasText: true,
      entry: ({ hasText }) => ({ id, version: number, current: false, ...about, ...names(file, hasText) }),
      download: () => documents.downloadVersion(id, number),
      text: () => documents.versionText(id, number),
    }
  })
}

const names = (file: string, hasText: boolean) => ({ file, ...(hasText ? { text_file: textFileName(file) } : {}) })
