/** Rebuilds the index without downtime: fills a new generation of segments while the live one serves searches. */
import { sql } from 'kysely'
import { type Db, isUnavailable } from '../../../../db/pool.ts'
import type { IndexRebuild } from '../../../../ports/search-engine.ts'
import type { StoredWords } from '../../../vocabulary/vocabulary.ts'
import { indexDocuments } from './index-documents.ts'
import { createIndex, dropSegment, isUndefinedTable, openBlock, openSegment, sizeOf, tableOf } from './segments.ts'

/** Maximum number of concurrent batches. PostgreSQL writes some while this process analyzes another. */
const maxBatches = 4
const batchSize = 100
/** Number of documents that cannot be indexed after which the fault is not in the documents: the rebuild fails. */
const maxOmitted = 100

/** Returns the size of the next segment and of its blocks, given the number of documents left. */
export type SegmentSizes = (left: number) => { readonly segment: number; readonly block: number }

/** Begins a new generation. Deletes other generations that are not live. */
export async function rebuild(db: Db, stored: StoredWords, sizesFor: SegmentSizes): Promise<IndexRebuild> {
  await dropOtherGenerations(db)
  let left = await countDocuments(db)
  const { rows } = await sql<{ generation: number }>`
    select greatest(search_generation.number, max(generation)) + 1 as generation from search_generation left join search_segments on true
    group by search_generation.number`.execute(db)
  const { generation } = rows[0]!
  let segment = await openSegment(db, generation, false)
  let sizes = sizesFor(left)
  let room = sizes.segment
  let roomInBlock = sizes.block
  let isFilling = true
  let indexing: Promise<unknown> = Promise.resolve()

  /** Builds the GIN index of a full segment while the next segment is filled. */
  const finish = async (number: number) => {
    await indexing
    indexing = createIndex(db, number).then(() => sql`vacuum analyze ${sql.table(tableOf(number))}`.execute(db))
    // A failure is thrown to whoever awaits it next.
    indexing.catch(() => {})
  }

  const omitted = new Map<string, unknown>()
  /** Indexes a batch. If it fails, indexes its documents one by one, and omits those that fail alone. */
  const write = async (ids: readonly string[]): Promise<void> => {
    try {
      await indexDocuments(db, stored, ids, generation)
      for (const id of ids) omitted.delete(id)
    } catch (error) {
      const [id, ...others] = ids
      if (id === undefined || isUnavailable(error) || isUndefinedTable(error)) throw error
      if (others.length > 0) for (const one of ids) await write([one])
      else if (omitted.set(id, error).size > maxOmitted) throw error
    }
  }

  const running = new Set<Promise<void>>()
  let failure: unknown
  /** Starts a batch once a slot is free. The next call throws if a batch has failed. */
  const start = async (ids: readonly string[]) => {
    while (running.size >= maxBatches) await Promise.race(running)
    if (failure) throw failure
    const batch: Promise<void> = write(ids)
      .catch((error) => {
        failure ??= error
      })
      .finally(() => running.delete(batch))
    running.add(batch)
  }
  const allWritten = async () => {
    await Promise.all(running)
    if (failure) throw failure
  }

  const fill = async (ids: readonly string[]) => {
    for (let from = 0; from < ids.length; ) {
      if (room === 0) {
        await allWritten()
        await finish(segment)
        segment = await openSegment(db, generation, false)
        sizes = sizesFor(left)
        room = sizes.segment - (await sizeOf(db, segment))
        roomInBlock = sizes.block
      }
      if (roomInBlock === 0) {
        await openBlock(db, { number: segment }, ids[from]!)
        roomInBlock = sizes.block
      }
      const some = ids.slice(from, from + Math.min(room, roomInBlock, batchSize))
      await start(some)
      room -= some.length
      roomInBlock -= some.length
      left -= some.length
      from += some.length
    }
  }

  return {
    omitted,
    put: (ids) => (isFilling ? fill(ids.toSorted()) : write(ids)),
    async complete() {
      await allWritten()
      if (isFilling) await finish(segment)
      isFilling = false
      await indexing
      const numbers = await segmentsOf(db, generation)
      const counts = await Promise.all(numbers.map((number) => sizeOf(db, number)))
      return counts.reduce((sum, count) => sum + count, 0)
    },
    async swap() {
      await sql`update search_generation set number = ${generation}`.execute(db)
      await dropOtherGenerations(db)
    },
    async discard() {
      await Promise.all(running)
      await indexing.catch(() => {})
      await dropOtherGenerations(db)
    },
  }
}

async function countDocuments(db: Db): Promise<number> {
  const { rows } = await sql<{ count: number }>`select count(*)::integer as count from live_documents`.execute(db)
  return rows[0]!.count
}

async function segmentsOf(db: Db, generation: number): Promise<number[]> {
  const { rows } = await sql<{ number: number }>`select number from search_segments where generation = ${generation}`.execute(db)
  return rows.map(({ number }) => number)
}

async function dropOtherGenerations(db: Db): Promise<void> {
  const { rows } = await sql<{ number: number }>`
    select number from search_segments where generation <> (select number from search_generation) order by number`.execute(db)
  for (const { number } of rows) await dropSegment(db, number)
}
