/** Puts a backup into an empty place, whole or not at all: one transaction for all tables, and a folder that nobody else takes until it has ended. */
import { randomUUID } from 'node:crypto'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { Kysely, PostgresDialect, sql } from 'kysely'
import type { PoolClient } from 'pg'
import type { Trx } from '../db/db.ts'
import { withLock } from '../db/lock.ts'
import * as migrations from '../db/migrate.ts'
import type { Schema } from '../db/schema.ts'
import { AppError } from '../errors.ts'
import * as filling from '../files/claim-folder.ts'
import { enqueue } from '../jobs.ts'
import type { Places } from '../open-app.ts'
import { type Bytes, gathered } from './bytes.ts'
import { copyInto, type TableCopy } from './copy-in.ts'
import { secretNames } from './create.ts'
import { putFiles } from './files-in.ts'
import { BackupDamaged, type Head, type Manifest } from './manifest.ts'
import { readBackup } from './read.ts'
import { quoted } from './snapshot.ts'
import type { Source } from './source.ts'

export interface RestoreOptions {
  /** milliseconds to wait for a migrator or another restore before Busy is thrown */
  lockTimeout: number
  signal: AbortSignal
  onHead(head: Head): void
  onProgress(state: { done: number; total: number; bytes: number; totalBytes: number }): void
}

export interface Restored {
  manifest: Manifest
  /** tables of the backup that are none of dms, and were left out */
  ignored: string[]
  /** files that were corrupt when the backup was made, or missing: their documents have none */
  withoutFile: string[]
  /** keys that the backup has, but this place has its own */
  keptSecrets: string[]
}

/** Throws AppError CONFLICT where the place is not empty, BackupDamaged, NewerSchema, Busy. Then everything is as it was before. */
export function restore(places: Places, source: Source, options: RestoreOptions): Promise<Restored> {
  const { database } = places
  return withLock(database, 'restore', options.lockTimeout, () =>
    withLock(database, migrations.migrateLock, options.lockTimeout, async () => {
      await refuseFull(places)
      const storeId = randomUUID()
      const folder = folderOf(places)
      if (folder) await filling.beginFilling(folder, storeId)
      try {
        const restored = await fill(places, source, storeId, options)
        if (folder) await filling.endFilling(folder)
        return restored
      } catch (error) {
        for await (const { sha256 } of places.files.list()) await places.files.remove(sha256)
        if (folder) await filling.giveUpFilling(folder)
        throw error
      }
    }),
  )
}

/** What the database is called that would be filled. */
export async function databaseName({ database }: Pick<Places, 'database'>): Promise<string> {
  const { rows } = await sql<{ name: string }>`select current_database() as name`.execute(database.db)
  return rows[0]?.name ?? ''
}

/** Throws AppError CONFLICT where there are people, documents or files already; what a broken-off restore left does not count. */
export async function refuseFull(places: Places): Promise<void> {
  const { db } = places.database
  const full = (what: string, fix: string) =>
    Object.assign(new AppError('CONFLICT', {}, `${what}; a backup is restored into an empty place only`), { fix })
  const states = await migrations.status(db)
  if (states.some(({ applied_at }) => applied_at !== null)) {
    for (const table of ['users', 'stored_files'] as const) {
      const { rows } = await sql<{ found: boolean }>`select to_regclass(${table}) is not null as found`.execute(db)
      if (!rows[0]?.found) continue
      const some = await sql`select from ${sql.table(table)} limit 1`.execute(db)
      if (some.rows.length > 0)
        throw full(
          `the database holds ${table === 'users' ? 'users' : 'documents'}`,
          'make a new database, or pass --data-dir or --to-database',
        )
    }
  }
  const folder = folderOf(places)
  if (folder && (await filling.isBeingFilled(folder))) return
  for await (const _ of places.files.list()) throw full('the document store holds files', 'empty it, or pass --files-to')
  if (folder && (await filling.ownerOf(folder)) !== '' && (await storeIdOf(places)) === null)
    throw full(`${folder} belongs to another database`, 'pass --files-to')
}

async function storeIdOf({ database: { db } }: Places): Promise<string | null> {
  const { rows } = await sql<{ found: boolean }>`select to_regclass('instance') is not null as found`.execute(db)
  if (!rows[0]?.found) return null
  return (await db.selectFrom('instance').select('value').where('key', '=', 'store_id').executeTakeFirst())?.value ?? null
}

async function fill(places: Places, source: Source, storeId: string, options: RestoreOptions): Promise<Restored> {
  const client = (await places.database.connect('dms restore')) as unknown as PoolClient
  // One connection for statements and for COPY: both are of the same transaction.
  const pool = { connect: async () => Object.assign(client, { release() {} }), end: async () => {} }
  const db = new Kysely<Schema>({ dialect: new PostgresDialect({ pool: pool as never }) })
  try {
    return await db.transaction().execute((trx) => read(places, trx, client, source, storeId, options))
  } finally {
    await client.end()
  }
}

