/** Loads rows into one table after another. Skips tables that dms does not have or does not back up. */
import type { PoolClient } from 'pg'
import type { Bytes } from '../byte-streams.ts'
import { listTables } from '../create/snapshot.ts'
import { BackupDamaged, type Head } from '../manifest.ts'
import { openTableCopy, type TableCopy } from './copy-rows.ts'

export function openRowWriter(client: PoolClient) {
  const ignored = new Set<string>()
  const counts = new Map<string, number>()
  let columnsOf: Map<string, readonly string[]> | null = null
  let copying: TableCopy | null = null
  const end = async () => {
    const ending = copying
    copying = null
    if (ending) counts.set(ending.name, (await ending.end()) + (counts.get(ending.name) ?? 0))
  }
  const begin = async ({ name, columns }: Head['tables'][number]) => {
    columnsOf ??= new Map((await listTables(client)).map((table) => [table.name, table.columns]))
    const known = columnsOf.get(name)
    if (!known || columns.length === 0) return void ignored.add(name)
    const unknown = columns.find((column) => !known.includes(column))
    if (unknown !== undefined) throw new BackupDamaged(`the table ${name} has a column ${unknown}, which this dms does not know`)
    copying = openTableCopy(client, name, columns)
  }
  return {
    ignored,
    /** loaded rows by table */
    counts,
    async put(table: Head['tables'][number], part: Bytes): Promise<void> {
      if (copying?.name !== table.name) {
        await end()
        await begin(table)
      }
      await copying?.put(part)
    },
    end,
    abort: async () => copying?.abort(),
  }
}
