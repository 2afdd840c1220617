/** What we ask of the outside world. One page; every adapter implements one of these and knows nothing of dms besides. */
import type { Readable } from 'node:stream'

/** Bytes on their way in: already on the store's own file system, flushed, but without a name yet. */
export interface StagedFile {
  readonly sha256: string
  /** bytes */
  readonly size: number
  /** The first bytes (at most 4,100), enough to tell the type. */
  readonly head: Uint8Array
  /** Gives the bytes their name, durably. Harmless when they already have it. Until keep() they count as unsettled. */
  commit(): Promise<void>
  /** The database knows of them, durably. */
  keep(): Promise<void>
  /** Forgets them. Harmless after keep(); after commit() alone they stay unsettled. */
  discard(): Promise<void>
}

/** Where document bytes live, addressed by their SHA-256 (hex). Derived files (thumbnails) live beside them under a key. */
export interface FileStore {
  /** Reads `source` to its end in constant memory; throws AppError PAYLOAD_TOO_LARGE past `maxSize` bytes, and leaves nothing behind on any failure. */
  stage(source: AsyncIterable<Uint8Array>, maxSize: number): Promise<StagedFile>
  /** Opens the bytes; `start` and `end` are inclusive offsets. Throws FileMissing. */
  read(sha256: string, range?: { start: number; end: number }): Promise<Readable>
  /** A local path that holds the bytes until `release()`, for programs that need one. Throws FileMissing. */
  local(sha256: string): Promise<{ path: string; release(): Promise<void> }>
  /** Size in bytes, or null where there is no such file. */
  size(sha256: string): Promise<number | null>
  /** Removes the bytes and everything derived from them. */
  remove(sha256: string): Promise<void>
  /** All that is stored, in ascending order of addresses, with bounded memory. What comes or goes meanwhile may be told of or not. */
  list(): AsyncIterable<{ readonly sha256: string; readonly size: number; readonly modifiedAt: Date }>
  /** Takes the bytes away from their address, and keeps them where an administrator finds them: the answer says where. Throws FileMissing. */
  setAside(sha256: string): Promise<string>
  readDerived(sha256: string, name: string): Promise<Uint8Array | null>
  writeDerived(sha256: string, name: string, bytes: Uint8Array): Promise<void>
  /** Bytes that got their name, but whose uploader failed or died before keep(): perhaps nothing refers to them. */
  unsettled(): Promise<{ readonly sha256: string; remove(): Promise<void> }[]>
  /** Throws where the store cannot take bytes now (not mounted, read-only, full). */
  check(): Promise<void>
  close(): Promise<void>
}

/** The store has no bytes under that address. */
export class FileMissing extends Error {
  constructor(sha256: string) {
    super(`no stored file ${sha256}`)
    this.name = 'FileMissing'
  }
}

/** One page as OCR engines take it: 8-bit gray, row by row, no padding. */
export interface PageImage {
  readonly gray: Uint8Array
  readonly width: number
  readonly height: number
  readonly dpi: number
}

export interface OcrText {
  readonly text: string
  /** 0 to 1, the mean of the words; null where no word was found */
  readonly confidence: number | null
}

/** Turns pictures of pages into text. Lives in a reader process, one page at a time, one thread. */
export interface OcrEngine {
  readonly name: string
  /** `language` is one or more installed codes joined by `+`. Throws ReadFailure where it cannot be done. */
  recognize(page: PageImage, language: string): Promise<OcrText>
  close(): Promise<void>
}

/** What OCR there is on this machine: decided once at start. */
export interface OcrSetup {
  readonly engine: 'tesseract-js' | 'tesseract-native'
  /** the program, for the native engine */
  readonly command: string | null
  /** code -> folder that holds `<code>.traineddata` (raw or `.gz`) */
  readonly languages: ReadonlyMap<string, { readonly path: string; readonly gzip: boolean }>
}

/** A file on this machine and what is known of it. */
export interface FileToRead {
  readonly path: string
  readonly filename: string
  readonly mimeType: string
}

