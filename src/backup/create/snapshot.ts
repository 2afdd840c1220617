/** One consistent look at all tables, while others go on writing. */
import type { Readable } from 'node:stream'
import type pg from 'pg'
import { to as copyTo } from 'pg-copy-streams'
import type { Database } from '../../db/pool.ts'
import type { Head } from '../manifest.ts'

export type SnapshotHead = Pick<Head, 'store_id' | 'migrations' | 'tables' | 'sequences' | 'documents' | 'files' | 'bytes'>

export interface Snapshot {
  readonly head: SnapshotHead
  /** The rows of a table as COPY writes them, in text. One at a time, to its end. */
  table(name: string): Readable
  /** How many rows the table had that was read last. */
  rows(): Promise<number>
  /** One line a stored file, by ascending SHA-256: SHA-256, tab, size, tab, address. */
  files(): Readable
  close(): Promise<void>
}

/**
 * What a backup leaves out. Who is there now, what was counted in the last minutes and what is told for ten minutes makes no sense in another
 * place; the index belongs to one engine, and is made anew from what is here.
 */
const leftOut = [
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
/** Nor what begins so: the index. */
const leftOutPrefix = 'search_'

/** Begins it. Throws where the database has never been migrated. */
export async function openSnapshot(database: Pick<Database, 'connect'>): Promise<Snapshot> {
  const client = await database.connect('dms backup snapshot')
  try {
    await client.query('begin isolation level repeatable read, read only')
    await client.query('set local statement_timeout = 0')
    await client.query('set local idle_in_transaction_session_timeout = 0')
    await setCanonicalText(client)
    const head = await look(client)
    const columns = new Map(head.tables.map(({ name, columns }) => [name, columns]))
    let last: { rowCount: number } | null = null
    const copy = (query: string): Readable => {
      const stream = client.query(copyTo(`copy (${query}) to stdout`, { highWaterMark: 1 << 20 }))
      last = stream
      return stream
    }
    return {
      head,
      table: (name) => copy(`select ${(columns.get(name) ?? []).map(quoted).join(', ')} from ${quoted(name)}`),
      async rows() {
        // What the server says at the end of a COPY has been heard once it has answered the next question.
        await client.query('select')
        return last?.rowCount ?? 0
      },
      // Tables of before there were addresses: the SHA-256 was all of it.
      files: () =>
        copy(
          `select sha256, size, ${columns.get('stored_files')?.includes('address') ? 'address' : 'sha256'} from stored_files order by sha256 collate "C"`,
        ),
      close: () => client.end(),
    }
  } catch (error) {
    await client.end()
    throw error
  }
}

/** Makes the text of rows independent of the settings of the database and of the role, for this transaction. */
export async function setCanonicalText(client: Pick<pg.ClientBase, 'query'>): Promise<void> {
  await client.query(`set local timezone = 'UTC'; set local datestyle = 'ISO, YMD'; set local intervalstyle = 'postgres';
    set local extra_float_digits = 1; set local bytea_output = 'hex'`)
}

/** The tables that a backup has, with their columns: those of dms in this schema, whatever else the database holds. */
export async function tablesOf(client: Pick<pg.ClientBase, 'query'>): Promise<{ name: string; columns: string[] }[]> {
  const { rows } = await client.query<{ name: string; columns: string[] }>(
    `select c.relname as name, array_agg(a.attname::text order by a.attnum) as columns
     from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
     where c.relnamespace = current_schema()::regnamespace and c.relkind = 'r' and c.relname <> all($1) and not starts_with(c.relname::text, $2)
       and not exists (select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid and d.deptype = 'e')
     group by c.relname order by c.relname`,
    [leftOut, leftOutPrefix],
  )
  return rows
}

async function look(client: pg.Client): Promise<SnapshotHead> {
  const rows = async <T extends object>(query: string, values: unknown[] = []): Promise<T[]> =>
    (await client.query(query, values)).rows as T[]
  const migrations = await rows<{ name: string }>('select name from migrations order by name')
  const tables = await tablesOf(client)
  const references = await rows<{ from: string; to: string }>(
    `select r.conrelid::regclass::text as "from", r.confrelid::regclass::text as "to" from pg_constraint r
     where r.contype = 'f' and r.connamespace = current_schema()::regnamespace and r.conrelid <> r.confrelid`,
  )
  const names = await rows<{ name: string }>(
    `select sequencename::text as name from pg_sequences where schemaname = current_schema() order by 1`,
  )
  const sequences: Head['sequences'] = []
  for (const { name } of names) {
    const [row] = await rows<{ value: number; called: boolean }>(`select last_value as value, is_called as called from ${quoted(name)}`)
    if (row) sequences.push({ name, ...row })
  }
  const [counts] = await rows<{ documents: number; files: number; bytes: number; store_id: string | null }>(
    `select (select count(*) from documents) as documents, count(*) as files, coalesce(sum(size), 0)::int8 as bytes,
       (select value from instance where key = 'store_id') as store_id from stored_files`,
  )
  return {
    store_id: counts?.store_id ?? '',
    migrations: migrations.map(({ name }) => name),
    tables: inOrder(tables, references),
    sequences,
    documents: counts?.documents ?? 0,
    files: counts?.files ?? 0,
    bytes: counts?.bytes ?? 0,
  }
}

export const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`

/** What is referred to comes first, so that no row is ever put before one that it needs. A table that refers to itself is put in one go. */
function inOrder<T extends { name: string }>(tables: readonly T[], references: readonly { from: string; to: string }[]): T[] {
  const ordered: T[] = []
  const left = new Map(tables.map((table) => [table.name, table]))
  while (left.size > 0) {
    const free = [...left.values()].filter(({ name }) => !references.some(({ from, to }) => from === name && left.has(to)))
    if (free.length === 0) throw new Error(`tables refer to each other in a circle: ${[...left.keys()].join(', ')}`)
    for (const table of free) {
      ordered.push(table)
      left.delete(table.name)
    }
  }
  return ordered
}
