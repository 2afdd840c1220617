import type { z } from 'zod'
import type { SplitMode } from '../db/schema-documents.ts'
import type { PagesAnswer, PagesQuery } from '../documents/content.ts'
import type { PageImageQuery } from '../documents/pages/routes.ts'
import type * as renditionRoutes from '../documents/renditions/routes.ts'
import type { Changes, listQuery, ThumbnailQuery } from '../documents/routes.ts'
import type { DeleteQuery, DeletionAnswer, EmptyAnswer, EmptyQuery, TrashAnswer, trashQuery } from '../documents/trash/routes.ts'
import type { BulkAnswer, DuplicatesAnswer, UploadAnswer } from '../documents/uploads/forms.ts'
import type { StoredAnswer, ListAnswer as VersionsAnswer } from '../documents/versions/routes.ts'
import type { DocumentView } from '../documents/view.ts'
import type { Retry, RetryAnswer } from '../ocr/routes.ts'
import { type EntryStream, type OpenConnection, type Page, pathOf, type Query, type QueryOf, withQuery } from './http/connection.ts'
import type { Upload } from './http/multipart.ts'

export interface UploadOptions {
  title?: string | undefined
  labels?: string | undefined
  language?: string | undefined
  split?: SplitMode | undefined
  ocr_enabled?: boolean | undefined
  on_duplicate?: 'allow' | 'reject' | 'return' | undefined
  owner?: string | undefined
  metadata?: Record<string, unknown> | undefined
  /** YYYY-MM-DD */
  document_date?: string | undefined
  idempotencyKey?: string | undefined
  /** ends the request, which then throws the signal's reason */
  signal?: AbortSignal | undefined
}

export interface Uploaded extends z.infer<typeof UploadAnswer> {
  /** false: the owner had the same bytes, and the existing document is returned (`on_duplicate: 'return'`) */
  created: boolean
}

export interface StoredVersion extends z.infer<typeof StoredAnswer> {
  /** false: the current version has these bytes already */
  created: boolean
}

export interface ReplaceOptions {
  language?: string | undefined
  ocr_enabled?: boolean | undefined
  /** throws ClientError PRECONDITION_FAILED if the document has changed since */
  etag?: string | undefined
  signal?: AbortSignal | undefined
}

type DocumentQuery = QueryOf<ReturnType<typeof listQuery>>
type TrashQuery = QueryOf<ReturnType<typeof trashQuery>>

