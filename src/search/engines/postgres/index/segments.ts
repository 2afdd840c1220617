/** Segments: the index is cut by document id into tables, of which the newest is searched first. */
import { type RawBuilder, sql } from 'kysely'
import type { Db, Trx } from '../../../../db/pool.ts'

/** The version of an entry's form. Raise it when the form changes: `search reindex --if-needed` replaces older entries. */
export const indexVersion = 1

export interface Segment {
  readonly number: number
  readonly generation: number
  /** The least id that it may hold; it ends where the next segment of its generation begins. */
  readonly fromId: string
  /** The least id of each of its blocks, the oldest first. */
  readonly blocks: readonly string[]
}

const leastId = '00000000-0000-0000-0000-000000000000'

export const tableOf = (segment: number): string => `search_segment_${segment}`

/** The rows of a segment, as `entry` of a query. */
export const entriesOf = ({ number }: Segment): RawBuilder<unknown> =>
  sql`(select *, ${sql.lit(number)}::integer as segment from ${sql.table(tableOf(number))}) entry`

interface SegmentRow {
  number: number
  generation: number
  from_id: string
  blocks: string[]
}

const toSegment = ({ from_id, ...row }: SegmentRow): Segment => ({ ...row, fromId: from_id })

/** The segments of the live generation, the newest first. */
export async function liveSegments(db: Db): Promise<Segment[]> {
  const { rows } = await sql<SegmentRow>`
    select search_segments.number, generation, from_id, blocks from search_segments
    join search_generation on generation = search_generation.number order by from_id desc`.execute(db)
  return rows.map(toSegment)
}

/** The segments of a generation (null: the live one), the newest first. None is opened until the transaction ends. */
export async function segmentsForWrite(trx: Trx, generation: number | null): Promise<Segment[]> {
  await sql`select pg_advisory_xact_lock_shared(hashtext('dms search'), hashtext('segments'))`.execute(trx)
  const { rows } = await sql<SegmentRow>`
    select number, generation, from_id, blocks from search_segments
    where generation = coalesce(${generation}::integer, (select number from search_generation)) order by from_id desc`.execute(trx)
  return rows.map(toSegment)
}

/** The segment that a document belongs to. */
export const segmentFor = (segments: readonly Segment[], id: string): Segment => segments.find(({ fromId }) => fromId <= id)!

/** The number of the block that a document belongs to. */
export const blockFor = ({ blocks }: Segment, id: string): number =>
  Math.max(
    0,
    blocks.findLastIndex((fromId) => fromId <= id),
  )

/** Opens a new segment behind the newest of a generation, unless that is empty; returns the number of the newest. */
export async function openSegment(db: Db, generation: number, withIndex: boolean): Promise<number> {
  return db.transaction().execute(async (trx) => {
    await sql`select pg_advisory_xact_lock(hashtext('dms search'), hashtext('segments'))`.execute(trx)
    const [newest] = await segmentsForWrite(trx, generation)
    const last = newest && (await lastId(trx, newest))
    if (newest && last === undefined) return newest.number
    const { rows } = await sql<{ number: number }>`
      insert into search_segments (generation, from_id, blocks)
      select ${generation}, from_id, array[from_id] from (select ${last ? nextId(last) : leastId}::uuid as from_id) beginning
      returning number`.execute(trx)
    const { number } = rows[0]!
    await sql`create table ${sql.table(tableOf(number))} (like search_segment_template including all)`.execute(trx)
    if (withIndex) await createIndex(trx, number)
    return number
  })
}

/** Begins a block at an id. A writer that has not seen it yet puts such documents into the block before, where searches find them too. */
export async function openBlock(db: Db, { number }: Pick<Segment, 'number'>, fromId: string): Promise<void> {
  await sql`update search_segments set blocks = blocks || ${fromId}::uuid where number = ${number} and blocks[cardinality(blocks)] < ${fromId}::uuid`.execute(
    db,
  )
}

/** Begins a block behind the last entry of a segment once the newest block holds `blockSize` entries. */
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

/** Kilobytes of new entries that a search reads one by one before they are merged into the index. */
const pendingListKb = 16_384

export async function createIndex(db: Db, segment: number): Promise<void> {
  const table = sql.table(tableOf(segment))
  await sql`create index on ${table} using gin (words, tags) with (gin_pending_list_limit = ${sql.lit(pendingListKb)})`.execute(db)
}

/** How many entries a segment has. */
export async function sizeOf(db: Db, segment: number): Promise<number> {
  const { rows } = await sql<{ entries: number }>`select count(*) as entries from ${sql.table(tableOf(segment))}`.execute(db)
  return rows[0]!.entries
}

/** Removes a segment with its entries. */
export async function dropSegment(db: Db, segment: number): Promise<void> {
  await db.transaction().execute(async (trx) => {
    // One table per transaction: locks on two could deadlock with a transaction that deletes many documents.
    await sql`drop table if exists ${sql.table(tableOf(segment))}`.execute(trx)
    await sql`delete from search_passages where segment = ${segment}`.execute(trx)
    await sql`delete from search_segments where number = ${segment}`.execute(trx)
  })
}

/** Runs a read over the live segments; repeats it once if one of them was dropped meanwhile by a rebuild. */
export async function withSegments<T>(db: Db, read: (segments: readonly Segment[]) => Promise<T>): Promise<T> {
  try {
    return await read(await liveSegments(db))
  } catch (error) {
    if (!isUndefinedTable(error)) throw error
    return read(await liveSegments(db))
  }
}

export const isUndefinedTable = (error: unknown): boolean => (error as { code?: unknown }).code === '42P01'