export interface OutlinePage {
  /** from 1 */
  readonly page: number
  /** text that the file itself carries; '' where there is none */
  readonly text: string
  /** what is left to do: nothing, or OCR of the picture (whose words join `text`) */
  readonly needsOcr: boolean
  /** size in points (1/72 inch) for PDFs, in pixels for images, null for flowing text */
  readonly width: number | null
  readonly height: number | null
}

/** What a file says without OCR. */
export interface Outline {
  /** decided by the bytes */
  readonly mimeType: string
  /** what the file says of itself, under plain keys: author, title, created, … */
  readonly metadata: Record<string, unknown>
  readonly pages: readonly OutlinePage[]
}

export interface ReadPage extends OcrText {
  readonly width: number | null
  readonly height: number | null
}

export interface ReadOptions {
  readonly signal?: AbortSignal
}

/** Reads users' files in processes of its own that can be killed: a bad file ends with ReadFailure, never with us. */
export interface DocumentReader {
  outline(file: FileToRead, options?: ReadOptions): Promise<Outline>
  /** OCR of one page that the outline says needs it; the answer holds the page's own text too. */
  page(file: FileToRead, page: number, language: string, options?: ReadOptions): Promise<ReadPage>
  /** A picture of the first page inside width × height pixels; null where the type has no picture. */
  thumbnail(
    file: FileToRead,
    size: { width: number; height: number },
    type: 'image/webp' | 'image/jpeg',
    options?: ReadOptions,
  ): Promise<Uint8Array | null>
  /** How many files can be read at the same time. */
  readonly slots: number
  close(): Promise<void>
}

/** Why a file could not be read; `code` becomes the document's `error.code`. */
export const readFailures = {
  FILE_CORRUPT: 'The file is damaged or not of the type that it claims.',
  FILE_ENCRYPTED: 'The file is protected by a password.',
  FILE_TOO_COMPLEX: 'The file is larger inside than the limits allow.',
  READ_TIMEOUT: 'Reading the file took longer than the limit.',
  READ_OUT_OF_MEMORY: 'Reading the file took more memory than the limit.',
  READ_CRASHED: 'The program that reads this type of file crashed on it.',
  OCR_LANGUAGE_MISSING: 'The OCR language is not installed.',
  OCR_FAILED: 'OCR failed.',
} as const

export type ReadFailureCode = keyof typeof readFailures

export class ReadFailure extends Error {
  readonly code: ReadFailureCode
  /** whether another try could end better (a crash might, a corrupt file will not) */
  readonly retry: boolean

  constructor(code: ReadFailureCode, message: string = readFailures[code], retry = false) {
    super(message)
    this.name = 'ReadFailure'
    this.code = code
    this.retry = retry
  }
}

/** What documents must be like besides their words. Several values of `mimeTypes` or `status` mean any of them, of `labelIds` all; `not…`: none of them; empty: no matter. A type may be a family: `image/*`. */
export interface SearchFilter {
  /** null: everybody's. The one thing that keeps users apart: engines must never widen it. */
  readonly ownerId: string | null
  readonly mimeTypes: readonly string[]
  readonly notMimeTypes: readonly string[]
  readonly labelIds: readonly string[]
  readonly notLabelIds: readonly string[]
  readonly status: readonly string[]
  readonly sourceId: string | null
  /** of created_at, both inclusive */
  readonly from: Date | null
  readonly to: Date | null
  /** 0 to 1; documents without any do not reach it */
  readonly minConfidence: number | null
}

export interface SearchQuery {
  /** words, "phrases", -not, one OR other, title:word: what parse() of src/search/query.ts reads; whatever of a query is a filter has become one */
  readonly text: string
  /** whether typos are tolerated */
  readonly fuzzy: boolean
  readonly highlight: boolean
  readonly filter: SearchFilter
  readonly offset: number
  readonly limit: number
  /** matches that are ranked and counted, at most */
  readonly maxResults: number
}

