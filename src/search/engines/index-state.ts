/** Rules for indexes outside the database: answers while the index does not exist, and the expected number of entries. */
import { sql } from 'kysely'
import type { Db } from '../../db/pool.ts'
import { AppError } from '../../errors.ts'
import { noHits, retryLater, type SearchAnswer } from '../../ports/search-engine.ts'

/** Error of a request that needs the index. */
export const missingIndex = () =>
  new AppError('SERVICE_UNAVAILABLE', retryLater, 'The search index does not exist. Fix: dms search reindex')

/** Returns no hits if there are no documents. Throws SERVICE_UNAVAILABLE otherwise. */
export async function answerWithoutIndex(db: Db): Promise<SearchAnswer> {
  if ((await documentCount(db, 1)) === 0) return noHits
  throw missingIndex()
}

/** Maximum number of documents that refresh() puts into a missing index. */
const maxInitialDocuments = 1000

/** Returns all documents for a new index. Throws SERVICE_UNAVAILABLE if there are too many: an incomplete index would hide documents, so only a reindex creates it. */
export async function loadInitialDocuments(db: Db): Promise<string[]> {
  const { rows } = await sql<{ id: string }>`select id from live_documents limit ${maxInitialDocuments + 1}`.execute(db)
  if (rows.length > maxInitialDocuments) throw missingIndex()
  return rows.map(({ id }) => id)
}

/** Counts the documents that the index should contain, at most `max`. */
export async function documentCount(db: Db, max: number | null = null): Promise<number> {
  const { rows } = await sql<{ count: number }>`
    select count(*)::integer as count from (select from live_documents limit ${max}) live`.execute(db)
  return rows[0]!.count
}
