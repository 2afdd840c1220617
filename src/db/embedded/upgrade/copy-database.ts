/** Copies the database of dms into a new cluster of another major version, and compares both. */
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Client, escapeIdentifier } from 'pg'
import { from as copyFrom, to as copyTo } from 'pg-copy-streams'
import { AppError } from '../../../errors.ts'
import type { Log } from '../../../log/log.ts'
import { applyMigration, listMigrations, NewerSchema } from '../../migrate.ts'
import { openDatabase } from '../../pool.ts'
import { openOwnedDatabase } from '../../schema-owner.ts'
import type { EmbeddedAddress, EmbeddedPostgres } from '../embedded.ts'
import { database, ownerRole } from '../roles.ts'
import {
  checksumTable,
  describeObjects,
  findDifferences,
  listIndexes,
  listSequences,
  listTables,
  type Table,
  tableStatements,
} from './catalog.ts'
import { grantStatements, listForeignSettings, roleStatements } from './roles.ts'

export interface CopyOptions {
  log: Log
  signal: AbortSignal
  onTable(phase: 'rows' | 'comparing', state: { done: number; total: number; bytes: number; table: string }): void
}

export interface CopyResult {
  tables: number
  rows: number
  /** settings of an administrator that the new cluster does not have */
  foreignSettings: string[]
}

/**
 * Copies everything from one cluster to the other, whose database is empty. Throws NewerSchema, and AppError CONFLICT for objects that dms
 * cannot copy or a copy that differs.
 */
export async function copyDatabase(source: EmbeddedPostgres, target: EmbeddedPostgres, options: CopyOptions): Promise<CopyResult> {
  const from = await connect(source.superuserConnection)
  const to = await connect(target.superuserConnection)
  const abort = () => void Promise.all([from.end(), to.end()]).catch(() => undefined)
  options.signal.addEventListener('abort', abort, { once: true })
  try {
    await rejectOtherDatabases(from)
    await from.query('begin isolation level repeatable read read only')
    const tables = await listTables(from)
    for (const statement of await roleStatements(from)) await to.query(statement)
    await createSchema(from, target, options.log)
    await createTables(from, to, tables)
    // Before the rows, which may take long.
    await compareObjects(from, to)
    const rows = await copyRows(from, to, tables, options)
    for (const statement of await grantStatements(from)) await to.query(statement)
    await grantRights(target, options.log)
    await compare(from, to, tables, options)
    await to.query('vacuum (analyze)')
    return { tables: tables.length, rows, foreignSettings: await listForeignSettings(from, to) }
  } finally {
    options.signal.removeEventListener('abort', abort)
    await Promise.all([from.end(), to.end()]).catch(() => undefined)
  }
}

/** Connects to the database. The application may create functions in its schema: none of them is found by name. */
async function connect(address: EmbeddedAddress): Promise<Client> {
  const settings = 'search_path=pg_catalog timezone=UTC datestyle=ISO,YMD intervalstyle=postgres extra_float_digits=1 bytea_output=hex'
  const options = `${settings
    .split(' ')
    .map((setting) => `-c ${setting}`)
    .join(' ')} -c synchronize_seqscans=off`
  const client = new Client({ ...address, ssl: false, database, application_name: 'dms database upgrade', options })
  client.on('error', () => undefined)
  await client.connect()
  return client
}

