/** Interface of document stores. */
import type { Readable } from 'node:stream'

/**
 * Address of a stored file: SHA-256 of its bytes (hex), a dot, and a unique generation. Text in any other form never becomes a path; a
 * constraint of the database enforces it too.
 */
export const addressPattern = /^[0-9a-f]{64}(\.[0-9a-z]{8,32})?$/

/** Returns the SHA-256 (hex) in an address. */
export const sha256Of = (address: string): string => address.slice(0, 64)

/** Staged file: flushed to the file system of the store, but not at its address yet. */
export interface StagedFile {
  readonly sha256: string
  /** Address after commit(). Each upload of the same bytes gets a new address. */
  readonly address: string
  /** bytes */
  readonly size: number
  /** First bytes (at most 4,100), enough to detect the type. */
  readonly head: Uint8Array
  /** Tells if the stored file at `address` has the same bytes. Reads both files up to the first difference. The store of openStores() caches the result. */
  equals(address: string): Promise<boolean>
  /** Moves the file durably to its address. Repeatable. Until confirm(), the file counts as uncommitted. */
  commit(): Promise<void>
  /** Tells that the transaction of commit() was rolled back: confirm() has no effect before another commit(). */
  rollback(): void
  /** Confirms that the database has committed the address. */
  confirm(): Promise<void>
  /** Discards the staged file. Has no effect after confirm(). After commit() alone, the file stays uncommitted. */
  discard(): Promise<void>
}

/**
 * Stores files of documents. Every function with an address throws InvalidAddress unless it matches `addressPattern`. Derived files
 * (thumbnails) are stored by the SHA-256 of their source, an owner and a name.
 */
export interface FileStore {
  /**
   * Stages `source` in constant memory. Throws AppError PAYLOAD_TOO_LARGE beyond `maxSize` bytes. A failure leaves nothing behind.
   * `generation` is part of the address; by default it is random, and '' makes an address of the SHA-256 alone.
   */
  stage(source: AsyncIterable<Uint8Array>, maxSize: number, generation?: string): Promise<StagedFile>
  /** Opens a file, or a range with inclusive offsets. Throws FileMissing. */
  read(address: string, range?: { start: number; end: number }): Promise<Readable>
  /** Returns a local path for programs that need one. It is valid until `release()`, even if the file is removed. Throws FileMissing. */
  openLocal(address: string): Promise<{ path: string; release(): Promise<void> }>
  /** Returns a URL from which anybody can download the file for `seconds`; null without the file, or if the store has no URLs. */
  presign(address: string, seconds: number, headers: { type: string; disposition: string }): Promise<URL | null>
  /** Returns the location of a file for administrators: a local path or a URL. */
  describeLocation(address: string): string
  /** Returns the size in bytes; null for a missing file. */
  size(address: string): Promise<number | null>
  /** Removes a file. Has no effect on a missing one. */
  remove(address: string): Promise<void>
  /**
   * Lists all files in order of address, in bounded memory. Concurrent changes may be included or not. With `onUnreadable`, skips unreadable folders;
   * without it throws. `ageMs`: time since the file was written, by the clock that dated it.
   */
  list(
    onUnreadable?: (location: string) => void,
  ): AsyncIterable<{ readonly address: string; readonly size: number; readonly ageMs: number }>
  /** Moves a file to the quarantine, and returns its new location. Throws FileMissing. */
  quarantine(address: string): Promise<string>
  /** Returns a derived file of an owner; null for a missing one. */
  readDerived(key: DerivedKey, name: string): Promise<Uint8Array | null>
  /** Stores a derived file. Throws AppError SERVICE_UNAVAILABLE if the store is not writable, like stage(). */
  writeDerived(key: DerivedKey, name: string, bytes: Uint8Array): Promise<void>
  /** Removes the derived files of these bytes for all owners. */
  removeDerived(sha256: string): Promise<void>
  /** Lists all derived files, sorted by SHA-256, owner and name. Uses bounded memory. */
  listDerived(): AsyncIterable<DerivedFile>
  /** Lists files whose upload ended between commit() and confirm(). The database may not refer to them. */
  listUncommitted(): Promise<{ readonly address: string; remove(): Promise<void> }[]>
  /** Throws if the store is not writable (not mounted, read-only, full). */
  check(): Promise<void>
  close(): Promise<void>
}

/** Small text files at the root of a store or data folder, which say to which archive it belongs. */
export interface Markers {
  readonly kind: StoreKind
  /** folder or URL, for messages */
  readonly location: string
  /** Returns the text of a marker, '' for a missing one. */
  read(name: string): Promise<string>
  /** Replaces a marker atomically and durably. With `isNew`, may keep an existing one. */
  write(name: string, text: string, options?: { isNew?: boolean }): Promise<void>
  /** Removes a marker. Has no effect on a missing one. */
  remove(name: string): Promise<void>
}

/** Owner and source of derived files. Without the owner, response times would reveal that another user has the same file. */
export interface DerivedKey {
  readonly sha256: string
  /** Id of a user. */
  readonly ownerId: string
}

export interface DerivedFile {
  readonly key: DerivedKey
  readonly name: string
  readonly size: number
}

/** Kinds of document stores, as in `storage.kind`. */
export type StoreKind = 'disk' | 's3'

/** The document stores of an archive: new files go to the primary, and a migration moves files from the other one. */
export interface Stores {
  readonly primary: StoreKind
  /** Opens a store; null if the archive has none of this kind. Throws AppError STORAGE_UNAVAILABLE. */
  open(kind: StoreKind): Promise<FileStore | null>
  /** Opens a store for a migration to it, and creates it if necessary. Throws AppError STORAGE_UNAVAILABLE, ConfigError. */
  create(kind: StoreKind): Promise<FileStore>
  /** Records that a store has no files any more. It need not be available then. */
  retire(kind: StoreKind): Promise<void>
  /** Returns the location of a store for administrators: a folder or a URL; null if it is not configured. */
  locate(kind: StoreKind): string | null
}

/** The store has no file at an address. */
export class FileMissing extends Error {
  constructor(address: string) {
    super(`no stored file ${address}`)
    this.name = 'FileMissing'
  }
}

/** Returns null for FileMissing. Throws other errors. */
export function nullIfNotStored(error: unknown): null {
  if (!(error instanceof FileMissing)) throw error
  return null
}

/** Text is not the address of a stored file. */
export class InvalidAddress extends Error {
  constructor(address: string) {
    super(`${JSON.stringify(address.slice(0, 200))} is no address of a stored file`)
    this.name = 'InvalidAddress'
  }
}
