/** Where entries of the index are: in chunks by document id, a table each, of which the newest is searched first. */
import { type RawBuilder, sql } from 'kysely'
import { kept } from '../../../db/cached-plans.ts'
import type { Db, Trx } from '../../../db/pool.ts'

/** Goes up when what is written per document changes, so that `search reindex --if-needed` sees old entries. */
export const indexVersion = 7
/** The first version whose entries have all the hints (see tags.ts), marks and codes (see tsvector.ts) that searches count on; older ones are searched without. */
const firstWithHints = 7

export interface Chunk {
  readonly number: number
  readonly generation: number
  /** the least id that it may hold; it ends where the next of its generation begins */
  readonly fromId: string
  readonly hasHints: boolean
  /** the least id of each of its blocks; empty: it has none */
  readonly blocks: readonly string[]
}

const leastId = '00000000-0000-0000-0000-000000000000'

export const tableOf = (chunk: number): string => `search_chunk_${chunk}`

/** The entries of a chunk, as `entry` of a query. Columns by name: the first chunk, made by a migration, has them in another order. */
export const entriesOf = ({ number }: Chunk): RawBuilder<unknown> =>
  sql`(select document_id, words, hints, parts, created_at, confidence, version, mime_type, label_ids, telling, word_order, ctid as place, ${sql.lit(number)}::integer as chunk from ${sql.table(tableOf(number))}) entry`

/** The chunks of the index in force, the newest first. */
export async function chunksInForce(db: Db): Promise<Chunk[]> {
  const { rows } = await sql<ChunkRow>`${kept}
    select search_chunks.number, generation, from_id, version, blocks from search_chunks
    join search_generation on generation = search_generation.number order by from_id desc`.execute(db)
  return rows.map(toChunk)
}

interface ChunkRow {
  number: number
  generation: number
  from_id: string
  version: number
  blocks: string[]
}

const toChunk = (row: ChunkRow): Chunk => ({
  number: row.number,
  generation: row.generation,
  fromId: row.from_id,
  hasHints: row.version >= firstWithHints,
  blocks: row.blocks,
})

/** The chunks of a generation (null: that in force), the newest first; until the transaction ends none is opened. */
export async function chunksToWrite(trx: Trx, generation: number | null): Promise<Chunk[]> {
  await sql`select pg_advisory_xact_lock_shared(hashtext('dms search'), hashtext('chunks'))`.execute(trx)
  const { rows } = await sql<ChunkRow>`
    select number, generation, from_id, version, blocks from search_chunks
    where generation = coalesce(${generation}::integer, (select number from search_generation)) order by from_id desc`.execute(trx)
  return rows.map(toChunk)
}

/** The one for a document. */
export const chunkFor = (chunks: readonly Chunk[], id: string): Chunk => chunks.find(({ fromId }) => fromId <= id)!

/** The number of the block for a document; -1 where the chunk has none. */
export const blockFor = ({ blocks }: Chunk, id: string): number => blocks.findLastIndex((fromId) => fromId <= id)

