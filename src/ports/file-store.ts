/** What we ask of a place for documents' bytes. */
import type { Readable } from 'node:stream'

/**
 * Address of a stored file: the SHA-256 of its bytes (hex), a dot, and a generation that no other file ever gets. Files that were stored before
 * there were generations have the SHA-256 alone. No other text ever becomes a path; the database holds the same rule as a constraint.
 */
export const addressPattern = /^[0-9a-f]{64}(\.[0-9a-z]{8,32})?$/

/** The SHA-256 (hex) of the bytes that an address is of. */
export const sha256Of = (address: string): string => address.slice(0, 64)

/** Bytes on their way in: already on the store's own file system, flushed, but without a name yet. */
export interface StagedFile {
  readonly sha256: string
  /** Where commit() puts the bytes. One transaction may refer to it; another upload of the same bytes has another one. */
  readonly address: string
  /** bytes */
  readonly size: number
  /** The first bytes (at most 4,100), enough to tell the type. */
  readonly head: Uint8Array
  /** Whether the stored file at `address` has exactly these bytes. Reads both to the first difference; the answer is remembered. */
  equals(address: string): Promise<boolean>
  /** Gives the bytes their name, durably. Harmless when they already have it. Until keep() they count as unsettled. */
  commit(): Promise<void>
  /** The database knows of them, durably. */
  confirm(): Promise<void>
  /** Forgets them. Harmless after keep(); after commit() alone they stay unsettled. */
  discard(): Promise<void>
}

/**
 * Where document bytes live. Every verb that takes an address throws InvalidAddress where it does not match `addressPattern`. Derived files
 * (thumbnails) live beside them, by the SHA-256 of what they were made of, an owner and a name.
 */
export interface FileStore {
  /**
   * Reads `source` to its end in constant memory; throws AppError PAYLOAD_TOO_LARGE past `maxSize` bytes, and leaves nothing behind on any failure.
   * `generation`: of the address, default a random one.
   */
  stage(source: AsyncIterable<Uint8Array>, maxSize: number, generation?: string): Promise<StagedFile>
  /** Opens the bytes; `start` and `end` are inclusive offsets. Throws FileMissing. */
  read(address: string, range?: { start: number; end: number }): Promise<Readable>
  /** A local path that holds the bytes until `release()`, even where they are removed meanwhile, for programs that need one. Throws FileMissing. */
  openLocal(address: string): Promise<{ path: string; release(): Promise<void> }>
  /** Where an administrator finds the bytes, or should: a path of this machine, or an address. */
  describeLocation(address: string): string
  /** Size in bytes, or null where there is no such file. */
  size(address: string): Promise<number | null>
  /** Removes the bytes. Harmless where there are none. */
  remove(address: string): Promise<void>
  /** All that is stored, in ascending order of addresses, with bounded memory. What comes or goes meanwhile may be told of or not. */
  list(): AsyncIterable<{ readonly address: string; readonly size: number; readonly modifiedAt: Date }>
  /** Takes the bytes away from their address, and keeps them where an administrator finds them: the answer says where. Throws FileMissing. */
  quarantine(address: string): Promise<string>
  /** What was made of a file for one owner before; null where there is nothing. */
  readDerived(key: DerivedKey, name: string): Promise<Uint8Array | null>
  /** Throws AppError SERVICE_UNAVAILABLE where the store cannot take bytes now, as stage() does. */
  writeDerived(key: DerivedKey, name: string, bytes: Uint8Array): Promise<void>
  /** Removes what was made of these bytes, for all owners. */
  removeDerived(sha256: string): Promise<void>
  /** Bytes that got their name, but whose uploader failed or died before keep(): perhaps nothing refers to them. */
  listUncommitted(): Promise<{ readonly address: string; remove(): Promise<void> }[]>
  /** Throws where the store cannot take bytes now (not mounted, read-only, full). */
  check(): Promise<void>
  close(): Promise<void>
}

/** Whose derived files: how fast one is answered must not tell whether somebody else has the same bytes. */
export interface DerivedKey {
  readonly sha256: string
  /** id of a user */
  readonly ownerId: string
}

/** The store has no bytes under that address. */
export class FileMissing extends Error {
  constructor(address: string) {
    super(`no stored file ${address}`)
    this.name = 'FileMissing'
  }
}

/** A text that is no address: it is never made a path. */
export class InvalidAddress extends Error {
  constructor(address: string) {
    super(`${JSON.stringify(address.slice(0, 200))} is no address of a stored file`)
    this.name = 'InvalidAddress'
  }
}
