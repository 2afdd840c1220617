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
  /** Whether rows have a column for deferred tags. Those of earlier versions have all tags in one. */
  readonly hasDeferredTags: boolean
}

export const tableOf = (segment: number): string => `search_segment_${segment}`

/** Returns the rows of a segment as a table `entry`. */
export const entriesOf = ({ number, hasDeferredTags }: Segment): RawBuilder<unknown> => sql`(
  select document_id, words, tags, ${hasDeferredTags ? sql`deferred_tags` : sql`tags as deferred_tags`}, parts, created_at, document_date, confidence,
    version, mime_type, label_ids, ${sql.lit(number)}::integer as segment
  from ${sql.table(tableOf(number))}) entry`

/** Returns the segments of a generation (null: the live one), newest first. */
export async function loadSegments(db: Db, generation: number | null = null): Promise<Segment[]> {
  const { rows } = await sql<Segment>`
    select number, generation, from_id as "fromId", blocks, has_deferred_tags as "hasDeferredTags" from search_segments
    where generation = coalesce(${generation}::integer, (select number from search_generation)) order by from_id desc`.execute(db)
  return rows
}

/** Locks the segments until the transaction ends: `share` prevents new ones. */
export async function lockSegments(trx: Trx, mode: 'share' | 'exclusive'): Promise<void> {
  const lock = sql.raw(mode === 'share' ? 'pg_advisory_xact_lock_shared' : 'pg_advisory_xact_lock')
  await sql`select ${lock}(hashtext('dms search'), hashtext('segments'))`.execute(trx)
}

/** Returns the segment of a document. */
export const segmentFor = (segments: readonly Segment[], id: string): Segment => segments.find(({ fromId }) => fromId <= id)!

/** Returns the number of the block that a document of the segment is in. */
export const blockFor = ({ blocks }: Segment, id: string): number => blocks.findLastIndex((fromId) => fromId <= id)

/** Opens a segment after the newest of a generation, unless that one is empty, and creates `index` on it. Returns the number of the newest. */
export async function openSegment(db: Db, generation: number, index?: Index): Promise<number> {
  return db.transaction().execute(async (trx) => {
    await lockSegments(trx, 'exclusive')
    const [newest] = await loadSegments(trx, generation)
    const fromId = newest ? await nextId(trx, newest) : nilId
    if (fromId === null) return newest!.number
    const { rows } = await sql<{ number: number }>`
      insert into search_segments (generation, from_id, blocks) values (${generation}, ${fromId}, array[${fromId}::uuid]) returning number`.execute(
      trx,
    )
    const { number } = rows[0]!
    await sql`create table ${sql.table(tableOf(number))} (like search_segment_template including all)`.execute(trx)
    if (index) await createIndex(trx, number, index)
    return number
  })
}

/** Begins a block at an id. Concurrent writers may still use the previous block, because searches read both. */
export async function openBlock(db: Db, segment: number, fromId: string): Promise<void> {
  await sql`
    update search_segments set blocks = blocks || ${fromId}::uuid
    where number = ${segment} and blocks[cardinality(blocks)] < ${fromId}::uuid`.execute(db)
}

/** Numbers of documents of a segment and of a block. */
export interface SegmentSize {
  readonly segment: number
  readonly block: number
}

/** Opens a new segment if the newest one is full, otherwise a new block if the newest block is full. */
export async function growIndex(db: Db, size: SegmentSize): Promise<void> {
  const newest = (await loadSegments(db))[0]!
  if ((await countEntries(db, newest.number)) >= size.segment) await openSegment(db, newest.generation, growingIndex)
  else if ((await countEntries(db, newest.number, newest.blocks.at(-1))) >= size.block) {
    const fromId = await nextId(db, newest)
    if (fromId !== null) await openBlock(db, newest.number, fromId)
  }
}

