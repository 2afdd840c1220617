/** The schema of a restore: as it was when the backup was made, then brought forward, without work that would be done a second time. */
import { sql } from 'kysely'
import type { PoolClient } from 'pg'
import * as migrations from '../../db/migrate.ts'
import type { Trx } from '../../db/pool.ts'
import { AppError } from '../../errors.ts'
import { enqueue } from '../../jobs/queue.ts'
import { quoted, tablesOf } from '../create/snapshot.ts'
import { BackupDamaged, type Head, type Manifest } from '../manifest.ts'

/** Makes the schema as it was when the backup was made, without a row. Throws NewerSchema, AppError CONFLICT. */
export async function prepareSchema(trx: Trx, client: PoolClient, { migrations: wanted, tables }: Head): Promise<void> {
  const known = await migrations.known()
  const unknown = wanted.filter((name) => !known.includes(name))
  if (unknown.length > 0) throw new migrations.NewerSchema(unknown)
  const applied = (await migrations.status(trx)).filter(({ applied_at }) => applied_at !== null).map(({ name }) => name)
  const later = applied.filter((name) => !wanted.includes(name))
  if (later.length > 0)
    throw Object.assign(new AppError('CONFLICT', { later }, `the database has ${later[0]} already, which the backup does not know`), {
      fix: 'restore into a database without tables: the schema is brought up to date afterwards',
    })
  for (const name of wanted) if (!applied.includes(name)) await migrations.apply(trx, name)
  // Migrations put rows of their own; those are in the backup too.
  const own = new Set((await tablesOf(client)).map(({ name }) => name))
  for (const { name } of tables) {
    if (!own.has(name)) continue
    const { rows } = await sql`select from ${sql.table(name)} limit 1`.execute(trx)
    if (rows.length > 0) await sql`truncate ${sql.table(name)} cascade`.execute(trx)
  }
}

const sha256Form = '^[0-9a-f]{64}$'

/** Texts of the backup that become paths are held against their form before anything uses them. Throws BackupDamaged. */
export async function checkContents(client: PoolClient): Promise<void> {
  for (const { name, columns } of await tablesOf(client)) {
    if (!columns.includes('sha256')) continue
    const { rows } = await client.query<{ value: string }>(
      `select left(sha256, 100) as value from ${quoted(name)} where sha256 !~ $1 limit 1`,
      [sha256Form],
    )
    if (rows[0]) throw new BackupDamaged(`the table ${name} has ${JSON.stringify(rows[0].value)}, which is no SHA-256`)
  }
  const { rows } = await client.query<{ value: string }>(
    `select left(payload ->> 'sha256', 100) as value from jobs where payload ->> 'sha256' !~ $1 limit 1`,
    [sha256Form],
  )
  if (rows[0]) throw new BackupDamaged(`the table jobs has ${JSON.stringify(rows[0].value)}, which is no SHA-256`)
}

export interface DisabledSource {
  id: string
  name: string
}

/** From the rows of then to a place that works now; returns the sources that were disabled. */
export async function bringForward(
  trx: Trx,
  { sequences, migrations: had }: Manifest,
  { storeId, keepsSources }: { storeId: string; keepsSources: boolean },
): Promise<DisabledSource[]> {
  for (const { name, value, called } of sequences) {
    const own = await sql`select from pg_sequences where schemaname = current_schema() and sequencename = ${name}`.execute(trx)
    if (own.rows.length > 0) await sql`select setval(${quoted(name)}::regclass, ${value}, ${called})`.execute(trx)
  }
  // Tables with checks that still wait cannot be changed.
  await sql`set constraints all immediate`.execute(trx)
  for (const name of await migrations.known()) if (!had.includes(name)) await migrations.apply(trx, name)
  // Nobody works on anything here: what was in hand is to be done again.
  await sql`update jobs set status = 'pending', attempts = greatest(0, attempts - 1), fence = fence + 1, lease_until = null, worker = null, dedupe_key = null
    where status = 'processing'`.execute(trx)
  await sql`update documents set status = 'pending' where status = 'processing'`.execute(trx)
  await sql`update document_pages set claim = null, claimed_until = null where claim is not null`.execute(trx)
  const disabled = await quieten(trx, keepsSources)
  // Should nobody come to rebuild the index after this, a worker does.
  await enqueue(trx, 'reindex', {}, { dedupe: 'reindex' })
  // The files are copies: a name of their own keeps the two places from taking each other's.
  await sql`insert into instance (key, value) values ('store_id', ${storeId})
    on conflict (key) do update set value = excluded.value`.execute(trx)
  return disabled
}

/** The place that the backup was made of may still run: a copy must not move files at sources, or send mails, a second time. */
async function quieten(trx: Trx, keepsSources: boolean): Promise<DisabledSource[]> {
  await sql`delete from jobs where kind = 'verify_email'`.execute(trx)
  await sql`update source_syncs set state = 'cancelled', finished_at = now() where state = 'running'`.execute(trx)
  await sql`update sources set status = 'active' where status = 'syncing'`.execute(trx)
  if (keepsSources) return []
  await sql`delete from jobs where kind = 'sync'`.execute(trx)
  const { rows } = await sql<DisabledSource>`
    update sources set status = 'disabled' where status <> 'disabled' returning id, name`.execute(trx)
  return rows.sort((one, two) => (one.name < two.name ? -1 : 1))
}
