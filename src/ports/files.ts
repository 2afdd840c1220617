/** What we ask of a place for documents' bytes. */
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
  /** Where an administrator finds the bytes, or should: a path of this machine, or an address. */
  place(sha256: string): string
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
