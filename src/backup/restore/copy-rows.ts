/** Rows into a table, as COPY wrote them. */
import type { PoolClient } from 'pg'
import { from as copyFrom } from 'pg-copy-streams'
import { type Bytes, write } from '../bytes.ts'
import { quoted } from '../create/snapshot.ts'

export interface TableCopy {
  readonly name: string
  put(bytes: Bytes): Promise<void>
  /** All rows have come, and the database has taken them; returns how many. */
  end(): Promise<number>
  /** Ends it in the middle, so that the connection takes other statements again. */
  abort(): Promise<void>
}

/** Begins; columns are named, so that a table which has gained some takes the rows all the same. What the database does not like, put() or end() throws. */
export function copyInto(client: PoolClient, name: string, columns: readonly string[]): TableCopy {
  const stream = client.query(copyFrom(`copy ${quoted(name)} (${columns.map(quoted).join(', ')}) from stdin`))
  const failed = new Promise<never>((_, reject) => {
    stream.on('error', (error) => reject(Object.assign(new Error(`${name}: ${error.message}`), { cause: error })))
  })
  failed.catch(() => {})
  return {
    name,
    async put(bytes) {
      for await (const chunk of bytes) await Promise.race([write(stream, chunk), failed])
    },
    async end() {
      await Promise.race([new Promise<void>((resolve) => stream.end(resolve)), failed])
      return stream.rowCount
    },
    async abort() {
      if (stream.destroyed) return
      const closed = new Promise<void>((resolve) => stream.once('close', resolve))
      stream.destroy(new Error('the restore is given up'))
      await closed
    },
  }
}