/** Documents: files, fields and texts. */
export const documents = ({ call, list, fetch, upload }: OpenConnection) => ({
  /** `content: false` leaves out the text. */
  get: (id: string, query: { content?: boolean } = {}): Promise<DocumentView> => call('GET', withQuery(pathOf('documents', id), query)),
  /** Gets a document with its ETag, for `update`. */
  getWithEtag: async (id: string): Promise<{ document: DocumentView; etag: string }> => {
    const response = await fetch('GET', pathOf('documents', id))
    return { document: (await response.json()) as DocumentView, etag: response.headers.get('etag') ?? '' }
  },
  list: (query: DocumentQuery = {}): EntryStream<DocumentView> => list(pathOf('documents'), query),
  page: (query: DocumentQuery = {}): Promise<Page<DocumentView>> => call('GET', withQuery(pathOf('documents'), query)),
  upload: async (file: Upload, { idempotencyKey, signal, ...fields }: UploadOptions = {}): Promise<Uploaded> => {
    const form = { fields: formFields(fields), field: 'file', files: [file] }
    const response = await upload(pathOf('documents', 'upload'), form, { idempotencyKey, signal })
    return { ...((await response.json()) as Omit<Uploaded, 'created'>), created: response.status === 201 }
  },
  /** Uploads at most ten files; each has its own result. */
  bulkUpload: async (
    files: readonly Upload[],
    { labels, idempotencyKey, signal, ...options }: Omit<UploadOptions, 'title'> = {},
  ): Promise<z.infer<typeof BulkAnswer>> => {
    const fields: Query = { ...formFields(options), default_labels: labels }
    const response = await upload(pathOf('documents', 'bulk-upload'), { fields, field: 'files', files }, { idempotencyKey, signal })
    return (await response.json()) as z.infer<typeof BulkAnswer>
  },
  /** Maps checksums (SHA-256, at most 1,000) to documents of the owner. Unknown checksums are left out. */
  known: async (sha256: readonly string[], { owner }: { owner?: string | undefined } = {}): Promise<Map<string, string>> => {
    const { documents } = await call<z.infer<typeof DuplicatesAnswer>>('POST', pathOf('documents', 'known'), { sha256, owner })
    return new Map(documents.map((document) => [document.sha256, document.id]))
  },
  /** Returns the maximum size of an uploaded file in bytes; null if the server is older than this answer. */
  maxUploadSize: async ({ owner }: { owner?: string | undefined } = {}): Promise<number | null> => {
    const answer = await call<Partial<z.infer<typeof DuplicatesAnswer>>>('POST', pathOf('documents', 'known'), {
      sha256: [sha256OfNothing],
      owner,
    })
    return answer.max_upload_size ?? null
  },
  /** `etag`: throws ClientError PRECONDITION_FAILED if the document has changed since. */
  update: (id: string, changes: z.input<typeof Changes>, { etag }: { etag?: string } = {}): Promise<DocumentView> =>
    call('PUT', pathOf('documents', id), changes, etag === undefined ? {} : { 'if-match': etag }),
  /** Replaces the file: it becomes the next version. */
  replace: async (id: string, file: Upload, { etag, signal, ...fields }: ReplaceOptions = {}): Promise<StoredVersion> => {
    const headers: Record<string, string> = etag === undefined ? {} : { 'if-match': etag }
    return storedVersion(
      await upload(pathOf('documents', id, 'file'), { fields, field: 'file', files: [file] }, { method: 'PUT', headers, signal }),
    )
  },
  /** Lists the versions of the file, newest first. */
  versions: async (id: string): Promise<z.infer<typeof VersionsAnswer>['versions']> =>
    (await call<z.infer<typeof VersionsAnswer>>('GET', pathOf('documents', id, 'versions'))).versions,
  /** Copies the file and text of an old version into a new, current version. */
  restore: async (id: string, number: number): Promise<StoredVersion> =>
    storedVersion(await fetch('POST', pathOf('documents', id, 'versions', String(number), 'restore'))),
  downloadVersion: (id: string, number: number): Promise<Response> =>
    fetch('GET', pathOf('documents', id, 'versions', String(number), 'download')),
  viewVersion: (id: string, number: number): Promise<Response> => fetch('GET', pathOf('documents', id, 'versions', String(number), 'view')),
  versionText: async (id: string, number: number): Promise<string> =>
    (await fetch('GET', pathOf('documents', id, 'versions', String(number), 'text'))).text(),
  deleteVersion: (id: string, number: number): Promise<void> => call('DELETE', pathOf('documents', id, 'versions', String(number))),
  /** Moves the document to the trash; `permanent` destroys it, also in the trash. */
  delete: (id: string, query: QueryOf<typeof DeleteQuery> = {}): Promise<void> => call('DELETE', withQuery(pathOf('documents', id), query)),
  /** Returns what delete() would do. Throws like it, and changes nothing. */
  checkDeletion: (id: string, query: QueryOf<typeof DeleteQuery> = {}): Promise<z.infer<typeof DeletionAnswer>> =>
    call('GET', withQuery(pathOf('documents', id, 'deletion'), query)),
  undelete: (id: string): Promise<DocumentView> => call('POST', pathOf('documents', id, 'undelete')),
  /** Downloads the file. `range` is an HTTP range such as `bytes=0-99`. With `rendition`, answers 202 while the rendition is being made. */
  download: (id: string, { range, ...query }: { range?: string } & QueryOf<typeof renditionRoutes.DownloadQuery> = {}): Promise<Response> =>
    fetch('GET', withQuery(pathOf('documents', id, 'download'), query), undefined, range === undefined ? {} : { range }),
  /** Lists the renditions, newest version first. */
  renditions: async (id: string): Promise<renditionRoutes.RenditionView[]> =>
    (await call<z.infer<typeof renditionRoutes.ListAnswer>>('GET', pathOf('documents', id, 'renditions'))).renditions,
  /** Makes a rendition of the current version, unless it exists. */
  makeRendition: (id: string, kind: 'pdfa'): Promise<renditionRoutes.RenditionView> =>
    call('POST', pathOf('documents', id, 'renditions'), { kind }),
  /** Gets a tar archive: the file of each document as `ID/FILENAME`, its text as `ID.txt`. Documents without a file are left out. */
  batchGet: (ids: readonly string[], { withText = false }: { withText?: boolean } = {}): Promise<Response> =>
    fetch('POST', pathOf('documents', 'batch-get'), { ids, with_text: withText }),
  /** Gets the file for inline display. */
  view: (id: string): Promise<Response> => fetch('GET', pathOf('documents', id, 'view')),
  /** Gets a WebP image of the first page; sizes in pixels. */
  thumbnail: (id: string, size: QueryOf<typeof ThumbnailQuery> = {}): Promise<Response> =>
    fetch('GET', withQuery(pathOf('documents', id, 'thumbnail'), size)),
  /** Gets a WebP picture of a page, counted from 1. */
  pageImage: (id: string, page: number, size: QueryOf<typeof PageImageQuery> = {}): Promise<Response> =>
    fetch('GET', withQuery(pathOf('documents', id, 'pages', String(page), 'image'), size)),
  pages: async (id: string, range: QueryOf<typeof PagesQuery> = {}): Promise<z.infer<typeof PagesAnswer>['pages']> =>
    (await call<z.infer<typeof PagesAnswer>>('GET', withQuery(pathOf('documents', id, 'pages'), range))).pages,
  text: async (id: string): Promise<string> => (await fetch('GET', pathOf('documents', id, 'text'))).text(),
  retryOcr: (id: string, options: z.input<typeof Retry> = {}): Promise<z.infer<typeof RetryAnswer>> =>
    call('POST', pathOf('documents', id, 'retry-ocr'), options),
})

