/** Rebuilds the index without downtime: fills a new generation of segments while the live one serves searches. */
import { sql } from 'kysely'
import { mapConcurrently } from '../../../../concurrency.ts'
import { withCancellation } from '../../../../db/cancellation.ts'
import { type Db, isUnavailable } from '../../../../db/pool.ts'
import type { IndexRebuild } from '../../../../ports/search-engine.ts'
import { slicesOf } from '../../../../slices.ts'
import type { StoredWords } from '../../../vocabulary/vocabulary.ts'
import { indexDocuments } from './index-documents.ts'
import {
  completeIndex,
  countEntries,
  createIndex,
  dropSegment,
  growingIndex,
  type Index,
  isUndefinedTable,
  loadSegments,
  openBlock,
  openSegment,
  type SegmentSize,
  tableOf,
} from './segments.ts'

/** Maximum number of concurrent batches. PostgreSQL writes some while this process analyzes another. */
const maxBatches = 4
const batchSize = 100
/** Number of documents that cannot be indexed after which the fault is not in the documents: the rebuild fails. */
const maxOmitted = 100

/** Begins a new generation. Deletes other generations that are not live. `sizeFor`: see openPostgres(). */
export async function rebuild(db: Db, stored: StoredWords, sizeFor: (left: number) => SegmentSize): Promise<IndexRebuild> {
  await dropOtherGenerations(db)
  const { rows } = await sql<{ generation: number; documents: number }>`
    select number + 1 as generation, (select count(*) from live_documents) as documents from search_generation`.execute(db)
  const { generation, documents } = rows[0]!
  let left = documents
  let size = sizeFor(left)
  let segment = await openSegment(db, generation)
  /** Number of documents in the segment. */
  let count = 0
  let isFilling = true
  let indexing: Promise<unknown> = Promise.resolve()
  const omitted = new Map<string, unknown>()

  /** Builds the GIN index of the segment. If it is full, the next one is filled meanwhile. */
  const startIndexing = async (signal?: AbortSignal) => {
    await indexing
    indexing = indexSegment(db, segment, count === size.segment ? completeIndex : growingIndex, signal)
    // A failure is thrown to whoever awaits it next.
    indexing.catch(() => {})
  }

  /** Indexes a batch. If it fails, indexes its documents one by one, and omits those that fail alone. */
  const write = async (ids: readonly string[], signal?: AbortSignal): Promise<void> => {
    try {
      await indexDocuments(db, stored, ids, { generation, signal })
      for (const id of ids) omitted.delete(id)
    } catch (error) {
      signal?.throwIfAborted()
      const [id, ...others] = ids
      if (id === undefined || isUnavailable(error) || isUndefinedTable(error)) throw error
      if (others.length > 0) for (const one of ids) await write([one], signal)
      else if (omitted.set(id, error).size > maxOmitted) throw error
    }
  }

  const fill = async (ids: readonly string[], signal?: AbortSignal) => {
    for (let from = 0; from < ids.length; ) {
      if (count === size.segment) {
        await startIndexing(signal)
        segment = await openSegment(db, generation)
        size = sizeFor(left)
        count = 0
      }
      const inBlock = count % size.block
      if (count > 0 && inBlock === 0) await openBlock(db, segment, ids[from]!)
      const some = ids.slice(from, from + Math.min(size.segment - count, size.block - inBlock))
      await mapConcurrently(slicesOf(some, batchSize), maxBatches, (slice) => write(slice, signal), signal)
      count += some.length
      left -= some.length
      from += some.length
    }
  }

  return {
    omitted,
    put: (ids, signal) => (isFilling ? fill(ids.toSorted(), signal) : write(ids, signal)),
    async complete(signal) {
      if (isFilling) await startIndexing(signal)
      isFilling = false
      await indexing
      const counts = await Promise.all((await loadSegments(db, generation)).map(({ number }) => countEntries(db, number)))
      return counts.reduce((sum, count) => sum + count, 0)
    },
    async swap() {
      await sql`update search_generation set number = ${generation}`.execute(db)
      await dropOtherGenerations(db)
    },
    async discard() {
      await indexing.catch(() => {})
      await dropOtherGenerations(db)
    },
  }
}

const indexSegment = (db: Db, segment: number, index: Index, signal?: AbortSignal): Promise<void> =>
  withCancellation(db, signal, async (connection) => {
    await createIndex(connection, segment, index)
    signal?.throwIfAborted()
    await sql`vacuum analyze ${sql.table(tableOf(segment))}`.execute(connection)
  })

async function dropOtherGenerations(db: Db): Promise<void> {
  const { rows } = await sql<{ number: number }>`
    select number from search_segments where generation <> (select number from search_generation) order by number`.execute(db)
  for (const { number } of rows) await dropSegment(db, number)
}
