/** Bytes on their way through: hashed, gathered, cut. */
import { createHash } from 'node:crypto'
import type { Writable } from 'node:stream'
import { BackupDamaged } from './manifest.ts'

export type Bytes = AsyncIterable<Uint8Array> | Iterable<Uint8Array>

/** Hands the chunks on and knows their hash once they have passed. */
export function hashed(source: Bytes): { bytes: AsyncIterable<Uint8Array>; digest(): string; size(): number } {
  const hash = createHash('sha256')
  let size = 0
  async function* pass() {
    for await (const chunk of source) {
      hash.update(chunk)
      size += chunk.length
      yield chunk
    }
  }
  let digest: string | null = null
  return {
    bytes: pass(),
    size: () => size,
    digest: () => {
      digest ??= hash.digest('hex')
      return digest
    },
  }
}

/** Hands the chunks on and tells `passed` how long each is. */
export async function* counted(source: Bytes, passed: (bytes: number) => void): AsyncGenerator<Uint8Array> {
  for await (const chunk of source) {
    passed(chunk.length)
    yield chunk
  }
}

/** All of it, in memory. Throws BackupDamaged past `max` bytes; `name` is for people. */
export async function gathered(source: Bytes, max = Number.POSITIVE_INFINITY, name = ''): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of source) {
    length += chunk.length
    if (length > max) throw new BackupDamaged(`${name} has more than ${max} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** The same bytes in pieces of at least `size`, but for the last. */
export async function* pieces(source: Bytes, size: number): AsyncGenerator<Buffer> {
  let chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of source) {
    chunks.push(chunk)
    length += chunk.length
    if (length < size) continue
    yield Buffer.concat(chunks)
    chunks = []
    length = 0
  }
  if (length > 0) yield Buffer.concat(chunks)
}

/** The same bytes by as many as `room` holds, but for the last. Each piece lies in `room`, where the next one takes its place. */
export async function* fillings(source: Bytes, room: Buffer): AsyncGenerator<Buffer> {
  let length = 0
  for await (const chunk of source) {
    for (let at = 0; at < chunk.length; ) {
      const part = chunk.subarray(at, at + room.length - length)
      room.set(part, length)
      length += part.length
      at += part.length
      if (length < room.length) continue
      yield room
      length = 0
    }
  }
  if (length > 0) yield room.subarray(0, length)
}

/** Characters of a line of SHA256SUMS, and some more. */
const maxLine = 1000

/** The lines of a list of checksums, without their ends. Throws BackupDamaged for a line that is too long for one. */
export async function* lines(source: Bytes): AsyncGenerator<string> {
  let rest = ''
  const decoder = new TextDecoder()
  for await (const chunk of source) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n')
    rest = parts.pop() ?? ''
    if (rest.length > maxLine) throw new BackupDamaged('its list of checksums is no text of short lines')
    yield* parts
  }
  if (rest !== '') yield rest
}

/** Writes a chunk and waits until the stream wants another. */
export const write = (stream: Writable, chunk: Uint8Array): Promise<void> =>
  new Promise((resolve, reject) => {
    stream.write(chunk, (error) => (error ? reject(error) : resolve()))
  })

/** Reads what is left of it, for nothing. */
export async function skip(source: Bytes): Promise<void> {
  for await (const _ of source);
}