/** One condition on one field. `any` is title, filename, content and labels together. */
export interface SearchClause {
  readonly field: SearchField
  readonly value: string
  /** `match`: its words, in any order; `contains`: a piece of the text, no case, no accents; `exact`: the whole field, no case (of content and any: the phrase) */
  readonly type: 'match' | 'contains' | 'exact'
}

export type SearchField = 'any' | 'title' | 'content' | 'filename' | 'labels' | 'mime_type' | 'status' | 'source_id' | `metadata.${string}`

export interface SearchSort {
  readonly field: 'score' | 'created_at' | 'updated_at' | 'title' | 'size' | 'ocr_confidence'
  readonly order: 'asc' | 'desc'
}

/** All of `must`; at least one of `should` where there is no `must`, else they only add to the score; none of `mustNot`. No clause at all: every document. */
export interface AdvancedQuery extends Omit<SearchQuery, 'text' | 'fuzzy'> {
  readonly must: readonly SearchClause[]
  readonly should: readonly SearchClause[]
  readonly mustNot: readonly SearchClause[]
  /** at least one; what is equal in all of them is in the order of ids */
  readonly sort: readonly SearchSort[]
}

export interface SearchHit {
  readonly document_id: string
  readonly title: string
  readonly filename: string
  readonly mime_type: string
  /** 0 to 1 */
  readonly score: number
  readonly created_at: Date
  /** `snippet` is HTML with <mark> as its only markup */
  readonly highlights: readonly { readonly field: string; readonly snippet: string }[]
}

export interface SearchAnswer {
  /** best first */
  readonly hits: readonly SearchHit[]
  /** at most maxResults */
  readonly total: number
  /** there are more than `total` */
  readonly isCapped: boolean
  /** over the matches that `total` counts: name -> how many */
  readonly facets: { readonly mime_types: Readonly<Record<string, number>>; readonly labels: Readonly<Record<string, number>> }
}

/** Documents that are like one. */
export interface SimilarQuery {
  readonly documentId: string
  readonly filter: SearchFilter
  readonly limit: number
}

export interface IndexStatus {
  /** what the index in force is called where it lives */
  readonly index: string
  /** of its entries, those in the form that this version of dms writes */
  readonly documents: number
  /** those in an older form: still found, perhaps by less */
  readonly outdated: number
  /** the form that this version of dms writes; goes up when that changes */
  readonly version: number
  /** when the index was made or changed last, as far as the engine knows; null where it does not */
  readonly updatedAt: Date | null
}

/** A new index in the making, beside the one in force, which answers all searches until the swap. */
export interface IndexRebuild {
  /** Brings the new index up to date with these documents, as refresh() does with the one in force: again for what changes meanwhile, also after swap(). In ascending order of ids the first time. */
  put(documentIds: readonly string[]): Promise<void>
  /** Waits until all that was put can be found; how many documents the new index has then. */
  settle(): Promise<number>
  /** Puts the new index into force, at once and for everybody; the old one is gone. */
  swap(): Promise<void>
  /** Throws the new index away; harmless after swap(). */
  discard(): Promise<void>
}

/**
 * Finds documents. Knows their ids and reads the rest itself, so that index changes can be done late, twice, or in any order.
 * While the engine is out of reach every verb throws AppError SERVICE_UNAVAILABLE; what was to be indexed is asked for again until it is done.
 */
export interface SearchEngine {
  readonly name: string
  /**
   * Brings the index in force up to date with these documents: what exists is put, what does not is removed. Resolves once searches find it so.
   * Of two at the same time for one document, also in two processes, the last to write has read the latest: a deleted document never comes back.
   */
  refresh(documentIds: readonly string[]): Promise<void>
  /** One page of what matches. */
  search(query: SearchQuery): Promise<SearchAnswer>
  /** The same for conditions on fields; `hits` are in the order that was asked for. */
  advanced(query: AdvancedQuery): Promise<SearchAnswer>
  /** The documents most like one by their words, best first, without itself and without highlights. None where it is not in the index. */
  similar(query: SimilarQuery): Promise<readonly SearchHit[]>
  /** How many documents are in the index, in the form that this version of dms writes. */
  count(): Promise<number>
  status(): Promise<IndexStatus>
  /** Begins a new index; what an interrupted rebuild left behind is removed first. One at a time: the caller holds the lock `search.reindex`. */
  rebuild(): Promise<IndexRebuild>
  /** Throws where it cannot answer now. */
  check(): Promise<void>
}

