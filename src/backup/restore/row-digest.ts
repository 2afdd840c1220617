/** Computes a digest of the rows of a table, independent of their order. */
import { createHash } from 'node:crypto'
import type { Bytes } from '../byte-streams.ts'

export interface RowDigest {
  rows: number
  /** sum of the first 64 bits of the SHA-256 of each row, modulo 2^64 */
  sum: bigint
}

const newline = 10

/** Adds rows in COPY text format to the digest of their table and passes the bytes on. */
export function createRowDigests() {
  const digests = new Map<string, RowDigest>()
  /** incomplete last row of the previous chunk, by table */
  const rests = new Map<string, Buffer>()
  const addRow = (digest: RowDigest, row: Uint8Array) => {
    digest.rows++
    digest.sum = BigInt.asUintN(64, digest.sum + createHash('sha256').update(row).digest().readBigUInt64BE())
  }
  const add = (table: string, chunk: Uint8Array) => {
    const digest = digests.get(table) ?? { rows: 0, sum: 0n }
    digests.set(table, digest)
    const rest = rests.get(table)
    const bytes = rest ? Buffer.concat([rest, chunk]) : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
    let from = 0
    // COPY text format escapes line ends within values.
    for (let to = bytes.indexOf(newline); to >= 0; to = bytes.indexOf(newline, from)) {
      addRow(digest, bytes.subarray(from, to))
      from = to + 1
    }
    rests.set(table, Buffer.from(bytes.subarray(from)))
  }
  return {
    digests,
    async *pass(table: string, source: Bytes): AsyncGenerator<Uint8Array> {
      for await (const chunk of source) {
        add(table, chunk)
        yield chunk
      }
    },
  }
}