/** No document has it: empty files are refused. */
const sha256OfNothing = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

const storedVersion = async (response: Response): Promise<StoredVersion> => ({
  ...((await response.json()) as z.infer<typeof StoredAnswer>),
  created: response.status === 201,
})

/** Renditions of the user's documents; for an admin, of all documents. */
export const renditions = ({ call }: OpenConnection) => ({
  status: async (): Promise<z.infer<typeof renditionRoutes.StatusAnswer>['renditions']> =>
    (await call<z.infer<typeof renditionRoutes.StatusAnswer>>('GET', pathOf('renditions', 'status'))).renditions,
  /** Requests all renditions that are missing and were not refused. */
  makeMissing: (kind: 'pdfa'): Promise<z.infer<typeof renditionRoutes.QueuedAnswer>> => call('POST', pathOf('renditions'), { kind }),
})

/** The trash: deleted documents that can be restored. */
export const trash = ({ call, list }: OpenConnection) => ({
  list: (query: TrashQuery = {}): EntryStream<DocumentView> => list(pathOf('trash'), query),
  page: (query: TrashQuery = {}): Promise<z.infer<typeof TrashAnswer>> => call('GET', withQuery(pathOf('trash'), query)),
  /** Destroys the documents that `list` shows. */
  empty: (query: QueryOf<typeof EmptyQuery> = {}): Promise<z.infer<typeof EmptyAnswer>> =>
    call('DELETE', withQuery(pathOf('trash'), query)),
  /** Tells what `empty` would destroy. Fails whenever `empty` would. */
  checkEmptying: (query: QueryOf<typeof EmptyQuery> = {}): Promise<z.infer<typeof EmptyAnswer>> =>
    call('GET', withQuery(pathOf('trash', 'deletion'), query)),
})

const formFields = ({ metadata, ...fields }: Omit<UploadOptions, 'idempotencyKey' | 'signal'>): Query => ({
  ...fields,
  metadata: metadata && JSON.stringify(metadata),
})
