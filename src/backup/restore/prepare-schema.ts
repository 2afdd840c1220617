/** Creates the schema of a backup before its rows are loaded, and migrates it afterwards. */
import { sql } from 'kysely'
import type { PoolClient } from 'pg'
import * as migrations from '../../db/migrate.ts'
import type { Db, Trx } from '../../db/pool.ts'
import { AppError } from '../../errors.ts'
import { forgetAllUse } from '../../files/used-stores.ts'
import { enqueue } from '../../jobs/queue.ts'
import { listTables, quoteIdentifier } from '../create/snapshot.ts'
import { BackupDamaged, type Head, type Manifest } from '../manifest.ts'

/** Creates the empty schema as of the backup. Throws NewerSchema or AppError CONFLICT. */
export async function prepareSchema(trx: Trx, client: PoolClient, { migrations: backupMigrations, tables }: Head): Promise<void> {
  const ownMigrations = await migrations.listMigrations()
  const unknown = backupMigrations.filter((name) => !ownMigrations.includes(name))
  if (unknown.length > 0) throw new migrations.NewerSchema(unknown)
  const applied = (await migrations.loadStates(trx)).filter(({ applied_at }) => applied_at !== null).map(({ name }) => name)
  const later = applied.filter((name) => !backupMigrations.includes(name))
  if (later.length > 0)
    throw Object.assign(new AppError('CONFLICT', { later }, `the database has the migration ${later[0]}, which is newer than the backup`), {
      fix: 'restore into a database without tables: the schema is brought up to date afterwards',
    })
  if (applied.length > 0) await assertNoRows(trx, { isLocked: true })
  for (const name of backupMigrations) if (!applied.includes(name)) await migrations.applyMigration(trx, name)
  // Rows inserted by migrations are in the backup too.
  const ownTables = new Set((await listTables(client)).map(({ name }) => name))
  for (const { name } of tables) {
    if (!ownTables.has(name)) continue
    const { rows } = await sql`select from ${sql.table(name)} limit 1`.execute(trx)
    if (rows.length > 0) await sql`truncate ${sql.table(name)} cascade`.execute(trx)
  }
}

/**
 * Throws AppError CONFLICT if the database has users or documents. `isLocked`: nobody adds any until the transaction ends. A server that runs since
 * before the restore may have added some while the head of the backup was awaited, and the tables are truncated.
 */
export async function assertNoRows(db: Db, { isLocked = false } = {}): Promise<void> {
  for (const table of ['users', 'stored_files'] as const) {
    const { rows } = await sql<{ found: boolean }>`select to_regclass(${table}) is not null as found`.execute(db)
    if (!rows[0]?.found) continue
    if (isLocked) await sql`lock table ${sql.table(table)} in share row exclusive mode`.execute(db)
    const some = await sql`select from ${sql.table(table)} limit 1`.execute(db)
    if (some.rows.length > 0)
      throw notEmptyError(
        `the database holds ${table === 'users' ? 'users' : 'documents'}`,
        'make a new database, or pass --data-dir or --to-database',
      )
  }
}

/** Returns the AppError CONFLICT of a destination with data. */
export const notEmptyError = (what: string, fix: string): AppError =>
  Object.assign(new AppError('CONFLICT', {}, `${what}; a backup is restored into an empty destination only`), { fix })

/** Validates hashes before anything builds a path from them. Throws BackupDamaged. */
export async function assertHashColumns(client: PoolClient): Promise<void> {
  const tables = (await listTables(client)).filter(({ columns }) => columns.includes('sha256'))
  const columns = [...tables.map(({ name }) => ({ name, column: 'sha256' })), { name: 'jobs', column: `(payload ->> 'sha256')` }]
  for (const { name, column } of columns) {
    const { rows } = await client.query<{ value: string }>(
      `select left(${column}, 100) as value from ${quoteIdentifier(name)} where ${column} !~ '^[0-9a-f]{64}$' limit 1`,
    )
    if (rows[0]) throw new BackupDamaged(`the table ${name} has ${JSON.stringify(rows[0].value)}, which is not a SHA-256`)
  }
}

export interface DisabledSource {
  id: string
  name: string
}

/** Migrates the loaded rows and resets state of the original installation. Returns the sources that were disabled. */
export async function upgradeRows(
  trx: Trx,
  { sequences, migrations: backupMigrations }: Manifest,
  { storeId, keepsSources }: { storeId: string; keepsSources: boolean },
): Promise<DisabledSource[]> {
  for (const { name, value, called } of sequences) {
    const own = await sql`select from pg_sequences where schemaname = current_schema() and sequencename = ${name}`.execute(trx)
    if (own.rows.length > 0) await sql`select setval(${quoteIdentifier(name)}::regclass, ${value}, ${called})`.execute(trx)
  }
  // A table with pending deferred constraints cannot be altered.
  await sql`set constraints all immediate`.execute(trx)
  for (const name of await migrations.listMigrations()) if (!backupMigrations.includes(name)) await migrations.applyMigration(trx, name)
  // No worker of this installation holds a lease: interrupted work is queued again.
  await sql`update jobs set status = 'pending', attempts = greatest(0, attempts - 1), fence = fence + 1, lease_until = null, worker = null, dedupe_key = null
    where status = 'processing'`.execute(trx)
  await sql`update documents set status = 'pending' where status = 'processing'`.execute(trx)
  await sql`update document_pages set claim = null, claimed_until = null where claim is not null`.execute(trx)
  const disabled = await disableSources(trx, keepsSources)
  // A worker rebuilds the index if the operator does not.
  await enqueue(trx, 'reindex', {}, { dedupeKey: 'reindex' })
  await forgetAllUse(trx)
  // A new store id keeps this installation apart from the original.
  await sql`insert into instance (key, value) values ('store_id', ${storeId})
    on conflict (key) do update set value = excluded.value`.execute(trx)
  return disabled
}

/** Keeps the restored copy from sending mails or moving files at sources: the original may still run. Returns the sources that were disabled. */
async function disableSources(trx: Trx, keepsSources: boolean): Promise<DisabledSource[]> {
  await sql`delete from jobs where kind = 'verify_email'`.execute(trx)
  await sql`update source_syncs set state = 'cancelled', finished_at = now() where state = 'running'`.execute(trx)
  await sql`update sources set status = 'active' where status = 'syncing'`.execute(trx)
  if (keepsSources) return []
  await sql`delete from jobs where kind = 'sync'`.execute(trx)
  const { rows } = await sql<DisabledSource>`
    update sources set status = 'disabled' where status <> 'disabled' returning id, name`.execute(trx)
  return rows.sort((one, two) => (one.name < two.name ? -1 : 1))
}
