/** What we ask of a type of source. */

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
  readonly timeoutMs: number
  /** bytes a second that a body has to come with on average over `timeout`; 0: any */
  readonly minBytesPerSecond: number
  /** bytes; what is larger is listed and not fetched */
  readonly maxFileBytes: number
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
  | { readonly kind: 'folder'; readonly path: string; readonly etag: string | null; readonly isPruned: boolean }
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
  SOURCE_OWNER_DISABLED: 'The account of the owner of the source is disabled. Enable the user, or remove the source.',
  SOURCE_OWNER_FORBIDDEN:
    'Folders of the server are for admins, and the owner of the source is none. An admin who sets the status of the source to active gives the folder to its owner.',
  SOURCE_OWNER_CHANGED: 'The rights of the owner of the source changed while it was synced.',
  SOURCE_PATTERNS_INVALID: 'The patterns of the source cannot be used.',
  SOURCE_UNREACHABLE: 'The source cannot be reached.',
  SOURCE_UNAUTHORIZED: 'The source refuses the username or the password.',
  SOURCE_FORBIDDEN: 'The source refuses access.',
  SOURCE_NOT_FOUND_THERE: 'There is nothing at this address of the source.',
  SOURCE_PROTOCOL: 'The source answers what it should not.',
  SOURCE_BUSY: 'The source asks to be left alone for now.',
  SOURCE_TOO_SLOW: 'The source is slower than sources.min_rate allows.',
  CONTENT_MISMATCH: 'What came is not what the source promised.',
  FILE_TOO_LARGE: 'The file is larger than sources.max_file_size.',
} as const

export type SourceFailureCode = keyof typeof sourceFailures

export class SourceFailure extends Error {
  readonly code: SourceFailureCode
  /** whether another try could end better */
  readonly isRetryable: boolean

  constructor(code: SourceFailureCode, message: string = sourceFailures[code], retry = false) {
    super(message)
    this.name = 'SourceFailure'
    this.code = code
    this.isRetryable = retry
  }

  /** The failure concerns the whole source. A busy source asks to be retried; a locked file does not. */
  get isSourceWide(): boolean {
    return (
      ['SOURCE_UNREACHABLE', 'SOURCE_UNAUTHORIZED', 'SOURCE_TOO_SLOW'].includes(this.code) ||
      (this.code === 'SOURCE_BUSY' && this.isRetryable)
    )
  }
}
