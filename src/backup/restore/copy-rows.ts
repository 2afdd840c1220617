/** Copies rows in COPY text format into a table. */
import type { PoolClient } from 'pg'
import { from as copyFrom } from 'pg-copy-streams'
import { type Bytes, writeChunk } from '../byte-streams.ts'
import { quoteIdentifier } from '../create/snapshot.ts'

export interface TableCopy {
  readonly name: string
  put(bytes: Bytes): Promise<void>
  /** Waits until the database has accepted all rows. Returns their number. */
  end(): Promise<number>
  /** Aborts the COPY, so that the connection accepts other statements. */
  abort(): Promise<void>
}

/** Starts COPY into the named columns; columns added by later migrations keep their defaults. put() and end() throw the errors of the database. */
export function openTableCopy(client: PoolClient, name: string, columns: readonly string[]): TableCopy {
  const stream = client.query(copyFrom(`copy ${quoteIdentifier(name)} (${columns.map(quoteIdentifier).join(', ')}) from stdin`))
  const failure = new Promise<never>((_, reject) => {
    stream.on('error', (error) => reject(Object.assign(new Error(`${name}: ${error.message}`), { cause: error })))
  })
  failure.catch(() => {})
  return {
    name,
    async put(bytes) {
      for await (const chunk of bytes) await Promise.race([writeChunk(stream, chunk), failure])
    },
    async end() {
      await Promise.race([new Promise<void>((resolve) => stream.end(resolve)), failure])
      return stream.rowCount
    },
    async abort() {
      if (stream.destroyed) return
      const closed = new Promise<void>((resolve) => stream.once('close', resolve))
      stream.destroy(new Error('the restore was aborted'))
      await closed
    },
  }
}
