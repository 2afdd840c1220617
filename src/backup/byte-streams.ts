/** Hashes, splits and collects streams of bytes. */
import { createHash } from 'node:crypto'
import type { Writable } from 'node:stream'
import { readTextLines } from '../text-lines.ts'
import { BackupDamaged } from './manifest.ts'

export type Bytes = AsyncIterable<Uint8Array> | Iterable<Uint8Array>

/** Passes the chunks on. Call `digest` (SHA-256, hex) after the last chunk. */
export function teeHash(source: Bytes): { bytes: AsyncIterable<Uint8Array>; digest(): string } {
  const hash = createHash('sha256')
  async function* pass() {
    for await (const chunk of source) {
      hash.update(chunk)
      yield chunk
    }
  }
  let digest: string | null = null
  return {
    bytes: pass(),
    digest: () => {
      digest ??= hash.digest('hex')
      return digest
    },
  }
}

/** Passes the chunks on and reports the size of each. */
export async function* tapSizes(source: Bytes, passed: (bytes: number) => void): AsyncGenerator<Uint8Array> {
  for await (const chunk of source) {
    passed(chunk.length)
    yield chunk
  }
}

/** Reads the whole stream into memory. Throws BackupDamaged past `max` bytes; `name` is part of the message. */
export async function readAll(source: Bytes, max = Number.POSITIVE_INFINITY, name = ''): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  let length = 0
  for await (const chunk of source) {
    length += chunk.length
    if (length > max) throw new BackupDamaged(`${name} has more than ${max} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** Concatenates small chunks: each but the last has at least `size` bytes. */
export async function* coalesceChunks(source: Bytes, size: number): AsyncGenerator<Buffer> {
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

/**
 * Splits the stream into chunks of exactly `buffer.length` bytes; the last chunk may be shorter. Every chunk is a view of `buffer`, and the next
 * chunk overwrites it.
 */
export async function* fillBuffer(source: Bytes, buffer: Buffer): AsyncGenerator<Buffer> {
  let length = 0
  for await (const chunk of source) {
    for (let at = 0; at < chunk.length; ) {
      const part = chunk.subarray(at, at + buffer.length - length)
      buffer.set(part, length)
      length += part.length
      at += part.length
      if (length < buffer.length) continue
      yield buffer
      length = 0
    }
  }
  if (length > 0) yield buffer.subarray(0, length)
}

/** Upper limit for a line of SHA256SUMS. */
const maxLineLength = 1000

/** Yields the lines of a checksum list without line ends. Throws BackupDamaged for an overlong line. */
export const readLines = (source: Bytes): AsyncGenerator<string> =>
  readTextLines(source, maxLineLength, () => new BackupDamaged('its checksum list is not a text of short lines'))

/** Writes a chunk and waits until the stream accepts more. */
export const writeChunk = (stream: Writable, chunk: Uint8Array): Promise<void> =>
  new Promise((resolve, reject) => {
    stream.write(chunk, (error) => (error ? reject(error) : resolve()))
  })

/** Reads the stream to its end and discards the bytes. */
export async function drain(source: Bytes): Promise<void> {
  for await (const _ of source);
}
