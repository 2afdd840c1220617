/** Copies the rows of all tables with their indexes, and compares both sides. */
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Client, escapeIdentifier } from 'pg'
import { from as copyFrom, to as copyTo } from 'pg-copy-streams'
import { AppError } from '../../../errors.ts'
import { ownerRole } from '../roles.ts'
import { checksumTable, listIndexes, listPartitioned, type Table } from './catalog.ts'
import type { Pairs } from './connection-pairs.ts'

export interface ProgressOptions {
  signal: AbortSignal
  /** `done` and `total` count tables. */
  onTable(phase: 'rows' | 'comparing', state: { done: number; total: number; bytes: number; table: string }): void
}

/**
 * Copies all rows, then builds the indexes. Returns the number of rows. Each table has its own transaction. Tables with foreign keys share one,
 * because PostgreSQL truncates such tables only together.
 */
export async function copyTables(pairs: Pairs, tables: readonly Table[], { onTable, signal }: ProgressOptions): Promise<number> {
  const oldIndexes = await listIndexes(pairs.first.from)
  const newIndexes = await listIndexes(pairs.first.to)
  let done = 0
  let rows = 0
  let bytes = 0
  const report = (table: string) => onTable('rows', { done, total: tables.length, bytes, table })
  const groups = Map.groupBy(tables, ({ name, hasForeignKeys }) => (hasForeignKeys ? null : name)).values()
  await pairs.forEach(groups, async ({ from, to }, group) => {
    const names = new Set(group.map(({ name }) => name))
    await asOwner(to, async () => {
      for (const { name, table } of newIndexes) if (names.has(table)) await to.query(`drop index public.${escapeIdentifier(name)}`)
      // Truncated in this transaction, tables need no WAL.
      const partitioned = group.some(({ hasForeignKeys }) => hasForeignKeys) ? await listPartitioned(to) : []
      const truncated = [...names, ...partitioned.map(({ name }) => name)]
      await to.query(`truncate ${truncated.map((name) => `public.${escapeIdentifier(name)}`).join(', ')}`)
      for (const { name, columns } of group) {
        report(name)
        const counter = new Transform({
          transform(chunk: Buffer, _, next) {
            bytes += chunk.length
            report(name)
            next(null, chunk)
          },
        })
        const target = `public.${escapeIdentifier(name)} (${columns.map(escapeIdentifier).join(', ')})`
        const input = to.query(copyFrom(`copy ${target} from stdin (format binary, freeze)`))
        await pipeline(from.query(copyTo(`copy ${target} to stdout (format binary)`)), counter, input, { signal })
        rows += input.rowCount
        done++
      }
      for (const { table, statement } of oldIndexes) if (names.has(table)) await to.query(statement)
    })
  })
  return rows
}

/** Compares row counts and checksums of all tables. Throws AppError CONFLICT for a difference. */
export async function compareTables(pairs: Pairs, tables: readonly Table[], { onTable }: ProgressOptions): Promise<void> {
  let [done, bytes] = [0, 0]
  await pairs.forEach(tables, async ({ from, to }, table) => {
    onTable('comparing', { done, total: tables.length, bytes, table: table.name })
    const [old, copy] = await Promise.all([from, to].map((client) => checksumTable(client, table, escapeIdentifier)))
    if (old !== copy)
      throw new AppError('CONFLICT', { table: table.name }, `the copy of the table ${table.name} has ${copy} instead of ${old}`)
    await to.query(`vacuum (analyze) public.${escapeIdentifier(table.name)}`)
    done++
    bytes += table.bytes
  })
}

/** Runs `work` with the rights of the tables' owner, who may not start programs or read files. Triggers and foreign keys do not apply. */
export async function asOwner(to: Client, work: () => Promise<void>): Promise<void> {
  await to.query('begin')
  await to.query(`set local session_replication_role = replica; set local role ${ownerRole}`)
  await work()
  await to.query('commit')
}
