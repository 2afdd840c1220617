/** Loads rows in COPY text format into one table after another. Skips tables that dms does not have or does not back up. */
import type { PoolClient } from 'pg'
import { from as copyFrom } from 'pg-copy-streams'
import { type Bytes, writeChunk } from '../byte-streams.ts'
import { listTables, quoteIdentifier } from '../create/snapshot.ts'
import { BackupDamaged, type Head } from '../manifest.ts'

/** Writes rows of a backup to the tables of `client`. Ignores tables that this dms does not have. Throws BackupDamaged for an unknown column. */
export function openRowWriter(client: PoolClient) {
  const ignored = new Set<string>()
  const counts = new Map<string, number>()
  let columnsByTable: Map<string, readonly string[]> | null = null
  let copy: TableCopy | null = null
  const end = async () => {
    const ending = copy
    copy = null
    if (!ending) return
    counts.set(ending.name, (await ending.end()) + (counts.get(ending.name) ?? 0))
    // The rest of the restore and the first requests need statistics. PostgreSQL would collect them minutes later.
    await client.query(`analyze ${quoteIdentifier(ending.name)}`)
  }
  const begin = async ({ name, columns }: Head['tables'][number]) => {
    columnsByTable ??= new Map((await listTables(client)).map((table) => [table.name, table.columns]))
    const ownColumns = columnsByTable.get(name)
    if (!ownColumns || columns.length === 0) return void ignored.add(name)
    const unknown = columns.find((column) => !ownColumns.includes(column))
    if (unknown !== undefined) throw new BackupDamaged(`the table ${name} has a column ${unknown}, which this dms does not know`)
    copy = openTableCopy(client, name, columns)
  }
  return {
    ignored,
    /** loaded rows by table */
    counts,
    async put(table: Head['tables'][number], part: Bytes): Promise<void> {
      if (copy?.name !== table.name) {
        await end()
        await begin(table)
      }
      await copy?.put(part)
    },
    end,
    abort: async () => copy?.abort(),
  }
}

type TableCopy = ReturnType<typeof openTableCopy>

/** Starts COPY into the named columns; columns added by later migrations keep their defaults. put() and end() throw the errors of the database. */
export function openTableCopy(client: PoolClient, name: string, columns: readonly string[]) {
  const stream = client.query(copyFrom(`copy ${quoteIdentifier(name)} (${columns.map(quoteIdentifier).join(', ')}) from stdin`))
  const failure = new Promise<never>((_, reject) => {
    stream.on('error', (error) => reject(Object.assign(new Error(`${name}: ${error.message}`), { cause: error })))
  })
  failure.catch(() => {})
  return {
    name,
    async put(bytes: Bytes): Promise<void> {
      for await (const chunk of bytes) await Promise.race([writeChunk(stream, chunk), failure])
    },
    /** Waits until the database has accepted all rows. Returns their number. */
    async end(): Promise<number> {
      await Promise.race([new Promise<void>((resolve) => stream.end(resolve)), failure])
      return stream.rowCount
    },
    /** Aborts the COPY, so that the connection accepts other statements. */
    async abort(): Promise<void> {
      if (stream.destroyed) return
      const closed = new Promise<void>((resolve) => stream.once('close', resolve))
      stream.destroy(new Error('the restore was aborted'))
      await closed
    },
  }
}