/** Opens a new chunk behind the newest of a generation, where that holds documents. */
export async function openChunk(db: Db, generation: number, withIndex: boolean): Promise<number> {
  return db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(hashtext('dms search'), hashtext('chunks'))`.execute(trx)
    const [newest] = await chunksToWrite(trx, generation)
    const last = newest && (await lastId(trx, newest))
    if (newest && last === undefined) return newest.number
    const { rows } = await sql<{ number: number }>`
      insert into search_chunks (generation, from_id, version, blocks)
      select ${generation}, from_id, ${indexVersion}, array[from_id] from (select ${last ? after(last) : leastId}::uuid as from_id) beginning
      returning number`.execute(trx)
    const { number } = rows[0]!
    await createTable(trx, number)
    if (withIndex) await createIndex(trx, number)
    return number
  })
}

/** Begins a block at an id beyond all that the chunk holds. Whoever writes to it meanwhile may still put such an id into the block before; it is found there as well. */
export async function openBlock(db: Db, { number }: Pick<Chunk, 'number'>, fromId: string): Promise<void> {
  await sql`update search_chunks set blocks = blocks || ${fromId}::uuid where number = ${number} and blocks[cardinality(blocks)] < ${fromId}::uuid`.execute(
    db,
  )
}

/** Begins a block behind the last entry of a chunk, where the newest of its blocks holds so many. */
export async function growBlocks(db: Db, chunk: Chunk, blockSize: number): Promise<void> {
  const newest = chunk.blocks.at(-1)
  if (newest === undefined) return
  const { rows } = await sql<{ entries: number }>`
    select count(*) as entries from ${sql.table(tableOf(chunk.number))} where document_id >= ${newest}`.execute(db)
  const last = rows[0]!.entries >= blockSize && (await lastId(db, chunk))
  if (last) await openBlock(db, chunk, after(last))
}

async function lastId(db: Db, { number }: Chunk): Promise<string | undefined> {
  const { rows } = await sql<{ document_id: string }>`
    select document_id from ${sql.table(tableOf(number))} order by document_id desc limit 1`.execute(db)
  return rows[0]?.document_id
}

/** The next id. */
function after(id: string): string {
  const next = (BigInt(`0x${id.replaceAll('-', '')}`) + 1n).toString(16).padStart(32, '0')
  return next.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

async function createTable(trx: Trx, chunk: number): Promise<void> {
  await sql`
    create table ${sql.table(tableOf(chunk))} (
      document_id uuid primary key,
      words       tsvector not null,
      hints       integer[] not null,
      parts       smallint not null,
      created_at  timestamptz not null,
      confidence  real,
      version     smallint not null,
      mime_type   text,
      label_ids   uuid[],
      telling     tsvector,
      word_order  bytea
    )`.execute(trx)
  // Kept apart from rows of 2 kB and more, which are looked at by the thousand; not packed, because it hardly makes them smaller and every rank would unpack them.
  await sql`alter table ${sql.table(tableOf(chunk))} alter words set storage external, alter hints set storage external`.execute(trx)
  await sql`alter table ${sql.table(tableOf(chunk))} alter mime_type set storage main, alter label_ids set storage main,
    alter telling set storage main, alter word_order set storage main`.execute(trx)
  // Numbers about single words would be of no use: an entry is always found by the index.
  await sql`alter table ${sql.table(tableOf(chunk))} alter words set statistics 0, alter hints set statistics 0, alter telling set statistics 0`.execute(
    trx,
  )
}

export async function createIndex(db: Db, chunk: number): Promise<void> {
  // What was written last is looked through word by word until it is moved into the index: a short list of it keeps searches quick.
  await sql`create index on ${sql.table(tableOf(chunk))} using gin (words, hints) with (gin_pending_list_limit = 1024)`.execute(db)
}

/** How many entries a chunk has. */
export async function sizeOf(db: Db, chunk: number): Promise<number> {
  const { rows } = await sql<{ entries: number }>`select count(*) as entries from ${sql.table(tableOf(chunk))}`.execute(db)
  return rows[0]!.entries
}

/** Removes a chunk with all that it holds. */
export async function dropChunk(db: Db, chunk: number): Promise<void> {
  await db.transaction().execute(async (trx) => {
    // One table a transaction: two of them at once could wait in a circle with somebody who removes many documents.
    await sql`drop table if exists ${sql.table(tableOf(chunk))}`.execute(trx)
    await sql`delete from search_passages where chunk = ${chunk}`.execute(trx)
    await sql`delete from search_chunks where number = ${chunk}`.execute(trx)
  })
}

/** Runs a read that names chunks; once more where one of them was dropped meanwhile, because another generation came into force. */
export async function reading<T>(db: Db, read: (chunks: readonly Chunk[]) => Promise<T>): Promise<T> {
  try {
    return await read(await chunksInForce(db))
  } catch (error) {
    if (!isUndefinedTable(error)) throw error
    return read(await chunksInForce(db))
  }
}

export const isUndefinedTable = (error: unknown): boolean => (error as { code?: unknown }).code === '42P01'
