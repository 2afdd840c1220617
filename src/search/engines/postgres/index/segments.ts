/** Segments: tables that each index a range of document ids. The newest is searched first. */
import { type RawBuilder, sql } from 'kysely'
import type { Db, Trx } from '../../../../db/pool.ts'
import { nilId } from '../../../../id.ts'

/** Version of the format of entries. `search reindex --if-needed` replaces entries of older versions. */
export const indexVersion = 1

export interface Segment {
  readonly number: number
  readonly generation: number
  /** Lowest document id of the segment. It ends before the next segment of its generation. */
  readonly fromId: string
  /** Lowest document id of each block, oldest first. */
  readonly blocks: readonly string[]
}

export const tableOf = (segment: number): string => `search_segment_${segment}`

/** Returns the rows of a segment as a table `entry`. */
export const entriesOf = ({ number }: Segment): RawBuilder<unknown> =>
  sql`(select *, ${sql.lit(number)}::integer as segment from ${sql.table(tableOf(number))}) entry`

interface SegmentRow {
  number: number
  generation: number
  from_id: string
  blocks: string[]
}

const toSegment = ({ from_id, ...row }: SegmentRow): Segment => ({ ...row, fromId: from_id })

/** Returns the segments of the live generation, newest first. */
export async function liveSegments(db: Db): Promise<Segment[]> {
  const { rows } = await sql<SegmentRow>`
    select search_segments.number, generation, from_id, blocks from search_segments
    join search_generation on generation = search_generation.number order by from_id desc`.execute(db)
  return rows.map(toSegment)
}

/** Returns the segments of a generation (null: the live one), newest first. Prevents new segments until the transaction ends. */
export async function segmentsForWrite(trx: Trx, generation: number | null): Promise<Segment[]> {
  await sql`select pg_advisory_xact_lock_shared(hashtext('dms search'), hashtext('segments'))`.execute(trx)
  const { rows } = await sql<SegmentRow>`
    select number, generation, from_id, blocks from search_segments
    where generation = coalesce(${generation}::integer, (select number from search_generation)) order by from_id desc`.execute(trx)
  return rows.map(toSegment)
}

/** Returns the segment of a document. */
export const segmentFor = (segments: readonly Segment[], id: string): Segment => segments.find(({ fromId }) => fromId <= id)!

/** Returns the number of the block that a document is in. */
export const blockFor = ({ blocks }: Segment, id: string): number =>
  Math.max(
    0,
    blocks.findLastIndex((fromId) => fromId <= id),
  )

/** Opens a segment after the newest of a generation, unless that one is empty. Returns the number of the newest. */
export async function openSegment(db: Db, generation: number, withIndex: boolean): Promise<number> {
  return db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(hashtext('dms search'), hashtext('segments'))`.execute(trx)
    const [newest] = await segmentsForWrite(trx, generation)
    const last = newest && (await lastId(trx, newest))
    if (newest && last === undefined) return newest.number
    const { rows } = await sql<{ number: number }>`
      insert into search_segments (generation, from_id, blocks)
      select ${generation}, from_id, array[from_id] from (select ${last ? nextId(last) : nilId}::uuid as from_id) beginning
      returning number`.execute(trx)
    const { number } = rows[0]!
    await sql`create table ${sql.table(tableOf(number))} (like search_segment_template including all)`.execute(trx)
    if (withIndex) await createIndex(trx, number)
    return number
  })
}

/** Begins a block at an id. Concurrent writers may still use the previous block, because searches read both. */
export async function openBlock(db: Db, { number }: Pick<Segment, 'number'>, fromId: string): Promise<void> {
  await sql`update search_segments set blocks = blocks || ${fromId}::uuid where number = ${number} and blocks[cardinality(blocks)] < ${fromId}::uuid`.execute(
    db,
  )
}

/** Begins a new block after the last entry of a segment if the newest block holds `blockSize` entries. */
export async function growBlocks(db: Db, segment: Segment, blockSize: number): Promise<void> {
  const { rows } = await sql<{ entries: number }>`
    select count(*) as entries from ${sql.table(tableOf(segment.number))} where document_id >= ${segment.blocks.at(-1)!}`.execute(db)
  const last = rows[0]!.entries >= blockSize && (await lastId(db, segment))
  if (last) await openBlock(db, segment, nextId(last))
}

async function lastId(db: Db, { number }: Segment): Promise<string | undefined> {
  const { rows } = await sql<{ document_id: string }>`
    select document_id from ${sql.table(tableOf(number))} order by document_id desc limit 1`.execute(db)
  return rows[0]?.document_id
}

function nextId(id: string): string {
  const next = (BigInt(`0x${id.replaceAll('-', '')}`) + 1n).toString(16).padStart(32, '0')
  return next.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** Size of the pending list in kB. Searches read it sequentially; larger lists cost less WAL (bench/search-write.ts). */
const pendingListKb = 16_384

export async function createIndex(db: Db, segment: number): Promise<void> {
  const table = sql.table(tableOf(segment))
  await sql`create index on ${table} using gin (words, tags) with (gin_pending_list_limit = ${sql.lit(pendingListKb)})`.execute(db)
}

/** Returns the number of entries of a segment. */
export async function sizeOf(db: Db, segment: number): Promise<number> {
  const { rows } = await sql<{ entries: number }>`select count(*) as entries from ${sql.table(tableOf(segment))}`.execute(db)
  return rows[0]!.entries
}

/** Deletes a segment with its entries. */
export async function dropSegment(db: Db, segment: number): Promise<void> {
  await db.transaction().execute(async (trx) => {
    // One table per transaction: locks on two tables could deadlock with a transaction that deletes many documents.
    await sql`drop table if exists ${sql.table(tableOf(segment))}`.execute(trx)
    await sql`delete from search_passages where segment = ${segment}`.execute(trx)
    await sql`delete from search_segments where number = ${segment}`.execute(trx)
  })
}

/** Reads from the live segments. Retries once if a rebuild dropped one of them meanwhile. */
export async function withSegments<T>(db: Db, read: (segments: readonly Segment[]) => Promise<T>): Promise<T> {
  try {
    return await read(await liveSegments(db))
  } catch (error) {
    if (!isUndefinedTable(error)) throw error
    return read(await liveSegments(db))
  }
}

export const isUndefinedTable = (error: unknown): boolean => (error as { code?: unknown }).code === '42P01'