/** Where a source is, and how to get in. */
export interface SourceAddress {
  /** http(s)://… for webdav; a folder for local_folder; http(s)://endpoint/bucket/prefix for s3 */
  readonly url: string
  /** the access key's id and secret for s3 */
  readonly username: string | null
  readonly password: string | null
  readonly recursive: boolean
}

/** What holds for every source of its type, from the configuration. */
export interface SourceLimits {
  /** requests and downloads at once */
  readonly concurrency: number
  /** milliseconds for one request to begin to be answered, and between two pieces of a body */
  readonly timeout: number
  /** bytes; what is larger is listed and not fetched */
  readonly maxFileSize: number
  /** whether addresses of private, loopback and link-local networks may be spoken to */
  readonly allowPrivateNetworks: boolean
  /** folders that local_folder may look into */
  readonly localRoots: readonly string[]
  /** a PEM file of authorities that are trusted beside the usual ones; '' for none */
  readonly caFile: string
}

/** A file as the listing tells of it. */
export interface SourceFile {
  /** relative to the address, `/` between its parts, decoded; never absolute, no `.` or `..`, no control characters */
  readonly path: string
  /** bytes; null where the listing does not say */
  readonly size: number | null
  readonly etag: string | null
  readonly modifiedAt: Date | null
}

/** What a walk comes by. `pruned`: nothing below the folder changed since `known` knew its tag, so it was not entered. */
export type SourceEntry =
  | { readonly kind: 'file'; readonly file: SourceFile }
  | { readonly kind: 'folder'; readonly path: string; readonly etag: string | null; readonly pruned: boolean }
  | { readonly kind: 'problem'; readonly path: string; readonly code: SourceFailureCode; readonly message: string }

export interface SourceBody {
  /** Throws SourceFailure CONTENT_MISMATCH at its end where what came is not what was promised. */
  readonly bytes: AsyncIterable<Uint8Array>
  readonly etag: string | null
  readonly modifiedAt: Date | null
}

/** A source that is open: one for a run. */
export interface SourceConnection {
  /** Walks everything below the address, in no promised order and with bounded memory. `known`: the tag a folder had when it was last walked to its end. A folder that cannot be listed is a problem, and nothing is known of what is below it. Throws SourceFailure where the address itself cannot be listed. */
  walk(options: { known(path: string): Promise<string | null>; signal: AbortSignal }): AsyncIterable<SourceEntry>
  /** Opens one file. Throws SourceFailure. */
  read(file: SourceFile, signal: AbortSignal): Promise<SourceBody>
  /** What of name, TLS, sign-in and listing works, in that order, to the first that fails; and some paths. Never throws. */
  test(signal: AbortSignal): Promise<{ checks: { name: string; ok: boolean; message: string }[]; sample: string[] }>
  close(): Promise<void>
}

/** A kind of place that documents are pulled from. */
export interface SourceType {
  /** Looks at the address without connecting. Throws SourceFailure SOURCE_ADDRESS_INVALID or SOURCE_ADDRESS_FORBIDDEN. */
  open(address: SourceAddress, limits: SourceLimits): SourceConnection
}

/** Why a source, or one file of it, could not be had. */
export const sourceFailures = {
  SOURCE_ADDRESS_INVALID: 'The address is not one of this type of source.',
  SOURCE_ADDRESS_FORBIDDEN: 'The address is in a place that this source may not reach.',
  SOURCE_UNREACHABLE: 'The source cannot be reached.',
  SOURCE_UNAUTHORIZED: 'The source refuses the username or the password.',
  SOURCE_FORBIDDEN: 'The source refuses access.',
  SOURCE_NOT_FOUND_THERE: 'There is nothing at this address of the source.',
  SOURCE_PROTOCOL: 'The source answers what it should not.',
  SOURCE_BUSY: 'The source asks to be left alone for now.',
  CONTENT_MISMATCH: 'What came is not what the source promised.',
  FILE_TOO_LARGE: 'The file is larger than sources.max_file_size.',
} as const

