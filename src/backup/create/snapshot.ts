/** Opens a consistent snapshot of all tables, with COPY streams of their rows. */
import type { Readable } from 'node:stream'
import type pg from 'pg'
import { to as copyTo } from 'pg-copy-streams'
import type { Database } from '../../db/pool.ts'
import type { Head } from '../manifest.ts'

export type SnapshotHead = Pick<
  Head,
  'store_id' | 'migrations' | 'tables' | 'sequences' | 'documents' | 'versions' | 'trashed' | 'files' | 'bytes'
>

export interface Snapshot {
  readonly head: SnapshotHead
  /** Streams the rows of a table in COPY text format. Read the stream to its end before the next call. */
  copyTable(name: string): Readable
  /** Returns the row count of the last table read. */
  rowCount(): Promise<number>
  /** Streams one line for each stored file, in ascending order: SHA-256, tab, size, tab, address. */
  copyFileList(): Readable
  close(): Promise<void>
}

/**
 * Tables that a backup leaves out: state of running processes, recent counters and short-lived events mean nothing in another place.
 * The search index is rebuilt after a restore.
 */
const excludedTables = [
  'migrations',
  'rate_hits',
  'call_windows',
  'workers',
  'servers',
  'live_places',
  'queue_counts',
  'events',
  'file_removals',
  'job_turns',
]
/** Tables of the search index. */
const excludedPrefix = 'search_'

/** Opens a snapshot. Throws if the database was never migrated. */
export async function openSnapshot(database: Pick<Database, 'connect'>): Promise<Snapshot> {
  const client = await database.connect('dms backup snapshot')
  try {
    await client.query('begin isolation level repeatable read, read only')
    await client.query('set local statement_timeout = 0')
    await client.query('set local idle_in_transaction_session_timeout = 0')
    await setCanonicalOutput(client)
    const head = await readSnapshotHead(client)
    const columns = new Map(head.tables.map(({ name, columns }) => [name, columns]))
    let lastCopy: { rowCount: number } | null = null
    const copy = (query: string): Readable => {
      const stream = client.query(copyTo(`copy (${query}) to stdout`, { highWaterMark: 1 << 20 }))
      lastCopy = stream
      return stream
    }
    return {
      head,
      copyTable: (name) => copy(`select ${(columns.get(name) ?? []).map(quoteIdentifier).join(', ')} from ${quoteIdentifier(name)}`),
      async rowCount() {
        // The row count arrives with CommandComplete, which the next query waits for.
        await client.query('select')
        return lastCopy?.rowCount ?? 0
      },
      copyFileList: () => copy('select sha256, size, address from stored_files order by sha256 collate "C"'),
      close: () => client.end(),
    }
  } catch (error) {
    await client.end()
    throw error
  }
}

/** Makes the text form of rows independent of database and role settings, until the transaction ends. */
export async function setCanonicalOutput(client: Pick<pg.ClientBase, 'query'>): Promise<void> {
  await client.query(`set local timezone = 'UTC'; set local datestyle = 'ISO, YMD'; set local intervalstyle = 'postgres';
    set local extra_float_digits = 1; set local bytea_output = 'hex'`)
}

/** Returns the tables to back up with their columns: all tables of the current schema, without tables of extensions. */
export async function listTables(client: Pick<pg.ClientBase, 'query'>): Promise<{ name: string; columns: string[] }[]> {
  const { rows } = await client.query<{ name: string; columns: string[] }>(
    `select c.relname as name, array_agg(a.attname::text order by a.attnum) as columns
     from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
     where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition and c.relname <> all($1) and not starts_with(c.relname::text, $2)
       and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
     group by c.relname order by c.relname`,
    [excludedTables, excludedPrefix],
  )
  return rows
}

async function readSnapshotHead(client: pg.Client): Promise<SnapshotHead> {
  const rows = async <T extends object>(query: string): Promise<T[]> => (await client.query(query)).rows as T[]
  const migrations = await rows<{ name: string }>('select name from migrations order by name')
  const tables = await listTables(client)
  const references = await rows<{ from: string; to: string }>(
    `select coalesce(pg_partition_root(r.conrelid), r.conrelid)::regclass::text as "from", r.confrelid::regclass::text as "to" from pg_constraint r
     where r.contype = 'f' and r.connamespace = current_schema()::regnamespace and r.conrelid <> r.confrelid`,
  )
  const names = await rows<{ name: string }>(
    `select sequencename::text as name from pg_sequences where schemaname = current_schema() order by 1`,
  )
  const sequences: Head['sequences'] = []
  for (const { name } of names) {
    const [row] = await rows<{ value: number; called: boolean }>(
      `select last_value as value, is_called as called from ${quoteIdentifier(name)}`,
    )
    if (row) sequences.push({ name, ...row })
  }
  // The schema may be older than versions and the trash.
  const hasVersions = tables.some(({ name }) => name === 'document_versions')
  const hasTrash = tables.some(({ name, columns }) => name === 'documents' && columns.includes('deleted_at'))
  const [counts] = await rows<{ store_id: string | null } & Pick<SnapshotHead, 'documents' | 'versions' | 'trashed' | 'files' | 'bytes'>>(
    `select (select count(*) from documents) as documents, count(*) as files, coalesce(sum(size), 0)::int8 as bytes,
       (select count(*) from ${hasVersions ? 'document_versions' : 'documents'}) as versions,
       ${hasTrash ? '(select count(*) from documents where deleted_at is not null)' : '0'} as trashed,
       (select value from instance where key = 'store_id') as store_id from stored_files`,
  )
  return {
    store_id: counts?.store_id ?? '',
    migrations: migrations.map(({ name }) => name),
    tables: sortByReferences(tables, references),
    sequences,
    documents: counts?.documents ?? 0,
    versions: counts?.versions ?? 0,
    trashed: counts?.trashed ?? 0,
    files: counts?.files ?? 0,
    bytes: counts?.bytes ?? 0,
  }
}

export const quoteIdentifier = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** Sorts tables in foreign-key order: referenced tables first. Self-references are ignored because a table is restored in one COPY. */
function sortByReferences<T extends { name: string }>(tables: readonly T[], references: readonly { from: string; to: string }[]): T[] {
  const ordered: T[] = []
  const left = new Map(tables.map((table) => [table.name, table]))
  while (left.size > 0) {
    const free = [...left.values()].filter(({ name }) => !references.some(({ from, to }) => from === name && left.has(to)))
    if (free.length === 0) throw new Error(`circular foreign keys between tables: ${[...left.keys()].join(', ')}`)
    for (const table of free) {
      ordered.push(table)
      left.delete(table.name)
    }
  }
  return ordered
}