async function read(
  places: Places,
  trx: Trx,
  client: PoolClient,
  source: Source,
  storeId: string,
  options: RestoreOptions,
): Promise<Restored> {
  await sql`set local statement_timeout = 0`.execute(trx)
  await sql`set local idle_in_transaction_session_timeout = 0`.execute(trx)
  const files = putFiles(places.files, options.signal)
  const rows = putRows(trx, client)
  const secrets = new Map<string, Buffer>()
  let head: Head | null = null
  let [done, bytes] = [0, 0]
  try {
    const manifest = await readBackup(source, {
      async head(found) {
        head = found
        options.onHead(found)
        await prepare(trx, found)
      },
      async table(name, part) {
        options.signal.throwIfAborted()
        await rows.put(head?.tables.find((table) => table.name === name) ?? { name, columns: [] }, part)
      },
      async file(sha256, content) {
        await rows.end()
        bytes += await files.put(sha256, content)
        options.onProgress({ done: ++done, total: head?.files ?? 0, bytes, totalBytes: head?.bytes ?? 0 })
      },
      async secret(name, content) {
        await rows.end()
        const known = secretNames.find((secret) => secret === name)
        if (known) secrets.set(known, await gathered(content))
      },
      problem(path, what) {
        throw new BackupDamaged(`${path} is ${what}`)
      },
    })
    await rows.end()
    await files.end()
    await finish(trx, manifest, storeId)
    const keptSecrets = await writeSecrets(places.config.data_dir, secrets)
    return { manifest, ignored: [...rows.ignored], withoutFile: manifest.damaged.map(({ sha256 }) => sha256), keptSecrets }
  } catch (error) {
    await rows.abort()
    await files.settle()
    throw error instanceof BackupDamaged ? new BackupDamaged(`${source.name}: ${error.message}; nothing was restored`) : error
  }
}

/** Rows into one table after the other; a table that dms does not have is left out. */
function putRows(trx: Trx, client: PoolClient) {
  const ignored = new Set<string>()
  let copying: TableCopy | null = null
  const end = async () => {
    const ending = copying
    copying = null
    await ending?.end()
  }
  return {
    ignored,
    async put({ name, columns }: Head['tables'][number], part: Bytes): Promise<void> {
      if (copying?.name !== name) {
        await end()
        if (columns.length > 0 && (await isOurs(trx, name))) copying = copyInto(client, name, columns)
        else ignored.add(name)
      }
      await copying?.put(part)
    },
    end,
    abort: async () => copying?.abort(),
  }
}

/** Makes the schema as it was when the backup was made, without a row. Throws NewerSchema, AppError CONFLICT. */
async function prepare(trx: Trx, { migrations: wanted, tables }: Head): Promise<void> {
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
  for (const { name } of tables) {
    if (!(await isOurs(trx, name))) continue
    const { rows } = await sql`select from ${sql.table(name)} limit 1`.execute(trx)
    if (rows.length > 0) await sql`truncate ${sql.table(name)} cascade`.execute(trx)
  }
}

async function isOurs(trx: Trx, table: string): Promise<boolean> {
  return (await sql<{ found: boolean }>`select to_regclass(${quoted(table)}) is not null as found`.execute(trx)).rows[0]?.found === true
}

/** From the rows of then to a place that works now. */
async function finish(trx: Trx, { sequences, migrations: had }: Manifest, storeId: string): Promise<void> {
  for (const { name, value, called } of sequences)
    if (await isOurs(trx, name)) await sql`select setval(${quoted(name)}::regclass, ${value}, ${called})`.execute(trx)
  // Tables with checks that still wait cannot be changed.
  await sql`set constraints all immediate`.execute(trx)
  for (const name of await migrations.known()) if (!had.includes(name)) await migrations.apply(trx, name)
  // Nobody works on anything here: what was in hand is to be done again.
  await sql`update jobs set status = 'pending', attempts = greatest(0, attempts - 1), fence = fence + 1, lease_until = null, worker = null, dedupe_key = null
    where status = 'processing'`.execute(trx)
  await sql`update documents set status = 'pending' where status = 'processing'`.execute(trx)
  await sql`update document_pages set claim = null, claimed_until = null where claim is not null`.execute(trx)
  await sql`update sources set status = 'active' where status = 'syncing'`.execute(trx)
  // Should nobody come to rebuild the index after this, a worker does.
  await enqueue(trx, 'reindex', {}, { dedupe: 'reindex' })
  // The files are copies: a name of their own keeps the two places from taking each other's.
  await sql`insert into instance (key, value) values ('store_id', ${storeId})
    on conflict (key) do update set value = excluded.value`.execute(trx)
}

/** Puts the keys where there are none; the names of those that were there. */
async function writeSecrets(dataDir: string, secrets: ReadonlyMap<string, Buffer>): Promise<string[]> {
  const kept: string[] = []
  for (const [name, secret] of secrets) {
    const handle = await open(join(dataDir, name), 'wx', 0o600).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
      kept.push(name)
    })
    await handle?.writeFile(secret)
    await handle?.sync()
    await handle?.close()
  }
  return kept
}

/** The folder of a store on a disk. */
const folderOf = ({ config }: Places): string | null => (config.storage.kind === 'disk' ? config.storage.path : null)
