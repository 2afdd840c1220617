/** Makes the index anew, in chunks of a generation of their own. */
import { sql } from 'kysely'
import type { Db } from '../../../db/pool.ts'
import type { IndexRebuild } from '../../../ports/search-engine.ts'
import { refresh } from './index-documents.ts'
import { createIndex, dropChunk, openBlock, openChunk, sizeOf, tableOf } from './segments.ts'
import type { Memory } from './vocabulary.ts'

/** While one part of the documents is read here, others are written there. */
const atOnce = 4
/** Documents of one part. */
const partSize = 100

/** How many documents the next chunk is to hold, of so many that are left; and each of its blocks. */
export type Sizes = (left: number) => { readonly chunk: number; readonly block: number }

/** Begins a generation, in chunks of these sizes; those that are not in force are removed. */
export async function rebuild(db: Db, known: Memory, sizes: Sizes): Promise<IndexRebuild> {
  await dropOthers(db)
  let left = await documentCount(db)
  const { rows } = await sql<{ generation: number }>`
    select greatest(search_generation.number, max(generation)) + 1 as generation from search_generation left join search_chunks on true
    group by search_generation.number`.execute(db)
  const { generation } = rows[0]!
  let chunk = await openChunk(db, generation, false)
  let size = sizes(left)
  let room = size.chunk
  let roomInBlock = size.block
  let isFilling = true
  let indexing: Promise<unknown> = Promise.resolve()

  /** A whole chunk is indexed in one go, while the next one is filled. */
  const finish = async (number: number) => {
    await indexing
    indexing = createIndex(db, number).then(() => sql`vacuum analyze ${sql.table(tableOf(number))}`.execute(db))
    // Heard by whoever waits for it next.
    indexing.catch(() => {})
  }

  const running = new Set<Promise<void>>()
  let failure: unknown
  /** Waits for room alone: whoever comes next hears of a failure. */
  const begin = async (ids: readonly string[]) => {
    while (running.size >= atOnce) await Promise.race(running)
    if (failure) throw failure
    const one: Promise<void> = refresh(db, known, ids, generation)
      .catch((error) => {
        failure ??= error
      })
      .finally(() => running.delete(one))
    running.add(one)
  }
  const allWritten = async () => {
    await Promise.all(running)
    if (failure) throw failure
  }

  const fill = async (ids: readonly string[]) => {
    for (let start = 0; start < ids.length; ) {
      if (room === 0) {
        await allWritten()
        await finish(chunk)
        chunk = await openChunk(db, generation, false)
        size = sizes(left)
        room = size.chunk - (await sizeOf(db, chunk))
        roomInBlock = size.block
      }
      if (roomInBlock === 0) {
        await openBlock(db, { number: chunk }, ids[start]!)
        roomInBlock = size.block
      }
      const some = ids.slice(start, start + Math.min(room, roomInBlock, partSize))
      await begin(some)
      room -= some.length
      roomInBlock -= some.length
      left -= some.length
      start += some.length
    }
  }

  return {
    put: (ids) => (isFilling ? fill(ids.toSorted()) : refresh(db, known, ids, generation)),
    async settle() {
      await allWritten()
      if (isFilling) await finish(chunk)
      isFilling = false
      await indexing
      const numbers = await chunksOf(db, generation)
      const sizes = await Promise.all(numbers.map((number) => sizeOf(db, number)))
      return sizes.reduce((sum, size) => sum + size, 0)
    },
    async swap() {
      await sql`update search_generation set number = ${generation}`.execute(db)
      await dropOthers(db)
    },
    async discard() {
      await Promise.all(running)
      await indexing.catch(() => {})
      await dropOthers(db)
    },
  }
}

async function documentCount(db: Db): Promise<number> {
  const { rows } = await sql<{ count: number }>`select count(*)::integer as count from documents`.execute(db)
  return rows[0]!.count
}

async function chunksOf(db: Db, generation: number): Promise<number[]> {
  const { rows } = await sql<{ number: number }>`select number from search_chunks where generation = ${generation}`.execute(db)
  return rows.map(({ number }) => number)
}

async function dropOthers(db: Db): Promise<void> {
  const { rows } = await sql<{ number: number }>`
    select number from search_chunks where generation <> (select number from search_generation) order by number`.execute(db)
  for (const { number } of rows) await dropChunk(db, number)
}