async function rejectOtherDatabases(client: Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select datname as name from pg_database where datname not in ('postgres', 'template0', 'template1', $1) order by 1`,
    [database],
  )
  if (rows.length > 0) throw notCopiedError(rows.map(({ name }) => `database ${name}`))
}

/** Creates the schema of the source by its migrations. */
async function createSchema(from: Client, target: EmbeddedPostgres, log: Log): Promise<void> {
  const { rows } = await from.query<{ exists: boolean }>(`select to_regclass('public.migrations') is not null as exists`)
  const applied = rows[0]?.exists ? (await from.query<{ name: string }>('select name from public.migrations order by name')).rows : []
  const known = await listMigrations()
  const unknown = applied.filter(({ name }) => !known.includes(name))
  if (unknown.length > 0) throw new NewerSchema(unknown.map(({ name }) => name))
  await withOwnedDatabase(target, log, async (owned) => {
    await owned.asOwner(async ({ db }) => {
      for (const { name } of applied) await db.transaction().execute((trx) => applyMigration(trx, name))
    })
  })
}

/** Opening the database grants the application its rights. */
const grantRights = (target: EmbeddedPostgres, log: Log): Promise<void> => withOwnedDatabase(target, log, async () => undefined)

async function withOwnedDatabase(
  { connection, ownerConnection }: EmbeddedPostgres,
  log: Log,
  work: (owned: Awaited<ReturnType<typeof openOwnedDatabase>>) => Promise<void>,
): Promise<void> {
  const settings = { poolMax: 2, connectTimeoutMs: 60_000, statementTimeoutMs: 0, log }
  const opened = openDatabase({ ...settings, address: connection })
  try {
    await work(await openOwnedDatabase(opened, { ...settings, address: ownerConnection }))
  } finally {
    await opened.close()
  }
}

/** Creates the tables that no migration creates, such as segments of the search index, and drops those that the source does not have. */
async function createTables(from: Client, to: Client, tables: readonly Table[]): Promise<void> {
  const statements = await tableStatements(from)
  const present = new Set((await listTables(to)).map(({ name }) => name))
  const names = new Set(tables.map(({ name }) => name))
  await asOwner(to, async () => {
    for (const name of present) if (!names.has(name)) await to.query(`drop table public.${escapeIdentifier(name)}`)
    for (const { name, owner } of tables) {
      if (present.has(name)) continue
      for (const statement of statements.get(name) ?? []) await to.query(statement)
      await to.query(`alter table public.${escapeIdentifier(name)} owner to ${owner}`)
    }
    const indexed = new Set((await listIndexes(to)).map(({ name }) => name))
    for (const { name, statement } of await listIndexes(from)) if (!indexed.has(name)) await to.query(statement)
  })
}

/** Runs `work` with the rights of the tables' owner, who may not start programs or read files. Triggers and foreign keys do not apply. */
async function asOwner(to: Client, work: () => Promise<void>): Promise<void> {
  await to.query('begin')
  await to.query(`set local session_replication_role = replica; set local role ${ownerRole}`)
  await work()
  await to.query('commit')
}

/** Copies all rows in one transaction. Indexes are created at its end. Returns the number of rows. */
async function copyRows(from: Client, to: Client, tables: readonly Table[], { onTable, signal }: CopyOptions): Promise<number> {
  let [rows, bytes] = [0, 0]
  await asOwner(to, async () => {
    for (const { name } of await listIndexes(to)) await to.query(`drop index public.${escapeIdentifier(name)}`)
    // Truncated in this transaction, tables need no WAL.
    if (tables.length > 0) await to.query(`truncate ${tables.map(({ name }) => `public.${escapeIdentifier(name)}`).join(', ')}`)
    for (const [done, table] of tables.entries()) {
      const report = () => onTable('rows', { done, total: tables.length, bytes, table: table.name })
      report()
      if (table.columns.length === 0) throw notCopiedError([`table ${table.name}, which has no columns`])
      const columns = `public.${escapeIdentifier(table.name)} (${table.columns.map(escapeIdentifier).join(', ')})`
      const counter = new Transform({
        transform(chunk: Buffer, _, next) {
          bytes += chunk.length
          report()
          next(null, chunk)
        },
      })
      const input = to.query(copyFrom(`copy ${columns} from stdin (format binary, freeze)`))
      await pipeline(from.query(copyTo(`copy ${columns} to stdout (format binary)`)), counter, input, { signal })
      rows += input.rowCount
    }
    for (const { name, value, isCalled } of await listSequences(from)) await to.query('select setval($1, $2, $3)', [name, value, isCalled])
    for (const { statement } of await listIndexes(from)) await to.query(statement)
  })
  return rows
}

async function compareObjects(from: Client, to: Client): Promise<void> {
  const differences = findDifferences(await describeObjects(from), await describeObjects(to))
  if (differences.length > 0) throw notCopiedError(differences)
}

/** Throws AppError CONFLICT unless both databases have the same objects and rows. */
async function compare(from: Client, to: Client, tables: readonly Table[], { onTable }: CopyOptions): Promise<void> {
  await compareObjects(from, to)
  let bytes = 0
  for (const [done, table] of tables.entries()) {
    onTable('comparing', { done, total: tables.length, bytes, table: table.name })
    const [old, copy] = await Promise.all([from, to].map((client) => checksumTable(client, table, escapeIdentifier)))
    if (old !== copy)
      throw new AppError('CONFLICT', { table: table.name }, `the copy of the table ${table.name} has ${copy} instead of ${old}`)
    bytes += table.bytes
  }
  const [old, copy] = [await listSequences(from), await listSequences(to)].map((sequences) => JSON.stringify(sequences.toSorted(byName)))
  if (old !== copy) throw new AppError('CONFLICT', {}, 'the copies of the sequences differ')
}

const byName = (one: { name: string }, two: { name: string }): number => (one.name < two.name ? -1 : 1)

function notCopiedError(names: readonly string[]): AppError {
  const listed = names.length > 10 ? [...names.slice(0, 10), `and ${names.length - 10} more`] : names
  return Object.assign(
    new AppError('CONFLICT', { objects: names }, `the database has objects that dms cannot copy: ${listed.join(', ')}`),
    {
      fix: 'remove them from the old database with the dms and the PostgreSQL that it was used with, or move by dms backup and dms restore',
    },
  )
}
