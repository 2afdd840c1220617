/** Copies the database of dms into a new cluster of another major version, and compares both. */
import { type Client, escapeIdentifier } from 'pg'
import { AppError } from '../../../errors.ts'
import type { Log } from '../../../log/log.ts'
import { applyMigration, listMigrations, NewerSchema } from '../../migrate.ts'
import { openDatabase } from '../../pool.ts'
import { openOwnedDatabase } from '../../schema-owner.ts'
import type { EmbeddedPostgres } from '../embedded.ts'
import { database } from '../roles.ts'
import {
  describeObjects,
  findDifferences,
  listIndexes,
  listOptions,
  listSequences,
  listTables,
  type Table,
  tableStatements,
} from './catalog.ts'
import { openPairs } from './connection-pairs.ts'
import { asOwner, compareTables, copyTables, type ProgressOptions } from './copy-tables.ts'
import { grantStatements, listForeignSettings, roleStatements } from './roles.ts'

export interface CopyOptions extends ProgressOptions {
  log: Log
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
  const pairs = await openPairs(source.superuserConnection, target.superuserConnection, options.signal)
  const { from, to } = pairs.first
  try {
    await rejectOtherDatabases(from)
    const tables = await listTables(from)
    const empty = tables.filter(({ columns }) => columns.length === 0)
    if (empty.length > 0) throw notCopiedError(empty.map(({ name }) => `table ${name}, which has no columns`))
    for (const statement of await roleStatements(from)) await to.query(statement)
    await createSchema(from, target, options.log)
    await createTables(from, to, tables)
    // Before the rows, which may take long.
    await compareObjects(from, to)
    const rows = await copyTables(pairs, tables, options)
    await copySequences(from, to)
    for (const statement of await grantStatements(from)) await to.query(statement)
    await grantRights(target, options.log)
    await compareObjects(from, to)
    await compareTables(pairs, tables, options)
    return { tables: tables.length, rows, foreignSettings: await listForeignSettings(from, to) }
  } finally {
    await pairs.close()
  }
}

async function rejectOtherDatabases(client: Client): Promise<void> {
  const { rows } = await client.query<{ name: string }>(
    `select datname as name from pg_database where datname not in ('postgres', 'template0', 'template1', $1) order by 1`,
    [database],
  )
  if (rows.length > 0) throw notCopiedError(rows.map(({ name }) => `database ${name}`))
}

async function relationExists(client: Client, name: string): Promise<boolean> {
  const { rows } = await client.query<{ exists: boolean }>('select to_regclass($1) is not null as exists', [name])
  return rows[0]?.exists === true
}

/** Creates the schema of the source by its migrations. */
async function createSchema(from: Client, target: EmbeddedPostgres, log: Log): Promise<void> {
  const hasMigrations = await relationExists(from, 'public.migrations')
  const applied = hasMigrations ? (await from.query<{ name: string }>('select name from public.migrations order by name')).rows : []
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

/** Creates tables that no migration creates, such as segments of the search index. Drops tables that the source does not have. */
async function createTables(from: Client, to: Client, tables: readonly Table[]): Promise<void> {
  const statements = await tableStatements(from)
  const present = new Set((await listTables(to)).map(({ name }) => name))
  const names = new Set(tables.map(({ name }) => name))
  await asOwner(to, async () => {
    for (const name of present) if (!names.has(name)) await to.query(`drop table public.${escapeIdentifier(name)}`)
    for (const { name, owner, parent } of tables) {
      // The comparison reports a missing partitioned table: only migrations create them.
      if (present.has(name) || (parent !== null && !(await relationExists(to, parent)))) continue
      for (const statement of statements.get(name) ?? []) await to.query(statement)
      await to.query(`alter table public.${escapeIdentifier(name)} owner to ${owner}`)
    }
    const indexed = new Set((await listIndexes(to)).map(({ name }) => name))
    for (const { name, statement } of await listIndexes(from)) if (!indexed.has(name)) await to.query(statement)
    await copyOptions(from, to)
  })
}

/** Copies the options that an administrator has set or reset, such as autovacuum_vacuum_scale_factor of a table. */
async function copyOptions(from: Client, to: Client): Promise<void> {
  const old = await listOptions(from)
  const fresh = await listOptions(to)
  const has = (options: typeof old, one: string) => options.some(({ set }) => set === one)
  for (const { set, reset } of fresh) if (!has(old, set)) await to.query(reset)
  for (const { set } of old) if (!has(fresh, set)) await to.query(set)
}

async function compareObjects(from: Client, to: Client): Promise<void> {
  const differences = findDifferences(await describeObjects(from), await describeObjects(to))
  if (differences.length > 0) throw notCopiedError(differences)
}

async function copySequences(from: Client, to: Client): Promise<void> {
  const sequences = await listSequences(from)
  for (const { name, value, isCalled } of sequences) await to.query('select setval($1, $2, $3)', [name, value, isCalled])
  const [old, copy] = [sequences, await listSequences(to)].map((each) => JSON.stringify(each.toSorted(byName)))
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
