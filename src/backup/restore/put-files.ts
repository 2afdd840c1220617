/** Files into a store: small ones several at once, for each waits until it is on the disk. */
import type { FileStore } from '../../ports/file-store.ts'
import { type Bytes, gathered } from '../bytes.ts'

/** Bytes of a file that is held in memory while it is stored. */
const small = 1 << 20
const width = 8

/**
 * `put` returns the size; a file that is not what its SHA-256 says is not stored. What failed meanwhile is thrown by the next put() or by end().
 * `generation`: of all addresses.
 */
export function putFiles(store: FileStore, generation: string, signal: AbortSignal) {
  const under = new Set<Promise<void>>()
  let failure: { error: unknown } | null = null

  const keep = async (sha256: string, bytes: Bytes): Promise<void> => {
    const staged = await store.stage(
      (async function* () {
        yield* bytes
      })(),
      Number.MAX_SAFE_INTEGER,
      generation,
    )
    if (staged.sha256 !== sha256) return staged.discard()
    await staged.commit()
    await staged.keep()
  }
  const begin = (sha256: string, bytes: Bytes) => {
    const done: Promise<void> = keep(sha256, bytes)
      .catch((error) => {
        failure ??= { error }
      })
      .finally(() => under.delete(done))
    under.add(done)
  }
  const check = () => {
    if (failure) throw failure.error
  }

  return {
    async put(sha256: string, bytes: Bytes): Promise<number> {
      signal.throwIfAborted()
      check()
      const { first, rest, size } = await headOf(bytes)
      if (rest === null) {
        while (under.size >= width) await Promise.race(under)
        begin(sha256, [first])
        return first.length
      }
      await keep(sha256, rest)
      return size()
    },
    async end(): Promise<void> {
      await Promise.all(under)
      check()
    },
    /** Waits for what is under way, however it ends. */
    async settle(): Promise<void> {
      await Promise.all(under)
    },
  }
}

/** Removes the files with addresses of this generation, and no others. */
export async function removeWritten(store: FileStore, generation: string): Promise<void> {
  for await (const { address } of store.list()) if (address.endsWith(`.${generation}`)) await store.remove(address)
}

/** A small file whole; of a larger one all its bytes as a stream, and how many they were. */
async function headOf(bytes: Bytes) {
  const chunks: Uint8Array[] = []
  let length = 0
  const source = (Symbol.asyncIterator in bytes ? bytes[Symbol.asyncIterator]() : bytes[Symbol.iterator]()) as AsyncIterator<Uint8Array>
  for (let next = await source.next(); ; next = await source.next()) {
    if (next.done) return { first: await gathered(chunks), rest: null, size: () => length }
    chunks.push(next.value)
    length += next.value.length
    if (length > small) break
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
