/** Writes restored files into a document store, and keys into the data directory. Small files are written concurrently: each waits for an fsync. */
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { createSecretFile } from '../../config/secret-file.ts'
import type { FileStore, StagedFile } from '../../ports/file-store.ts'
import { type Bytes, readAll } from '../byte-streams.ts'
import { secretNames } from '../create/create-backup.ts'

/** Files up to this size are held in memory while they are stored. */
const smallFileBytes = 1 << 20
const concurrency = 8

/**
 * `put` returns the size. A file that does not match its SHA-256 is not stored, unless its bytes are those of another file. Errors of concurrent writes
 * are thrown by the next put() or by end(). `generation` becomes part of every address.
 */
export function openFileWriter(store: FileStore, generation: string, signal: AbortSignal) {
  const running = new Set<Promise<void>>()
  /** files that do not match their SHA-256 */
  const mismatched: StagedFile[] = []
  let failure: { error: unknown } | null = null

  const storeFile = async (sha256: string, bytes: Bytes): Promise<void> => {
    const staged = await store.stage(
      (async function* () {
        yield* bytes
      })(),
      Number.MAX_SAFE_INTEGER,
      generation,
    )
    if (staged.sha256 !== sha256) return void mismatched.push(staged)
    await staged.commit()
    await staged.confirm()
  }
  const begin = (sha256: string, bytes: Bytes) => {
    const done: Promise<void> = storeFile(sha256, bytes)
      .catch((error) => {
        failure ??= { error }
      })
      .finally(() => running.delete(done))
    running.add(done)
  }
  const check = () => {
    if (failure) throw failure.error
  }

  return {
    async put(sha256: string, bytes: Bytes): Promise<number> {
      signal.throwIfAborted()
      check()
      const { first, rest, size } = await readSmallFile(bytes)
      if (rest === null) {
        while (running.size >= concurrency) await Promise.race(running)
        begin(sha256, [first])
        return first.length
      }
      await storeFile(sha256, rest)
      return size()
    },
    /** Waits for all writes. `hasRow`: whether the backup has a file with this SHA-256. */
    async end(hasRow: (sha256: string) => Promise<boolean>): Promise<void> {
      await Promise.all(running)
      check()
      for (const staged of mismatched.splice(0)) {
        // In S3, equal bytes have one address: discard() would remove the file that has them.
        if (await hasRow(staged.sha256)) await staged.commit()
        await staged.discard()
      }
    },
    /** Waits for running writes and ignores their errors. The caller removes the files. */
    async abort(): Promise<void> {
      await Promise.all(running)
      for (const staged of mismatched.splice(0)) await staged.discard().catch(() => {})
    },
  }
}

/** Removes the files whose addresses have this generation. */
export async function removeGeneration(store: FileStore, generation: string): Promise<void> {
  for await (const { address } of store.list()) if (address.endsWith(`.${generation}`)) await store.remove(address)
}

/** Reads a small file into memory. For a larger file returns a stream of all bytes instead; `size` is valid after its end. */
async function readSmallFile(bytes: Bytes) {
  const chunks: Uint8Array[] = []
  let length = 0
  const source = (Symbol.asyncIterator in bytes ? bytes[Symbol.asyncIterator]() : bytes[Symbol.iterator]()) as AsyncIterator<Uint8Array>
  for (let next = await source.next(); ; next = await source.next()) {
    if (next.done) return { first: await readAll(chunks), rest: null, size: () => length }
    chunks.push(next.value)
    length += next.value.length
    if (length > smallFileBytes) break
  }
  async function* rest() {
    yield* chunks.splice(0)
    for (let next = await source.next(); !next.done; next = await source.next()) {
      length += next.value.length
      yield next.value
    }
  }
  return { first: Buffer.alloc(0), rest: rest(), size: () => length }
}

/** Restores the keys that dms generated in the data directory. */
export function createSecretWriter(dataDir: string) {
  const secrets = new Map<string, Buffer>()
  const written: string[] = []
  return {
    add(name: string, secret: Buffer) {
      if (secretNames.some((secretName) => secretName === name)) secrets.set(name, secret)
    },
    /** `path`: of the entry in the backup */
    discard: (path: string) => void secrets.delete(path.slice(path.lastIndexOf('/') + 1)),
    /** Writes keys that do not exist yet. Returns the names of existing keys with other contents, which stay. */
    async write(): Promise<string[]> {
      const existing: string[] = []
      for (const [name, secret] of secrets) {
        const path = join(dataDir, name)
        if (await createSecretFile(path, secret)) written.push(path)
        else if (!(await readFile(path)).equals(secret)) existing.push(name)
      }
      return existing
    },
    /** Removes the keys that write() created. */
    async remove(): Promise<void> {
      for (const path of written.splice(0)) await rm(path, { force: true })
    },
  }
}