export type SourceFailureCode = keyof typeof sourceFailures

export class SourceFailure extends Error {
  readonly code: SourceFailureCode
  /** whether another try could end better */
  readonly retry: boolean

  constructor(code: SourceFailureCode, message: string = sourceFailures[code], retry = false) {
    super(message)
    this.name = 'SourceFailure'
    this.code = code
    this.retry = retry
  }
}

/** What a token says; times in seconds since 1970. */
export interface Claims {
  /** the user's id */
  readonly sub: string
  /** the token's own id */
  readonly jti: string
  readonly iat: number
  readonly exp: number
  /** the user's token_version when it was signed; raising that makes all older tokens void */
  readonly ver: number
}

/** Signs tokens and reads them back. */
export interface Tokens {
  sign(claims: Claims): Promise<string>
  /** What a token says if it is one of ours, whether or not it is still in time; null for anything else. */
  read(token: string): Promise<Claims | null>
}

/** The mail server did not take a message. */
export class MailFailure extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'MailFailure'
  }
}

/** Sends mail. */
export interface Mailer {
  /** Hands one message to the mail server; throws MailFailure where that does not take it. `to` is one address, `text` plain. */
  send(mail: { to: string; subject: string; text: string }): Promise<void>
  /** Throws where the mail server cannot be reached or refuses to let us in. */
  check(): Promise<void>
  close(): void
}

/** Hands out values that nobody else can read or change, and knows them again. */
export interface Seals {
  /** `purpose` tells one use from another: what is sealed for one cannot be opened as the other. `seconds`: how long it is good. */
  seal(purpose: string, value: unknown, seconds: number, now: Date): Promise<string>
  /** What was sealed; null for anything else, and when its time is over. */
  open(purpose: string, text: string, now: Date): Promise<unknown>
}

/** What a provider of identities says of somebody. */
export interface Identity {
  readonly issuer: string
  /** who it is, for ever, at that issuer */
  readonly subject: string
  readonly username: string | null
  readonly email: string | null
  /** whether the provider itself has verified the address */
  readonly isEmailVerified: boolean
  readonly displayName: string
  /** the domain that the account belongs to (`hd`) */
  readonly hostedDomain: string | null
  readonly groups: readonly string[]
}

/** What has to be remembered of somebody who was sent to the provider, until they are back. */
export interface IdentityMemory {
  readonly verifier: string
  readonly state: string
  readonly nonce: string
}

/** Signs people in elsewhere. */
export interface IdentityProvider {
  readonly issuer: string
  /** Where to send a browser, which will come back to `redirectUri`. Throws IdentityFailure. */
  begin(redirectUri: string): Promise<{ url: string; memory: IdentityMemory }>
  /** Who came back: `callback` is the redirect address with what the provider added. Throws IdentityFailure for everything that is not exactly right. */
  finish(callback: URL, memory: IdentityMemory): Promise<Identity>
  /** What a sign-in needs, step by step: `ok`, or what is wrong. Never throws. */
  check(): Promise<Record<string, string>>
}

/** Somebody could not be signed in: the provider is away, or what it said is not valid. */
export class IdentityFailure extends Error {
  readonly kind: 'unavailable' | 'refused'

  constructor(kind: 'unavailable' | 'refused', message: string) {
    super(message)
    this.name = 'IdentityFailure'
    this.kind = kind
  }
}

/** Turns passwords into what can be kept. Slow on purpose; a few run at a time, the others wait. */
export interface PasswordHasher {
  hash(password: string): Promise<string>
  /** Whether the password belongs to the hash. Without a hash: false, after the same time. */
  verify(hash: string | null, password: string): Promise<boolean>
}
