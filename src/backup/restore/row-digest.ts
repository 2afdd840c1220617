/** A digest of the rows of a table that does not depend on their order: PostgreSQL gives them back in any. */
import { createHash } from 'node:crypto'
import type { Bytes } from '../bytes.ts'

export interface RowDigest {
  rows: number
  /** sum of the first 64 bits of the SHA-256 of each row, modulo 2^64 */
  sum: bigint
}

const newline = 10

/** Adds the rows of `COPY` text to digests, by table; what it hands on are the same bytes. */
export function openRowDigests() {
  const digests = new Map<string, RowDigest>()
  /** the beginning of a row that goes on in the next piece, by table */
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
    // Line ends inside of a value are escaped in this format.
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
