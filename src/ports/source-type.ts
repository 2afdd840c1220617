/** Interface of source types. */

/** Address and credentials of a source. */
export interface SourceAddress {
  /** `http(s)://…` for webdav, a folder for local_folder, `http(s)://endpoint/bucket/prefix` for s3. */
  readonly url: string
  /** Username, or access key id for s3; `password` is its secret. */
  readonly username: string | null
  readonly password: string | null
  readonly recursive: boolean
}

/** Limits of all sources of a type, from the configuration. */
export interface SourceLimits {
  /** Maximum number of concurrent requests and downloads. */
  readonly concurrency: number
  /** Maximum time until a response starts, and between two chunks of a body. */
  readonly timeoutMs: number
  /** Minimum average rate of a body over `timeoutMs`; 0 for none. */
  readonly minBytesPerSecond: number
  /** Maximum size of fetched files. Larger ones are only listed. */
  readonly maxFileBytes: number
  /** Allows addresses of private, loopback and link-local networks. */
  readonly allowPrivateNetworks: boolean
  /** Folders that local_folder may read. */
  readonly localRoots: readonly string[]
  /** PEM file of additional trusted certificate authorities; '' for none. */
  readonly caFile: string
  /** Maximum number of entries of a WebDAV folder, and of its folders that wait to be listed. Default: 500,000. */
  readonly maxEntries?: number
}

/** File in a listing. */
export interface SourceFile {
  /** Decoded path relative to the address, with `/`, without `.`, `..` and control characters. */
  readonly path: string
  /** Size in bytes; null if unlisted. */
  readonly size: number | null
  readonly etag: string | null
  readonly modifiedAt: Date | null
}

/** Entry of a walk. A pruned folder has not changed since its known ETag, and was not entered. */
export type SourceEntry =
  | { readonly kind: 'file'; readonly file: SourceFile }
  | { readonly kind: 'folder'; readonly path: string; readonly etag: string | null; readonly isPruned: boolean }
  | {
      readonly kind: 'problem'
      readonly path: string
      readonly code: SourceFailureCode
      readonly message: string
      /** The path is for display: no file that was synced before is at or below it. */
      readonly isUnusableName?: true
    }

export interface SourceBody {
  /** Throws SourceFailure CONTENT_MISMATCH at its end if the content differs from its announced size or checksum. */
  readonly bytes: AsyncIterable<Uint8Array>
  readonly etag: string | null
  readonly modifiedAt: Date | null
  /** Closes a body whose bytes nobody has begun to read. */
  discard(): Promise<void>
}

/** Connection to a source for one sync. */
export interface SourceConnection {
  /**
   * Walks all files below the address in any order and in bounded memory. `loadTag` returns the ETag of a folder at its last complete walk, null if
   * there is none. A folder that cannot be listed yields a problem. Throws SourceFailure if the address itself cannot be listed.
   */
  walk(options: { loadTag(path: string): Promise<string | null>; signal: AbortSignal }): AsyncIterable<SourceEntry>
  /** Opens one file. Throws SourceFailure. */
  read(file: SourceFile, signal: AbortSignal): Promise<SourceBody>
  /** Checks name resolution, TLS, credentials and listing up to the first failure, and returns sample paths. Never throws. */
  test(signal: AbortSignal): Promise<{ checks: { name: string; ok: boolean; message: string }[]; sample: string[] }>
  close(): Promise<void>
}

/** Type of source. */
export interface SourceType {
  /** Validates the address without connecting. Throws SourceFailure SOURCE_ADDRESS_INVALID or SOURCE_ADDRESS_FORBIDDEN. */
  open(address: SourceAddress, limits: SourceLimits): SourceConnection
}

/** Reasons of failures of a source or of one of its files. */
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
  SOURCE_NOT_FOUND_THERE: 'The source has nothing at this address.',
  SOURCE_PROTOCOL: 'The source sent an invalid response.',
  SOURCE_BUSY: 'The source is busy and asked to be tried again later.',
  SOURCE_TOO_SLOW: 'The source is slower than sources.min_rate allows.',
  SYNC_LOOKS_DESTRUCTIVE: 'The sync would change or remove more files than sources.max_change_share allows. Nothing was applied.',
  CONTENT_MISMATCH: 'The content differs from the size or checksum that the source announced.',
  FILE_TOO_LARGE: 'The file is larger than sources.max_file_size.',
} as const

export type SourceFailureCode = keyof typeof sourceFailures

export class SourceFailure extends Error {
  readonly code: SourceFailureCode
  /** A retry may succeed. */
  readonly isRetryable: boolean

  constructor(code: SourceFailureCode, message: string = sourceFailures[code], { isRetryable = false } = {}) {
    super(message)
    this.name = 'SourceFailure'
    this.code = code
    this.isRetryable = isRetryable
  }

  /** The failure concerns the whole source. A busy source asks to be retried; a locked file does not. */
  get isSourceWide(): boolean {
    return (
      ['SOURCE_UNREACHABLE', 'SOURCE_UNAUTHORIZED', 'SOURCE_TOO_SLOW'].includes(this.code) ||
      (this.code === 'SOURCE_BUSY' && this.isRetryable)
    )
  }
}