/** Returns the lowest id after the entries of a segment; null if it is empty. */
async function nextId(db: Db, { number }: Segment): Promise<string | null> {
  const { rows } = await sql<{ id: string }>`
    select document_id as id from ${sql.table(tableOf(number))} order by document_id desc limit 1`.execute(db)
  if (!rows[0]) return null
  const next = (BigInt(`0x${rows[0].id.replaceAll('-', '')}`) + 1n).toString(16).padStart(32, '0')
  return next.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** Size of the pending list in kB. Searches read it sequentially; larger lists cost less WAL (bench/search-write.ts). */
const pendingListKb = 16_384

export interface Index {
  readonly name: 'growing' | 'complete'
  readonly columns: RawBuilder<unknown>
}

/** The index of a segment that documents are added to. */
export const growingIndex: Index = { name: 'growing', columns: sql`words, tags` }
/** The index of a full segment, built in one pass. */
export const completeIndex: Index = { name: 'complete', columns: sql`words, tags, deferred_tags` }

const indexName = (segment: number, { name }: Index): string => `${tableOf(segment)}_${name}`

/** Creates an index of a segment. `concurrently`: writers do not wait; not in a transaction. */
export async function createIndex(db: Db, segment: number, index: Index, { concurrently = false } = {}): Promise<void> {
  await sql`
    create index ${concurrently ? sql`concurrently` : sql``} ${sql.id(indexName(segment, index))} on ${sql.table(tableOf(segment))}
    using gin (${index.columns}) with (gin_pending_list_limit = ${sql.lit(pendingListKb)})`.execute(db)
}

/** Gives each full segment its complete index, unless another process is doing so. */
export async function completeIndexes(db: Db): Promise<void> {
  if ((await loadIncomplete(db)).length === 0) return
  await db.connection().execute(async (connection) => {
    const lock = sql`hashtext('dms search'), hashtext('complete')`
    const { rows } = await sql<{ got: boolean }>`select pg_try_advisory_lock(${lock}) as got`.execute(connection)
    if (!rows[0]!.got) return
    try {
      // Another process may have completed some of them before the lock.
      for (const segment of await loadIncomplete(connection)) await completeOne(connection, segment)
    } catch (error) {
      // A rebuild has replaced the generation.
      if (!isUndefinedTable(error)) throw error
    } finally {
      await sql`select pg_advisory_unlock(${lock})`.execute(connection)
    }
  })
}

/** Returns the live segments that are full but still have the index of a growing segment. */
async function loadIncomplete(db: Db): Promise<number[]> {
  const [, ...full] = await loadSegments(db)
  const names = full.map(({ number }) => indexName(number, growingIndex))
  const { rows } = await sql<{ exists: boolean }>`
    select to_regclass(name) is not null as exists from unnest(${names}::text[]) with ordinality as index (name, nth) order by nth`.execute(
    db,
  )
  return full.filter((_, nth) => rows[nth]!.exists).map(({ number }) => number)
}

async function completeOne(db: Db, segment: number): Promise<void> {
  const drop = (index: Index) => sql`drop index concurrently if exists ${sql.id(indexName(segment, index))}`.execute(db)
  // That of a build which was killed is invalid.
  await drop(completeIndex)
  await createIndex(db, segment, completeIndex, { concurrently: true })
  await drop(growingIndex)
}

/** Returns the number of entries of a segment, from an id on. */
export async function countEntries(db: Db, segment: number, fromId: string = nilId): Promise<number> {
  const { rows } = await sql<{ entries: number }>`
    select count(*) as entries from ${sql.table(tableOf(segment))} where document_id >= ${fromId}::uuid`.execute(db)
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

/** Reads from the live segments. */
export const withSegments = <T>(db: Db, read: (segments: readonly Segment[]) => Promise<T>): Promise<T> =>
  retryAfterSwap(async () => read(await loadSegments(db)))

/** Repeats work on segments once if a rebuild has dropped one of them meanwhile. */
export async function retryAfterSwap<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (!isUndefinedTable(error)) throw error
    return work()
  }
}

export const isUndefinedTable = (error: unknown): boolean => (error as { code?: unknown }).code === '42P01'
